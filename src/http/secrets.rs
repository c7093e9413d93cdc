//! `/ai/endpoints/{slug}/secrets` and `/ai/admin/secrets/rotate`. No response contains a value.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json};
use tollhouse_api::{KeyRotation, KeyRotationResponse, RemoveSecretResponse, True};
use tollhouse_capability::secret::{RotationReport, SecretError, SecretName, Visibility};
use tollhouse_front::{ApiError, Code};
use tollhouse_replica as replica;
use tollhouse_tool::Endpoint;
use zeroize::Zeroizing;

use super::{
    auth::{Admin, ManagedEndpoint},
    endpoints::{Body, Subject},
    route::{Route, delete, get, post},
    services::SecretServices,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSecret {
    name: String,
    #[serde(deserialize_with = "hidden")]
    value: Zeroizing<String>,
    #[serde(default)]
    visibility: Visibility,
}

impl Subject for NewSecret {
    const CODE: Code = Code::InvalidSecret;
}

/// Deserializes a string. Errors do not repeat the input.
fn hidden<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    match Value::deserialize(deserializer) {
        Ok(Value::String(text)) => Ok(Zeroizing::new(text)),
        Ok(_) | Err(_) => Err(D::Error::custom("a secret's value is a string")),
    }
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/endpoints/{slug}/secrets", "listSecrets", "the names of its secrets", list).answers("SecretList"),
        post("/ai/endpoints/{slug}/secrets", "setSecret", "sets or replaces a secret", set)
            .takes("SetSecretRequest")
            .answers("SecretResponse")
            .fails(&[Code::InvalidSecret, Code::SecretsUnavailable]),
        delete("/ai/endpoints/{slug}/secrets", "removeSecret", "removes the secret that `name` names", remove)
            .answers("RemoveSecretResponse")
            .fails(&[Code::UnknownSecret]),
        post("/ai/admin/secrets/rotate", "rotateMasterKey", "rotates the master key", rotate)
            .answers("KeyRotationResponse")
            .fails(&[Code::MasterKeyGiven, Code::SecretsUnavailable]),
    ]
}

async fn list(managed: ManagedEndpoint, State(sealing): State<Arc<SecretServices>>) -> Result<Json<Value>, ApiError> {
    let secrets = sealing.secrets.list(&managed.shown.endpoint.id).await?;
    Ok(Json(json!({ "ok": true, "secrets": secrets })))
}

async fn set(
    managed: ManagedEndpoint,
    State(sealing): State<Arc<SecretServices>>,
    Body(secret): Body<NewSecret>,
) -> Result<Json<Value>, ApiError> {
    let endpoint = &managed.shown.endpoint;
    let name: SecretName = secret.name.parse()?;
    managed.not_frozen(&sealing.builders).await?;
    let set = sealing.secrets.set(&endpoint.into(), name, &secret.value, secret.visibility).await;
    retire(&sealing, endpoint, &set);
    Ok(Json(json!({ "ok": true, "secret": set? })))
}

/// Retires the workers of a tool whose secrets changed or may have changed, because they may have kept an old value.
fn retire<T>(sealing: &SecretServices, endpoint: &Endpoint, changed: &Result<T, SecretError>) {
    if matches!(changed, Ok(_) | Err(SecretError::Store(_))) {
        sealing.pool.retire(endpoint.id.as_str(), &endpoint.version);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuilderParam {
    name: String,
}

async fn remove(
    managed: ManagedEndpoint<BuilderParam>,
    State(sealing): State<Arc<SecretServices>>,
) -> Result<Json<RemoveSecretResponse>, ApiError> {
    let endpoint = &managed.shown.endpoint;
    let unknown = || ApiError::from(Code::UnknownSecret);
    let name: SecretName = managed.requested.name.parse().map_err(|_| unknown())?;
    managed.not_frozen(&sealing.builders).await?;
    let removed = sealing.secrets.remove(&endpoint.into(), &name).await;
    retire(&sealing, endpoint, &removed);
    removed?;
    Ok(Json(RemoveSecretResponse { ok: True, removed: True, name: name.as_str().to_owned() }))
}

async fn rotate(_: Admin, State(sealing): State<Arc<SecretServices>>) -> Result<Json<KeyRotationResponse>, ApiError> {
    let rotated = sealing.secrets.rotate().await?;
    sealing.replica.agree_on(replica::MASTER_KEY, &rotated.key_id).await?;
    let RotationReport { key_id, resealed, unopened, retired, needed } = rotated;
    Ok(Json(KeyRotationResponse { ok: True, rotation: KeyRotation { key_id, resealed, unopened, retired, needed } }))
}
