//! The keys of quotes, and those that made them a while ago.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tollhouse_base::clock::Timestamp;
use zeroize::Zeroizing;

/// Bytes of a MAC: the first of HMAC-SHA-256.
pub(super) const MAC_BYTES: usize = 20;

/// A key of quotes. Compared as it is kept: both are of this host.
#[derive(Clone, PartialEq, Eq)]
pub struct QuoteKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for QuoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuoteKey")
    }
}

impl QuoteKey {
    /// A key of these bytes, which are used for nothing else.
    #[must_use]
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    pub(super) fn mac(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        let whole = self.over(message).finalize().into_bytes();
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&whole[..MAC_BYTES]);
        mac
    }

    /// Whether `mac` is of this key, over `message`: told in a time that does not hang on where it differs.
    pub(super) fn made(&self, message: &[u8], mac: &[u8]) -> bool {
        self.over(message).verify_truncated_left(mac).is_ok()
    }

    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        Hmac::new_from_slice(&*self.0).expect("HMAC takes a key of any length").chain_update(message)
    }
}

/// The key that made quotes last, and those before it for as long as what they made may hold: a rotation breaks no quote.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Past>);

#[derive(Debug, Default)]
struct Past {
    last: Option<QuoteKey>,
    before: Vec<(QuoteKey, Timestamp)>,
}

impl Remembered {
    /// The keys in force, the current one first, and behind them those that were current within `lifetime`.
    pub(super) fn with(&self, mut in_force: Vec<QuoteKey>, now: Timestamp, lifetime: Duration) -> Vec<QuoteKey> {
        let mut past = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        past.before.retain(|(_, until)| *until > now);
        let current = in_force.first();
        if past.last.as_ref() != current {
            let until = now.plus_millis(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX));
            let last = std::mem::replace(&mut past.last, current.cloned());
            past.before.extend(last.map(|last| (last, until)));
        }
        in_force.extend(past.before.iter().map(|(key, _)| key.clone()));
        in_force
    }
}
