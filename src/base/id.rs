//! Identifiers: a ULID with a prefix that says which kind of item it names.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{clock::Timestamp, lock::Lock};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        #[schemars(inline, extend("pattern" = concat!("^", $prefix, "[0-9A-Z]{26}$")))]
        pub struct $name(String);

        impl $name {
            /// The prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Generates a new id. Ids sort by the time at which they were generated.
            #[must_use]
            pub fn generate() -> Self { Self(format!(concat!($prefix, "{}"), Ulid::generate())) }

            /// Generates a new id with the time `at`. Ids that this process makes one after another for the same
            /// millisecond sort in the order in which they were generated.
            #[must_use]
            pub fn of_time(at: Timestamp) -> Self {
                Self(format!(concat!($prefix, "{}"), ordered(at)))
            }

            /// Returns the lowest id that can be generated at `at`, for ranges.
            #[must_use]
            pub fn first_of(at: Timestamp) -> Self {
                Self(format!(concat!($prefix, "{}"), Ulid::from_parts(at.0, 0)))
            }

            /// Returns the time at which the id was generated.
            #[must_use]
            pub fn made_at(&self) -> Timestamp {
                Timestamp(Ulid::from_string(&self.0[$prefix.len()..]).map_or(0, |ulid| ulid.timestamp_ms()))
            }

            /// Returns the id without its prefix as 16 bytes. The bytes sort as the ids do.
            #[must_use]
            pub fn packed(&self) -> [u8; 16] {
                Ulid::from_string(&self.0[$prefix.len()..]).map_or([0; 16], |ulid| ulid.to_bytes())
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str { &self.0 }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str { &self.0 }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                match text.strip_prefix($prefix).map(Ulid::from_string) {
                    Some(Ok(_)) => Ok(Self(text.to_owned())),
                    _ => Err(IdError($prefix)),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> { text.parse() }
        }

    )*};
}

/// Returns a ULID for `at` that sorts after the last one generated for that time.
fn ordered(at: Timestamp) -> Ulid {
    static LAST: Lock<Ulid> = Lock::new(Ulid::nil());
    let mut last = LAST.lock();
    *last = after(*last, at);
    *last
}

/// Returns a ULID for `at`. If the last one has the same time, returns its successor. The library's own monotonic
/// generator would replace an earlier time with the last one's, but ids must show when they were generated.
fn after(last: Ulid, at: Timestamp) -> Ulid {
    let next = if last.timestamp_ms() == at.0 { last.increment().ok() } else { None };
    next.unwrap_or_else(|| Ulid::from_parts(at.0, Ulid::generate().random()))
}

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id must be `{0}` and 26 characters")]
pub struct IdError(&'static str);

ids! {
    /// Identifies an endpoint. It stays the same when the handler or price changes.
    EndpointId "ep_";
    /// Identifies a builder.
    BuilderId "bld_";
    /// Identifies a receipt.
    ReceiptId "rcpt_";
    /// Identifies one call of a handler.
    CallId "call_";
    /// Identifies one HTTP request, in `x-request-id`.
    RequestId "req_";
    /// Identifies a prepaid developer credit.
    CreditId "crd_";
    /// Identifies an entry of a builder's event feed.
    EventId "evt_";
    /// Identifies a payout.
    PayoutId "pay_";
    /// Identifies an entry of the audit trail.
    AuditId "aud_";
    /// Identifies one run of a process that serves a store. Every start gets a new id.
    ReplicaId "rpl_";
}

/// Identifies a payment. It is derived from network, asset, payer and nonce, so that the payer can compute it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PaymentId(String);

impl PaymentId {
    /// The prefix of every payment id.
    pub const PREFIX: &'static str = "pmt_";

    /// Derives the id from `parts`: the first 16 bytes, in hex, of the SHA-256 of the parts joined by line feeds.
    #[must_use]
    pub fn of(parts: &[&str]) -> Self {
        let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(parts.join("\n")));
        Self(format!("{}{}", Self::PREFIX, &hash[..32]))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for PaymentId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a payment id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a payment id must be `pmt_` and 32 hex digits")]
pub struct PaymentIdError;

impl FromStr for PaymentId {
    type Err = PaymentIdError;

    fn from_str(text: &str) -> Result<Self, PaymentIdError> {
        let digits = text.strip_prefix(Self::PREFIX).ok_or(PaymentIdError)?;
        let plain = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if plain { Ok(Self(text.to_owned())) } else { Err(PaymentIdError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_sort_in_order_of_creation() {
        let at = Timestamp(1_234_567_890_123);
        let first = after(Ulid::generate(), at);
        let made: Vec<_> = std::iter::successors(Some(first), |last| Some(after(*last, at))).take(100).collect();
        assert!(made.iter().all(|id| id.timestamp_ms() == at.0));
        assert!(made.is_sorted_by(|one, next| one < next));
        let earlier = Timestamp(at.0 - 1);
        assert_eq!(after(first, earlier).timestamp_ms(), earlier.0);
        assert_eq!(EventId::of_time(at).made_at(), at);
    }
}
