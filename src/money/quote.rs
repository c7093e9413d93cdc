//! Quotes: prices that stay valid for a while, even if the tool's price changes.
//!
//! Nothing is stored. A quote's id contains all of its data and a MAC, whose key is derived from the host's master key.
//! So a quote costs no commit, nobody can fill the store with quotes, and replicas with the same master key accept each
//! other's. An id is neither secret nor personal: anybody can use it any number of times while it is valid.
//!
//! A quote belongs to one tool and fixes only the price. All other terms are the tool's current ones: a call runs the
//! current version, and the payment goes to the configured address.

mod document;

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EndpointId,
    lock::Lock,
};
use tollhouse_tool::MicroUsd;
use ulid::Ulid;
use zeroize::Zeroizing;

pub use self::document::QuoteDocument;
use super::CallTerms;

/// Returns the keys that quote ids may be made with, the current one first.
pub type QuoteKeys = Box<dyn Fn() -> Vec<QuoteKey> + Send + Sync>;

/// Makes and verifies quotes.
pub struct Quotes {
    keys: QuoteKeys,
    remembered: QuoteKeyring,
    lifetime: Duration,
    clock: Clock,
}

/// A price that stays valid for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Its id, for `X-Quote-Id`.
    pub id: String,
    /// The price of a call that names it.
    pub price: MicroUsd,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Why a quote is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum QuoteRefusal {
    #[error("this host did not make this quote")]
    Unknown,
    #[error("the quote is for another tool")]
    OtherTool,
    #[error("the quote expired at {at}")]
    Expired { at: Timestamp },
}

/// The terms of a call, and the quote that they are based on.
#[derive(Debug, Clone)]
pub struct QuotedTerms {
    /// The terms with the price to pay.
    pub terms: Arc<CallTerms>,
    /// The quote's id, or `None` if none was named.
    pub id: Option<String>,
}

impl Quotes {
    /// Constructs quotes that are valid for `lifetime`. Quotes of a removed key stay valid until they expire.
    pub fn new(keys: QuoteKeys, lifetime: Duration, clock: Clock) -> Self {
        Self { keys, remembered: QuoteKeyring::default(), lifetime, clock }
    }

    /// Makes a quote for the current `terms`.
    pub fn make(&self, terms: &CallTerms) -> Quote {
        let created_at = self.clock.now();
        let expires_at = created_at.plus(self.lifetime);
        let message = QuoteClaims { endpoint: terms.endpoint_id.clone(), price: terms.price, metered: terms.metered, expires_at };
        Quote { id: message.written(&self.keys(created_at)[0]), price: terms.price, created_at, expires_at }
    }

    /// Applies a named quote to a tool's current `terms`. Free tools ignore quotes. If a maximum was quoted and the
    /// price is now fixed, the lower of both applies, because nobody reduces the charge of such a call.
    pub fn under(&self, terms: &Arc<CallTerms>, named: Option<&str>) -> Result<QuotedTerms, QuoteRefusal> {
        let Some(id) = named.filter(|_| !terms.price.is_zero()) else { return Ok(QuotedTerms { terms: Arc::clone(terms), id: None }) };
        let now = self.clock.now();
        let keys = self.keys(now);
        let QuoteClaims { endpoint, price, metered, expires_at } = read(id, &keys).ok_or(QuoteRefusal::Unknown)?;
        if endpoint != terms.endpoint_id {
            return Err(QuoteRefusal::OtherTool);
        }
        if expires_at <= now {
            return Err(QuoteRefusal::Expired { at: expires_at });
        }
        let price = if metered && !terms.metered { price.min(terms.price) } else { price };
        let quoted = CallTerms { price, ..CallTerms::clone(terms) };
        Ok(QuotedTerms { terms: Arc::new(quoted), id: Some(id.to_owned()) })
    }

    fn keys(&self, now: Timestamp) -> Vec<QuoteKey> {
        self.remembered.with((self.keys)(), now, self.lifetime)
    }
}

/// Prefix of quote ids.
const PREFIX: &str = "quo_";

const FIXED: u8 = 1;
const AT_MOST: u8 = 2;

/// Number of bytes that the MAC covers.
const CLAIMS_BYTES: usize = 28;

/// The data in a quote's id, which also contains a MAC over it:
///
/// ```text
/// quo_ base64url( kind 1 | expires, ms 6 | price, micro-USD 5 | endpoint 16 | MAC 20 )
/// ```
///
/// 48 bytes are 64 characters without unused bits, so an id has one spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QuoteClaims {
    endpoint: EndpointId,
    price: MicroUsd,
    metered: bool,
    expires_at: Timestamp,
}

