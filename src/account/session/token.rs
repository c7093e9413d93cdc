//! What a browser keeps of a session.

use std::{fmt, str::FromStr};

use aes_gcm_siv::{
    Aes256GcmSiv, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Bytes of the id and of the key.
const ID_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// What keeps an account's links apart from its sessions.
const LINKS: &str = "link_";
/// Hex digits of a name.
pub(super) const NAME_DIGITS: usize = 64;
/// A key seals one credential and nothing else, so that any nonce will do.
const NONCE: [u8; 12] = [0; 12];

/// What names a session to its owner: the hash of its id, which opens nothing.
pub type SessionName = String;

/// What a browser keeps of a session: whose it is, its id, and the key that opens it.
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
    /// `{owner}.{id}.{key}`, the latter two in base64url.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.owner, URL_SAFE_NO_PAD.encode(self.id), URL_SAFE_NO_PAD.encode(*self.key))
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let (Some(owner), Some(id), Some(key), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else { return Err(()) };
        // A zero byte would be where the key of its row ends.
        if owner.is_empty() || !owner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(());
        }
        let id = URL_SAFE_NO_PAD.decode(id).ok().and_then(|id| id.try_into().ok()).ok_or(())?;
        let key = Zeroizing::new(URL_SAFE_NO_PAD.decode(key).map_err(|_| ())?);
        let key = Zeroizing::new(<[u8; KEY_BYTES]>::try_from(key.as_slice()).map_err(|_| ())?);
        Ok(Self { owner: owner.to_owned(), id, key })
    }
}

/// Whether what is kept for this owner are links.
pub(super) fn is_link(owner: &str) -> bool {
    owner.starts_with(LINKS)
}

impl Token {
    /// One of a session of this account.
    pub(super) fn of(account: &str) -> Result<Self, getrandom::Error> {
        Self::random(account.to_owned())
    }

    /// One of a link by which this account signs in.
    pub(super) fn linking(account: &str) -> Result<Self, getrandom::Error> {
        Self::random(format!("{LINKS}{account}"))
    }

    /// Whether it is a link's, and opens no session.
    pub(super) fn is_link(&self) -> bool {
        is_link(&self.owner)
    }

    fn random(owner: String) -> Result<Self, getrandom::Error> {
        let (mut id, mut key) = ([0; ID_BYTES], Zeroizing::new([0; KEY_BYTES]));
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut *key)?;
        Ok(Self { owner, id, key })
    }

    /// Whose session it opens, or whom it signs in.
    #[must_use]
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

    /// What forms of this session hold: nobody knows it who has not its key.
    pub(super) fn form_token(&self) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.key).expect("a MAC takes a key of any length");
        mac.update(b"form");
        hex::encode(mac.finalize().into_bytes())
    }
}
