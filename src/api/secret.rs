//! Secrets of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use tollhouse_base::clock::Timestamp;
use zeroize::Zeroizing;

use crate::True;

/// A secret without its value.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// The parties that get its value.
    pub visibility: SecretVisibility,
    /// The hosts that get its value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The places of a request where these hosts get it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<SecretPlace>,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was last set.
    pub updated_at: Timestamp,
}

/// The parties that get the value of a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SecretVisibility {
    /// The handler.
    #[default]
    Env,
    /// Only a server that the handler asks with `auth`.
    Auth,
    /// Only servers at `hosts`. The handler gets a placeholder, which the host replaces in requests to them.
    Hosts,
}

/// A place of a request where the host puts the value of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SecretPlace {
    /// The value of a header.
    Header,
    /// The path or the query.
    Url,
    /// The body.
    Body,
}

/// The secrets of a tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SecretList {
    pub ok: True,
    /// The secrets.
    pub secrets: Vec<Secret>,
}

/// A secret that was set.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SecretResponse {
    pub ok: True,
    /// The secret.
    pub secret: Secret,
}

/// A secret that was removed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemoveSecretResponse {
    pub ok: True,
    /// Always true.
    pub removed: True,
    /// Its name.
    pub name: String,
}

/// The request to set a secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecretRequest {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(serialize_with = "exposed", deserialize_with = "hidden")]
    #[schemars(with = "String")]
    pub value: Zeroizing<String>,
    /// The party that gets the value: the handler, only a server that it asks with `auth`, or only `hosts`.
    #[serde(default)]
    pub visibility: SecretVisibility,
    /// The hosts that get the value, up to 16. The handler gets a placeholder instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The places of a request where these hosts get it. Default: headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<SecretPlace>,
    /// Whether the handler can get the value of a secret that only hosts or requests with `auth` got before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expose: bool,
}

fn exposed<S: Serializer>(value: &Zeroizing<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value)
}

/// Deserializes a string. Errors do not repeat the input.
fn hidden<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    match Value::deserialize(deserializer) {
        Ok(Value::String(text)) => Ok(Zeroizing::new(text)),
        Ok(_) | Err(_) => Err(D::Error::custom("the value of a secret must be a string")),
    }
}

/// The result of rotating the master key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeyRotationResponse {
    pub ok: True,
    /// The rotation.
    pub rotation: KeyRotation,
}

/// A rotation of the master key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct KeyRotation {
    /// Id of the new key.
    pub key_id: String,
    /// Number of secrets that were encrypted again.
    pub resealed: u64,
    /// Number of secrets that could not be decrypted. They stay as they are.
    pub unopened: u64,
    /// Keys that are no longer needed.
    pub retired: Vec<String>,
    /// Old keys that are still needed.
    pub needed: Vec<String>,
}