impl QuoteClaims {
    fn written(&self, key: &QuoteKey) -> String {
        let message = self.bytes();
        let mut id = PREFIX.to_owned();
        URL_SAFE_NO_PAD.encode_string([&message[..], &key.mac(&message)].concat(), &mut id);
        id
    }

    fn bytes(&self) -> [u8; CLAIMS_BYTES] {
        let mut bytes = [0; CLAIMS_BYTES];
        bytes[0] = if self.metered { AT_MOST } else { FIXED };
        bytes[1..7].copy_from_slice(&self.expires_at.0.to_be_bytes()[2..]);
        bytes[7..12].copy_from_slice(&self.price.0.to_be_bytes()[3..]);
        bytes[12..].copy_from_slice(&ulid(&self.endpoint));
        bytes
    }

    /// Parses bytes whose MAC is verified. `None` for an unknown kind.
    fn of(bytes: &[u8; CLAIMS_BYTES]) -> Option<Self> {
        let metered = match bytes[0] {
            FIXED => false,
            AT_MOST => true,
            _ => return None,
        };
        let endpoint = Ulid::from_bytes(bytes[12..].try_into().ok()?);
        Some(Self {
            endpoint: format!("{}{endpoint}", EndpointId::PREFIX).parse().ok()?,
            price: MicroUsd(number(&bytes[7..12])),
            metered,
            expires_at: Timestamp(number(&bytes[1..7])),
        })
    }
}

fn read(text: &str, keys: &[QuoteKey]) -> Option<QuoteClaims> {
    let encoded = text.strip_prefix(PREFIX)?;
    let mut bytes = [0; CLAIMS_BYTES + MAC_BYTES];
    // Longer texts do not fit, and are not decoded further.
    let read = URL_SAFE_NO_PAD.decode_slice(encoded, &mut bytes).ok()?;
    let (message, mac) = bytes.split_first_chunk().filter(|_| read == bytes.len())?;
    keys.iter().any(|key| key.made(message, mac)).then(|| QuoteClaims::of(message))?
}

fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[8 - bytes.len()..].copy_from_slice(bytes);
    u64::from_be_bytes(whole)
}

fn ulid(endpoint: &EndpointId) -> [u8; 16] {
    Ulid::from_string(&endpoint.as_str()[EndpointId::PREFIX.len()..]).expect("an endpoint's id has a ULID in it").to_bytes()
}

/// Length of a MAC in bytes: truncated HMAC-SHA-256.
const MAC_BYTES: usize = 20;

/// A key for quotes. The comparison is not constant-time, because both keys belong to this host.
#[derive(Clone, PartialEq, Eq)]
pub struct QuoteKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for QuoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuoteKey")
    }
}

impl QuoteKey {
    /// Constructs a key from bytes that have no other use.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    fn mac(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        let whole = self.over(message).finalize().into_bytes();
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&whole[..MAC_BYTES]);
        mac
    }

    /// Verifies the MAC of `message` in constant time.
    fn made(&self, message: &[u8], mac: &[u8]) -> bool {
        self.over(message).verify_truncated_left(mac).is_ok()
    }

    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        Hmac::new_from_slice(&*self.0).expect("HMAC takes a key of any length").chain_update(message)
    }
}

/// Remembers former keys until their quotes have expired, so that a rotation breaks no quote.
#[derive(Debug, Default)]
struct QuoteKeyring(Lock<RetiredKey>);

#[derive(Debug, Default)]
struct RetiredKey {
    last: Option<QuoteKey>,
    before: Vec<(QuoteKey, Timestamp)>,
}

impl QuoteKeyring {
    /// Returns the keys in force, the current one first, followed by those that were current within `lifetime`.
    fn with(&self, mut in_force: Vec<QuoteKey>, now: Timestamp, lifetime: Duration) -> Vec<QuoteKey> {
        let mut past = self.0.lock();
        past.before.retain(|(_, until)| *until > now);
        let current = in_force.first();
        if past.last.as_ref() != current {
            let until = now.plus(lifetime);
            let last = std::mem::replace(&mut past.last, current.cloned());
            past.before.extend(last.map(|last| (last, until)));
        }
        in_force.extend(past.before.iter().map(|(key, _)| key.clone()));
        in_force
    }
}

#[cfg(test)]
mod tests;
