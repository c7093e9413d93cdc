//! The token of a session, which the browser keeps.

use std::{fmt, str::FromStr};

use aes_gcm_siv::{
    Aes256GcmSiv, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Length of the id and of the key, in bytes.
const ID_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// Prefix that separates an account's links from its sessions.
const LINKS: &str = "link_";
/// Number of hex digits in a session's name.
pub(super) const NAME_DIGITS: usize = 64;
/// A constant nonce is safe, because each key encrypts only one credential.
const NONCE: [u8; 12] = [0; 12];

/// The name of a session for its owner: the hash of its id, which gives no access.
pub type SessionName = String;

/// The token of a session: its account, its id, and its key.
#[derive(Clone)]
pub struct Token {
    pub(super) owner: String,
    pub(super) id: [u8; ID_BYTES],
    pub(super) key: Zeroizing<[u8; KEY_BYTES]>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl fmt::Display for Token {
    /// Formats the token as `{owner}.{id}.{key}`, the last two in base64url.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.owner, URL_SAFE_NO_PAD.encode(self.id), URL_SAFE_NO_PAD.encode(*self.key))
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let (Some(owner), Some(id), Some(key), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else { return Err(()) };
        // A zero byte would end the owner's part of the row's key.
        if owner.is_empty() || !owner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(());
        }
        let id = URL_SAFE_NO_PAD.decode(id).ok().and_then(|id| id.try_into().ok()).ok_or(())?;
        let key = Zeroizing::new(URL_SAFE_NO_PAD.decode(key).map_err(|_| ())?);
        let key = Zeroizing::new(<[u8; KEY_BYTES]>::try_from(key.as_slice()).map_err(|_| ())?);
        Ok(Self { owner: owner.to_owned(), id, key })
    }
}

/// Returns whether this owner's rows are links.
pub(super) fn is_link(owner: &str) -> bool {
    owner.starts_with(LINKS)
}

impl Token {
    /// Generates the token of a session of this account.
    pub(super) fn of(account: &str) -> Result<Self, getrandom::Error> {
        Self::random(account.to_owned())
    }

    /// Generates the token of a sign-in link of this account.
    pub(super) fn linking(account: &str) -> Result<Self, getrandom::Error> {
        Self::random(format!("{LINKS}{account}"))
    }

    /// Returns whether it belongs to a link, and thus opens no session.
    pub(super) fn is_link(&self) -> bool {
        is_link(&self.owner)
    }

    fn random(owner: String) -> Result<Self, getrandom::Error> {
        let (mut id, mut key) = ([0; ID_BYTES], Zeroizing::new([0; KEY_BYTES]));
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut *key)?;
        Ok(Self { owner, id, key })
    }

    /// Returns the account of the session or link.
    pub fn account(&self) -> &str {
        self.owner.strip_prefix(LINKS).unwrap_or(&self.owner)
    }

    pub(super) fn name(&self) -> SessionName {
        hex::encode(Sha256::digest(self.id))
    }

    fn cipher(&self) -> Aes256GcmSiv {
        Aes256GcmSiv::new(&(*self.key).into())
    }

    pub(super) fn seal(&self, credential: &str) -> Option<String> {
        let name = self.name();
        let payload = Payload { msg: credential.as_bytes(), aad: name.as_bytes() };
        Some(URL_SAFE_NO_PAD.encode(self.cipher().encrypt(&Nonce::from(NONCE), payload).ok()?))
    }

    pub(super) fn unseal(&self, sealed: &str) -> Option<Zeroizing<String>> {
        let name = self.name();
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let payload = Payload { msg: &sealed, aad: name.as_bytes() };
        String::from_utf8(self.cipher().decrypt(&Nonce::from(NONCE), payload).ok()?).ok().map(Zeroizing::new)
    }

    /// Returns the token for forms of this session, which can be computed only with the session's key.
    pub(super) fn form_token(&self) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.key).expect("a MAC takes a key of any length");
        mac.update(b"form");
        hex::encode(mac.finalize().into_bytes())
    }
}
