//! `/ai/endpoints/{slug}/secrets` and `/ai/admin/secrets/rotate`. No response contains a value.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use tollhouse_api::{
    KeyRotation, KeyRotationResponse, RemoveSecretResponse, SecretList, SecretResponse, SecretVisibility, SetSecretRequest, True,
};
use tollhouse_capability::secret::{RotationReport, SecretError, SecretName, Visibility};
use tollhouse_front::{ApiError, Code};
use tollhouse_replica as replica;
use tollhouse_tool::Endpoint;

use super::{
    auth::{Admin, ManagedEndpoint},
    convert,
    endpoints::{Body, Subject},
    route::{Route, delete, get, post},
    services::SecretServices,
};

impl Subject for SetSecretRequest {
    const CODE: Code = Code::InvalidSecret;
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/endpoints/{slug}/secrets", "listSecrets", "the names of its secrets", list).answers("SecretList"),
        post("/ai/endpoints/{slug}/secrets", "setSecret", "sets or replaces a secret", set)
            .takes("SetSecretRequest")
            .answers("SecretResponse")
            .fails(&[Code::InvalidSecret, Code::SecretsUnavailable]),
        delete("/ai/endpoints/{slug}/secrets", "removeSecret", "removes the secret called `name`", remove)
            .answers("RemoveSecretResponse")
            .fails(&[Code::UnknownSecret]),
        post("/ai/admin/secrets/rotate", "rotateMasterKey", "rotates the master key", rotate)
            .answers("KeyRotationResponse")
            .fails(&[Code::MasterKeyGiven, Code::SecretsUnavailable]),
    ]
}

async fn list(managed: ManagedEndpoint, State(sealing): State<Arc<SecretServices>>) -> Result<Json<SecretList>, ApiError> {
    let secrets = sealing.secrets.list(&managed.shown.endpoint.id).await?;
    Ok(Json(SecretList { ok: True, secrets: secrets.iter().map(convert::secret).collect() }))
}

async fn set(
    managed: ManagedEndpoint,
    State(sealing): State<Arc<SecretServices>>,
    Body(request): Body<SetSecretRequest>,
) -> Result<Json<SecretResponse>, ApiError> {
    let endpoint = &managed.shown.endpoint;
    let name: SecretName = request.name.parse()?;
    managed.not_frozen(&sealing.builders).await?;
    let visibility = match request.visibility {
        SecretVisibility::Env => Visibility::Env,
        SecretVisibility::Auth => Visibility::Auth,
    };
    let set = sealing.secrets.set(&endpoint.into(), name, &request.value, visibility).await;
    retire(&sealing, endpoint, &set);
    Ok(Json(SecretResponse { ok: True, secret: convert::secret(&set?) }))
}

/// Retires the workers of a tool whose secrets changed or may have changed, because they may have kept an old value.
fn retire<T>(sealing: &SecretServices, endpoint: &Endpoint, changed: &Result<T, SecretError>) {
    if matches!(changed, Ok(_) | Err(SecretError::Store(_))) {
        sealing.pool.retire(endpoint.id.as_str(), &endpoint.version);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretParam {
    name: String,
}

async fn remove(
    managed: ManagedEndpoint<SecretParam>,
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
