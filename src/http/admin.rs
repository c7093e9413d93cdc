//! `/ai/admin/policy`, `/ai/admin/endpoints`, `/ai/admin/reviews` and `/ai/admin/rescan`: what admins allow, see and decide.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    auth::Admin,
    endpoints::{self, Body, Subject, if_match, owned, with_etag},
    page::{Asked, At, Limit, behind, cursor_at},
    services::Publishing,
};
use crate::{
    catalog::{PolicyDraft, PolicyInForce, Verdict},
    front::{AboutBody as _, Code, Fault},
    tool::{Endpoint, EndpointState, Owner},
};

impl Subject for PolicyDraft {
    const CODE: Code = Code::InvalidPolicy;
}

impl Subject for Verdict {
    const CODE: Code = Code::InvalidDecision;
}

pub(super) async fn policy(_: Admin, State(publishing): State<Arc<Publishing>>) -> Response {
    in_force(&publishing.catalog.policy())
}

pub(super) async fn set_policy(
    _: Admin,
    State(publishing): State<Arc<Publishing>>,
    headers: HeaderMap,
    Body(draft): Body<PolicyDraft>,
) -> Result<Response, Fault> {
    let policy = publishing.catalog.set_policy(draft, if_match(&headers)?).await;
    let policy = policy.map_err(|error| error.about(PolicyDraft::CODE))?;
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
pub(super) async fn reviews(_: Admin, State(publishing): State<Arc<Publishing>>, Asked(pages): Asked<Pages>) -> Result<Json<Value>, Fault> {
    let page = publishing.catalog.queue(behind(pages.cursor)?.as_ref(), pages.limit.0).await;
    let reviews: Vec<_> = page.endpoints.iter().map(|live| waiting_for(&live.endpoint)).collect();
    let mut answer = json!({ "ok": true, "reviews": reviews });
    if let Some(last) = page.endpoints.last().filter(|_| page.more) {
        answer["nextCursor"] = json!(cursor_at(&last.endpoint.slug));
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Narrowed {
    state: Option<EndpointState>,
    /// `platform` or a builder's id.
    owner: Option<String>,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

/// All endpoints, in whatever state, by slug.
pub(super) async fn list(_: Admin, State(publishing): State<Arc<Publishing>>, Asked(asked): Asked<Narrowed>) -> Result<Json<Value>, Fault> {
    let owner = asked.owner.map(|owner| match owner.as_str() {
        "platform" => Ok(Owner::Platform),
        id => id.parse().map(Owner::Builder).map_err(|_| Fault::bad_request("`owner` is `platform` or a builder's id")),
    });
    endpoints::list(&publishing, endpoints::Wanted { owner: owner.transpose()?, state: asked.state }, asked.limit, asked.cursor).await
}

/// What an admin needs to decide: what is asked, and what was found where.
fn waiting_for(endpoint: &Endpoint) -> Value {
    json!({
        "slug": endpoint.slug,
        "title": endpoint.title,
        "owner": endpoint.owner.share(),
        "version": endpoint.version,
        "approvedVersion": endpoint.review.approved_version,
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
    State(publishing): State<Arc<Publishing>>,
    At(slug): At<String>,
    headers: HeaderMap,
    Body(verdict): Body<Verdict>,
) -> Result<Response, Fault> {
    let live = publishing.catalog.decide(&slug, &verdict, if_match(&headers)?).await;
    let live = live.map_err(|error| error.about(Verdict::CODE))?;
    tracing::info!(endpoint.slug = slug, decision = ?verdict.decision, "endpoint was reviewed");
    Ok(owned(&publishing, &live))
}

/// Scans all builders' endpoints by the rules in force; answers when it is done.
pub(super) async fn rescan(_: Admin, State(publishing): State<Arc<Publishing>>) -> Result<Response, Fault> {
    let found = publishing.catalog.rescan().await?;
    Ok(Json(json!({ "ok": true, "rescan": found })).into_response())
}
