//! Secrets of tools.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, time::Timestamp};

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// Who gets its value.
    pub visibility: SecretVisibility,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was last set.
    pub updated_at: Timestamp,
}

/// Who gets the value of a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SecretVisibility {
    /// The handler.
    #[default]
    Env,
    /// Only a server that the handler asks with `auth`.
    Auth,
}

/// The secrets of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretList {
    /// Always true.
    pub ok: True,
    /// The secrets.
    pub secrets: Vec<Secret>,
}

/// A secret that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretResponse {
    /// Always true.
    pub ok: True,
    /// The secret.
    pub secret: Secret,
}

/// A secret that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveSecretResponse {
    /// Always true.
    pub ok: True,
    /// Always true.
    pub removed: True,
    /// Its name.
    pub name: String,
}

/// The request to set a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetSecretRequest {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Who gets the value: the handler, or only a server that it asks with `auth`.
    #[serde(default)]
    pub visibility: SecretVisibility,
}

impl fmt::Debug for SetSecretRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetSecretRequest").field("name", &self.name).field("visibility", &self.visibility).finish_non_exhaustive()
    }
}

/// The result of rotating the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRotationResponse {
    /// Always true.
    pub ok: True,
    /// The rotation.
    pub rotation: KeyRotation,
}

/// A rotation of the master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
