//! `/ai/admin/policy`, `/ai/admin/endpoints`, `/ai/admin/reviews` and `/ai/admin/rescan`: policy, tools, reviews and
//! rescans for admins.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_catalog::{PolicyDraft, PolicyInForce, ReviewDecision, ReviewQueuePosition};
use tollhouse_front::{AboutBody as _, ApiError, Code, cursor};
use tollhouse_tool::{Endpoint, EndpointState, Owner};

use super::{
    auth::Admin,
    endpoints::{self, Body, Subject, if_match, owned, with_etag},
    page::{PageLimit, PathParams, bad_cursor},
    route::{Route, get, post, put},
    services::{CallServices, CatalogServices},
};

impl Subject for PolicyDraft {
    const CODE: Code = Code::InvalidPolicy;
}

impl Subject for ReviewDecision {
    const CODE: Code = Code::InvalidDecision;
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/admin/policy", "getPolicy", "the policy in force, with its revision as `ETag`", policy).answers("PolicyResponse"),
        put("/ai/admin/policy", "setPolicy", "replaces the policy whole", set_policy)
            .reads_headers(&["If-Match"])
            .takes("PolicyDraft")
            .answers("PolicyResponse")
            .fails(&[Code::InvalidPolicy, Code::RevisionChanged]),
        post(
            "/ai/admin/policy/check",
            "checkPolicy",
            "what a policy would narrow of endpoints that are there; nothing is changed",
            check_policy,
        )
        .takes("PolicyDraft")
        .answers("PolicyCheckResponse")
        .fails(&[Code::InvalidPolicy]),
        get("/ai/admin/endpoints", "listAllEndpoints", "all endpoints in brief, by slug", list).answers("EndpointSummaryPage"),
        get(
            "/ai/admin/reviews",
            "listReviews",
            "the endpoints of which something is to be decided, those that wait longest first",
            reviews,
        )
        .answers("ReviewPage"),
        post("/ai/admin/reviews/{slug}", "decideReview", "decides on an endpoint", decide)
            .reads_headers(&["If-Match"])
            .takes("ReviewVerdict")
            .answers("OwnEndpointResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownEndpoint, Code::NothingToReview, Code::RevisionChanged]),
        post("/ai/admin/rescan", "rescan", "scans builders' endpoints by the rules in force", rescan).answers("RescanResponse"),
    ]
}

async fn policy(_: Admin, State(publishing): State<Arc<CatalogServices>>) -> Response {
    in_force(&publishing.catalog.policy())
}

async fn set_policy(
    _: Admin,
    State(publishing): State<Arc<CatalogServices>>,
    headers: HeaderMap,
    Body(draft): Body<PolicyDraft>,
) -> Result<Response, ApiError> {
    let policy = publishing.catalog.set_policy(draft, if_match(&headers)?).await;
    let policy = policy.map_err(|error| error.about(PolicyDraft::CODE))?;
    tracing::info!(policy.revision = policy.revision, "the policy was changed");
    Ok(in_force(&policy))
}

/// Shows the effect of a policy. Changes nothing, and has no entry in the audit trail.
async fn check_policy(
    _: Admin,
    State(publishing): State<Arc<CatalogServices>>,
    State(calling): State<Arc<CallServices>>,
    Body(draft): Body<PolicyDraft>,
) -> Result<Json<Value>, ApiError> {
    let narrows = publishing.catalog.would_narrow(draft, calling.long_running_ms).await;
    Ok(Json(json!({ "ok": true, "narrows": narrows.map_err(|error| error.about(PolicyDraft::CODE))? })))
}

fn in_force(policy: &PolicyInForce) -> Response {
    with_etag(policy.revision, json!({ "ok": true, "policy": policy.policy.record() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pages {
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

/// The list that cursors of the review queue are bound to.
const QUEUE: &[&str] = &["reviews"];

/// Lists tools that wait for a decision, longest waiting first.
async fn reviews(Admin(pages): Admin<Pages>, State(publishing): State<Arc<CatalogServices>>) -> Result<Json<Value>, ApiError> {
    let position = |cursor: String| {
        cursor::read(QUEUE, &cursor).and_then(|position| ReviewQueuePosition::from_bytes(&position)).ok_or_else(bad_cursor)
    };
    let after = pages.cursor.map(position).transpose()?;
    let (page, total) = publishing.catalog.queue(after.as_ref(), pages.limit.0).await?;
    let mut reviews = Vec::with_capacity(page.endpoints.len());
    for live in &page.endpoints {
        reviews.push(publishing.about.extras(live, waiting_for(&live.endpoint)).await);
    }
    let mut answer = json!({ "ok": true, "reviews": reviews, "total": total });
    if let Some(last) = page.endpoints.last().filter(|_| page.more) {
        answer["nextCursor"] = json!(cursor::write(QUEUE, &ReviewQueuePosition::of(&last.endpoint).to_bytes()));
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyPreview {
    state: Option<EndpointState>,
    /// `platform` or the id of a builder.
    owner: Option<String>,
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

/// Lists all tools in any state, by slug.
async fn list(Admin(request): Admin<PolicyPreview>, State(publishing): State<Arc<CatalogServices>>) -> Result<Json<Value>, ApiError> {
    let owner = request.owner.map(|owner| match owner.as_str() {
        "platform" => Ok(Owner::Platform),
        id => id.parse().map(Owner::Builder).map_err(|_| ApiError::bad_request("`owner` is `platform` or a builder's id")),
    });
    endpoints::list(&publishing, endpoints::ListFilter { owner: owner.transpose()?, state: request.state }, request.limit, request.cursor)
        .await
}

/// Returns the data that an admin needs for a decision: the request and the scan findings.
fn waiting_for(endpoint: &Endpoint) -> Value {
    json!({
        "slug": endpoint.slug,
        "title": endpoint.title,
        "owner": endpoint.owner.share(),
        "version": endpoint.version,
        "approvedVersion": endpoint.review.approved_version,
        "revision": endpoint.revision,
        "tier": endpoint.tier,
        "capabilities": endpoint.capabilities,
        "allowedHosts": endpoint.allowed_hosts,
        "requestedCapabilities": endpoint.requested_capabilities,
        "requestedHosts": endpoint.requested_hosts,
        "content": endpoint.review.hold.as_ref().map(|hold| hold.kind),
        "findings": endpoint.content_safety.as_ref().map(|safety| &safety.findings),
        "since": endpoint.review.since(),
    })
}

async fn decide(
    _: Admin,
    State(publishing): State<Arc<CatalogServices>>,
    PathParams(slug): PathParams<String>,
    headers: HeaderMap,
    Body(verdict): Body<ReviewDecision>,
) -> Result<Response, ApiError> {
    let live = publishing.catalog.decide(&slug, &verdict, if_match(&headers)?).await;
    let live = live.map_err(|error| error.about(ReviewDecision::CODE))?;
    tracing::info!(endpoint.slug = slug, decision = ?verdict.decision, "endpoint was reviewed");
    Ok(owned(&publishing, &live))
}

/// Scans the tools of all builders with the current rules. Responds when the scan is complete.
async fn rescan(_: Admin, State(publishing): State<Arc<CatalogServices>>) -> Result<Response, ApiError> {
    let found = publishing.catalog.rescan().await?;
    Ok(Json(json!({ "ok": true, "rescan": found })).into_response())
}
