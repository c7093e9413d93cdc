//! A stored secret: encrypted with AES-256-GCM-SIV and bound to its place.

use aes_gcm_siv::{
    Aes256GcmSiv, Nonce,
    aead::{Aead as _, KeyInit as _, Payload},
};
use serde::{Deserialize, Serialize};
use tollhouse_api::{SecretPlace, SecretVisibility as Visibility};
use tollhouse_base::clock::Timestamp;
use zeroize::Zeroizing;

use super::{
    master::{Keyring, MasterKey},
    scope::SecretScope,
};

/// The place of a secret. It is authenticated with the value: a secret that is moved elsewhere cannot be decrypted.
#[derive(Clone, Copy)]
pub(super) struct SealContext<'a> {
    pub(super) owner: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) name: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SealedSecret {
    pub(super) key_id: String,
    /// The owner of the tool when it was encrypted. A rotation uses this owner, a call uses the tool's current owner.
    pub(super) owner: String,
    #[serde(with = "base64_text")]
    nonce: Vec<u8>,
    #[serde(with = "base64_text")]
    ciphertext: Vec<u8>,
    pub(super) visibility: Visibility,
    /// The hosts that get the value, for [`Visibility::Hosts`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) places: Vec<SecretPlace>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

impl SealedSecret {
    /// Encrypts `value` for `place`. Returns `None` without randomness.
    pub(super) fn seal(
        key: &MasterKey,
        context: SealContext<'_>,
        value: &str,
        scope: impl Into<SecretScope>,
        times: [Timestamp; 2],
    ) -> Option<Self> {
        let scope = scope.into();
        let mut nonce = [0; 12];
        getrandom::fill(&mut nonce).ok()?;
        let aad = additional_data(key.id(), context, &scope);
        let payload = Payload { msg: value.as_bytes(), aad: aad.as_bytes() };
        let ciphertext = cipher(key, context).encrypt(&Nonce::from(nonce), payload).ok()?;
        let [created_at, updated_at] = times;
        let SecretScope { visibility, hosts, places } = scope;
        Some(Self {
            key_id: key.id().to_owned(),
            owner: context.owner.to_owned(),
            nonce: nonce.to_vec(),
            ciphertext,
            visibility,
            hosts,
            places,
            created_at,
            updated_at,
        })
    }

    /// Returns the memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let hosts: usize = self.hosts.iter().map(|host| size_of::<String>() + host.len()).sum();
        self.key_id.len() + self.owner.len() + self.nonce.len() + self.ciphertext.len() + hosts + self.places.len()
    }

    pub(super) fn scope(&self) -> SecretScope {
        SecretScope { visibility: self.visibility, hosts: self.hosts.clone(), places: self.places.clone() }
    }

    /// Decrypts the value. Returns `None` if its key is missing or it was encrypted for another place.
    pub(super) fn open(&self, ring: &Keyring, context: SealContext<'_>) -> Option<Zeroizing<String>> {
        let key = ring.get(&self.key_id)?;
        let nonce: [u8; 12] = self.nonce.as_slice().try_into().ok()?;
        let aad = additional_data(&self.key_id, context, &self.scope());
        let payload = Payload { msg: &self.ciphertext, aad: aad.as_bytes() };
        let plain = cipher(key, context).decrypt(&Nonce::from(nonce), payload).ok()?;
        String::from_utf8(plain).ok().map(Zeroizing::new)
    }
}

fn cipher(key: &MasterKey, context: SealContext<'_>) -> Aes256GcmSiv {
    Aes256GcmSiv::new_from_slice(&*key.of_endpoint(context.owner, context.endpoint)).expect("a derived key has 32 bytes")
}

/// Builds the authenticated data. None of its parts can contain `|`. It includes the scope, so that someone who can
/// write to the store can neither show a handler a value that it must not see nor have it sent to another host.
fn additional_data(key_id: &str, context: SealContext<'_>, scope: &SecretScope) -> String {
    let SealContext { owner, endpoint, name } = context;
    format!("v1|{key_id}|{owner}|{endpoint}|{name}|{}", scope.authenticated())
}

mod base64_text {
    //! Bytes as base64 in JSON.

    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}
