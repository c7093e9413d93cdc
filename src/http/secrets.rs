//! `/ai/endpoints/{slug}/secrets` and `/ai/admin/secrets/rotate`. No response contains a value.

use serde::Deserialize;
use tollhouse_api::{KeyRotationResponse, RemoveSecretResponse, SecretList, SecretResponse, SetSecretRequest, True};
use tollhouse_capability::secret::{SecretError, SecretName, SecretScope};
use tollhouse_front::{ApiError, Code};
use tollhouse_replica as replica;
use tollhouse_tool::Endpoint;

use crate::{Admin, Body, Http, Json, JsonResult, ManagedEndpoint, Route, Services, State, delete, get, post};

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

async fn list(managed: ManagedEndpoint, State(http): State<Http>) -> JsonResult<SecretList> {
    Ok(Json(SecretList { ok: True, secrets: http.secrets.list(&managed.shown.endpoint.id).await? }))
}

async fn set(managed: ManagedEndpoint, State(http): State<Http>, Body(request): Body<SetSecretRequest>) -> JsonResult<SecretResponse> {
    let endpoint = &managed.shown.endpoint;
    let name: SecretName = request.name.parse()?;
    let scope = SecretScope::of(&request)?;
    managed.not_frozen(&http.builders).await?;
    let owner = endpoint.into();
    let set = if request.expose {
        http.secrets.set_exposed(&owner, name, &request.value, scope).await
    } else {
        http.secrets.set(&owner, name, &request.value, scope).await
    };
    retire(&http, endpoint, &set);
    Ok(Json(SecretResponse { ok: True, secret: set? }))
}

/// Retires the workers of a tool whose secrets changed or may have changed, because they may have kept an old value.
fn retire<T>(http: &Services, endpoint: &Endpoint, changed: &Result<T, SecretError>) {
    if matches!(changed, Ok(_) | Err(SecretError::Store(_))) {
        http.pool.retire(endpoint.id.as_str(), &endpoint.version);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretParam {
    name: String,
}

async fn remove(managed: ManagedEndpoint<SecretParam>, State(http): State<Http>) -> JsonResult<RemoveSecretResponse> {
    let endpoint = &managed.shown.endpoint;
    let unknown = || ApiError::from(Code::UnknownSecret);
    let name: SecretName = managed.requested.name.parse().map_err(|_| unknown())?;
    managed.not_frozen(&http.builders).await?;
    let removed = http.secrets.remove(&endpoint.into(), &name).await;
    retire(&http, endpoint, &removed);
    removed?;
    Ok(Json(RemoveSecretResponse { ok: True, removed: True, name: name.as_str().to_owned() }))
}

async fn rotate(_: Admin, State(http): State<Http>) -> JsonResult<KeyRotationResponse> {
    let rotation = http.secrets.rotate().await?;
    http.replica.agree_on(replica::MASTER_KEY, &rotation.key_id).await?;
    Ok(Json(KeyRotationResponse { ok: True, rotation }))
}
