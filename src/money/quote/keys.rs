//! The keys of quotes, including recent former ones.

use std::{fmt, time::Duration};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tollhouse_base::{clock::Timestamp, lock::Lock};
use zeroize::Zeroizing;

/// Length of a MAC in bytes: truncated HMAC-SHA-256.
pub(super) const MAC_BYTES: usize = 20;

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

    pub(super) fn mac(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        let whole = self.over(message).finalize().into_bytes();
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&whole[..MAC_BYTES]);
        mac
    }

    /// Verifies the MAC of `message` in constant time.
    pub(super) fn made(&self, message: &[u8], mac: &[u8]) -> bool {
        self.over(message).verify_truncated_left(mac).is_ok()
    }

    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        Hmac::new_from_slice(&*self.0).expect("HMAC takes a key of any length").chain_update(message)
    }
}

/// Remembers former keys until their quotes have expired, so that a rotation breaks no quote.
#[derive(Debug, Default)]
pub(super) struct QuoteKeyring(Lock<RetiredKey>);

#[derive(Debug, Default)]
struct RetiredKey {
    last: Option<QuoteKey>,
    before: Vec<(QuoteKey, Timestamp)>,
}

impl QuoteKeyring {
    /// Returns the keys in force, the current one first, followed by those that were current within `lifetime`.
    pub(super) fn with(&self, mut in_force: Vec<QuoteKey>, now: Timestamp, lifetime: Duration) -> Vec<QuoteKey> {
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
