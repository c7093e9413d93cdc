//! `/ai/endpoints/create` and `/ai/endpoints/{slug}`: publish, inspect, change, delete.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequest, Path, Request, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{
    auth::{Caller, Managed},
    error::ApiError,
};
use crate::{
    app::App,
    catalog::{Draft, Live, Patch},
    tool::CatalogForm,
};

/// A JSON body of management, with the place of what does not fit.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // Parsed as JSON first, so that what is no JSON and what does not fit are told apart.
        let Json(raw) = Json::<serde_json::Value>::from_request(request, state).await?;
        serde_path_to_error::deserialize(raw).map(Self).map_err(|error| {
            let path = error.path().to_string();
            let pointer = if path == "." { String::new() } else { format!("/{}", path.replace('.', "/")) };
            ApiError::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "invalid_endpoint", error.inner().to_string())
                .with("pointer", json!(pointer))
        })
    }
}

pub(super) async fn create(caller: Caller, State(app): State<Arc<App>>, Body(draft): Body<Draft>) -> Result<Response, ApiError> {
    let live = app.catalog.create(draft, caller.owner()).await?;
    tracing::info!(endpoint.slug = %live.endpoint.slug, "endpoint was created");
    Ok(owned(&app, &live))
}

/// The record for everyone; for its owner and admins, all of it but the source.
pub(super) async fn inspect(State(app): State<Arc<App>>, managed: Option<Managed>, Path(slug): Path<String>) -> Result<Response, ApiError> {
    if let Some(Managed { live, .. }) = managed {
        return Ok(owned(&app, &live));
    }
    let live = app.catalog.find(&slug).ok_or_else(|| ApiError::unknown_endpoint(&slug))?;
    Ok(tagged(&live, json!({ "ok": true, "endpoint": live.endpoint.public(&app.base_url, CatalogForm::Newer) })))
}

pub(super) async fn update(
    managed: Managed,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(patch): Body<Patch>,
) -> Result<Response, ApiError> {
    let slug = managed.live.endpoint.slug.as_str();
    let live = app.catalog.update(slug, patch, if_match(&headers)?).await?;
    tracing::info!(endpoint.slug = slug, endpoint.revision = live.endpoint.revision, "endpoint was updated");
    Ok(owned(&app, &live))
}

pub(super) async fn delete(managed: Managed, State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let slug = managed.live.endpoint.slug.as_str();
    let live = app.catalog.delete(slug, if_match(&headers)?).await?;
    tracing::info!(endpoint.slug = slug, "endpoint was deleted");
    Ok(Json(json!({ "ok": true, "deleted": true, "slug": slug, "id": live.endpoint.id })).into_response())
}

fn owned(app: &App, live: &Live) -> Response {
    tagged(live, json!({ "ok": true, "endpoint": live.endpoint.owned(&app.base_url) }))
}

/// An answer with the record's revision as its `ETag`.
fn tagged(live: &Live, body: serde_json::Value) -> Response {
    let mut response = Json(body).into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("\"{}\"", live.endpoint.revision)) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// The revision that `If-Match` names; `*` and absent match any.
fn if_match(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let revision = text.trim_matches('"').parse();
    revision.map(Some).map_err(|_| ApiError::bad_request("`If-Match` is the `ETag` of the record, such as `\"3\"`"))
}
