//! `/ai/admin/policy`, `/ai/admin/reviews` and `/ai/admin/rescan`: what admins allow and decide.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    auth::Admin,
    endpoints::{Body, if_match, owned, with_etag},
    error::ApiError,
    page::{Asked, Limit, bad_cursor},
};
use crate::{
    app::App,
    catalog::{PolicyDraft, PolicyInForce, Verdict},
    tool::{Endpoint, Owner},
};

pub(super) async fn policy(_: Admin, State(app): State<Arc<App>>) -> Response {
    in_force(&app.catalog.policy())
}

pub(super) async fn set_policy(
    _: Admin,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(draft): Body<PolicyDraft>,
) -> Result<Response, ApiError> {
    let policy = app.catalog.set_policy(draft, if_match(&headers)?).await?;
    tracing::info!(policy.revision = policy.revision, "the policy was changed");
    Ok(in_force(&policy))
}

fn in_force(policy: &PolicyInForce) -> Response {
    with_etag(policy.revision, json!({ "ok": true, "policy": policy.policy.record() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pages {
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

/// The endpoints of which something is to be decided, by slug.
pub(super) async fn reviews(_: Admin, State(app): State<Arc<App>>, Asked(pages): Asked<Pages>) -> Result<Json<Value>, ApiError> {
    let after = match pages.cursor {
        None => String::new(),
        Some(cursor) => URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|slug| String::from_utf8(slug).ok()).ok_or_else(bad_cursor)?,
    };
    let mut waiting = app.catalog.queue().filter(|live| live.endpoint.slug.as_str() > after.as_str());
    let page: Vec<_> = waiting.by_ref().take(pages.limit.0).collect();
    let reviews: Vec<_> = page.iter().map(|live| waiting_for(&live.endpoint)).collect();
    let mut answer = json!({ "ok": true, "reviews": reviews });
    if let (Some(last), Some(_)) = (page.last(), waiting.next()) {
        answer["nextCursor"] = json!(URL_SAFE_NO_PAD.encode(last.endpoint.slug.as_str()));
    }
    Ok(Json(answer))
}

/// What an admin needs to decide: what is asked, and what was found where.
fn waiting_for(endpoint: &Endpoint) -> Value {
    json!({
        "slug": endpoint.slug,
        "title": endpoint.title,
        "owner": match &endpoint.owner { Owner::Platform => json!("platform"), Owner::Builder(id) => json!(id) },
        "version": endpoint.version,
        "revision": endpoint.revision,
        "capabilities": endpoint.capabilities,
        "allowedHosts": endpoint.allowed_hosts,
        "requestedCapabilities": endpoint.requested_capabilities,
        "requestedHosts": endpoint.requested_hosts,
        "content": endpoint.review.hold.as_ref().map(|hold| hold.kind),
        "findings": endpoint.content_safety.as_ref().map(|safety| &safety.findings),
        "since": endpoint.review.since(),
    })
}

pub(super) async fn decide(
    _: Admin,
    State(app): State<Arc<App>>,
    Path(slug): Path<String>,
    headers: HeaderMap,
    Body(verdict): Body<Verdict>,
) -> Result<Response, ApiError> {
    let live = app.catalog.decide(&slug, &verdict, if_match(&headers)?).await?;
    tracing::info!(endpoint.slug = slug, decision = ?verdict.decision, "endpoint was reviewed");
    Ok(owned(&app, &live))
}

/// Scans all builders' endpoints by the rules in force; answers when it is done.
pub(super) async fn rescan(_: Admin, State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    // On a task of its own: an admin who hangs up does not stop it.
    let catalog = Arc::clone(&app.catalog);
    let scan = tokio::spawn(async move { catalog.rescan().await });
    let found = scan.await.map_err(|_| ApiError::bad_request("the scan ended"))??;
    Ok(Json(json!({ "ok": true, "rescan": found })).into_response())
}
