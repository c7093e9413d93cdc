//! Identifiers: a ULID with a prefix that says what it names.

use std::{
    fmt,
    str::FromStr,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::clock::Timestamp;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// What every id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// A new id; ids sort by the time they were made.
            #[must_use]
            pub fn generate() -> Self { Self(format!(concat!($prefix, "{}"), Ulid::generate())) }

            /// A new id made at `at`. Those that this process makes at one moment, and none of another between, sort as they
            /// were made.
            #[must_use]
            pub fn of_time(at: Timestamp) -> Self {
                Self(format!(concat!($prefix, "{}"), ordered(at)))
            }

            /// The first id that can be made at `at`, for ranges.
            #[must_use]
            pub fn first_of(at: Timestamp) -> Self {
                Self(format!(concat!($prefix, "{}"), Ulid::from_parts(at.0, 0)))
            }

            /// When it was made.
            #[must_use]
            pub fn made_at(&self) -> Timestamp {
                Timestamp(Ulid::from_string(&self.0[$prefix.len()..]).map_or(0, |ulid| ulid.timestamp_ms()))
            }

            /// What tells it from others of its kind, in as few bytes as there are. They sort as the ids do.
            #[must_use]
            pub fn packed(&self) -> [u8; 16] {
                Ulid::from_string(&self.0[$prefix.len()..]).map_or([0; 16], |ulid| ulid.to_bytes())
            }

            /// The id as it is written.
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

/// A ULID of `at`, in order.
fn ordered(at: Timestamp) -> Ulid {
    static LAST: Mutex<Ulid> = Mutex::new(Ulid::nil());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last = after(*last, at);
    *last
}

/// A ULID of `at`: of the same moment as the last one, it is the next. The library's own generator would give an earlier
/// moment than the last one's the last one's, and ids tell when they were made.
fn after(last: Ulid, at: Timestamp) -> Ulid {
    let next = if last.timestamp_ms() == at.0 { last.increment().ok() } else { None };
    next.unwrap_or_else(|| Ulid::from_parts(at.0, Ulid::generate().random()))
}

/// A text that is not an id of the kind wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an id of the form `{0}` and 26 characters")]
pub struct IdError(&'static str);

ids! {
    /// An endpoint; stays the same when its slug's handler or price changes.
    EndpointId "ep_";
    /// A builder.
    BuilderId "bld_";
    /// A receipt.
    ReceiptId "rcpt_";
    /// One call of a handler.
    CallId "call_";
    /// One HTTP request, in `x-request-id`.
    RequestId "req_";
    /// A prepaid developer credit.
    CreditId "crd_";
    /// An entry of a builder's event feed.
    EventId "evt_";
    /// A payout packet.
    PayoutId "pay_";
    /// An entry of the audit trail.
    AuditId "aud_";
    /// One life of a process that serves a store: whoever starts again is another one.
    ReplicaId "rpl_";
}

/// Identity of a payment: derived from (network, asset, payer, nonce), so that who signed it can compute it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PaymentId(String);

impl PaymentId {
    /// What every id of a payment starts with.
    pub const PREFIX: &'static str = "pmt_";

    /// The identity made of `parts`: the first 16 bytes of their SHA-256, joined by line feeds, in hex.
    #[must_use]
    pub fn of(parts: &[&str]) -> Self {
        let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(parts.join("\n")));
        Self(format!("{}{}", Self::PREFIX, &hash[..32]))
    }

    /// The id as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no payment id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a payment id is `pmt_` and 32 hex digits")]
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
    fn ids_of_one_moment_sort_as_they_were_made() {
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
