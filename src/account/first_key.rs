//! First keys: those that builders get when they register. Each is derived from a secret of the host and the builder's
//! id, so that every host of a store returns the same key each time, and none stores it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tollhouse_base::id::BuilderId;
use zeroize::Zeroizing;

use super::credential::{self, SecretHash};

/// Prefix of every builder key, by which scanners for leaked secrets recognize it.
pub const KEY_PREFIX: &str = "bk_";

/// Returns secrets that have no other use, the current one first.
type Secrets = Box<dyn Fn() -> Vec<Zeroizing<[u8; 32]>> + Send + Sync>;

/// Derives builders' first keys.
pub struct FirstKeys(Secrets);

impl FirstKeys {
    /// Derives keys from `secrets`, which must return at least one, the current one first.
    pub fn from(secrets: Secrets) -> Self {
        Self(secrets)
    }

    /// Derives keys from a publicly known secret.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_tests() -> Self {
        Self(Box::new(|| vec![Zeroizing::new([7; 32])]))
    }

    /// Returns the first key of a newly registering builder, and its hash.
    ///
    /// # Panics
    ///
    /// If there is no secret.
    pub(super) fn make(&self, id: &BuilderId) -> (String, SecretHash) {
        let secrets = (self.0)();
        derive(secrets.first().expect("a host has a secret"), id)
    }

    /// Returns the first key of a builder whose hash `is_kept` accepts.
    pub(super) fn find(&self, id: &BuilderId, is_kept: impl Fn(&SecretHash) -> bool) -> Option<String> {
        (self.0)().iter().map(|secret| derive(secret, id)).find(|(_, hash)| is_kept(hash)).map(|(key, _)| key)
    }
}

pub(super) fn key_of(id: &BuilderId, secret: &str) -> (String, SecretHash) {
    (credential::token(KEY_PREFIX, id.as_str(), secret), SecretHash::of(secret))
}

fn derive(secret: &[u8; 32], id: &BuilderId) -> (String, SecretHash) {
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length").chain_update(id.as_str());
    key_of(id, &URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_key_depends_on_host_secret_and_builder() {
        let keys = |bytes: &'static [u8]| FirstKeys::from(Box::new(|| bytes.iter().map(|byte| Zeroizing::new([*byte; 32])).collect()));
        let (one, other) = (BuilderId::generate(), BuilderId::generate());
        let (key, hash) = keys(&[1]).make(&one);
        assert_eq!(keys(&[1]).make(&one).0, key);
        assert_ne!(keys(&[1]).make(&other).0.rsplit_once('_'), key.rsplit_once('_'));
        assert_ne!(keys(&[2]).make(&one).0, key);
        assert_eq!(keys(&[2, 1]).find(&one, |stored| *stored == hash), Some(key), "also once the secret was rotated");
        assert_eq!(keys(&[2]).find(&one, |stored| *stored == hash), None);
    }
}
