//! `/ai/admin/policy`, `/ai/admin/endpoints`, `/ai/admin/reviews` and `/ai/admin/rescan`: policy, tools, reviews and
//! rescans for admins.

use tollhouse_api::{
    EndpointSummaryPage, PendingReview, Policy, PolicyCheckResponse, PolicyDraft, PolicyResponse, RescanResponse, ReviewPage,
    ReviewVerdict, True,
};
use tollhouse_catalog::{PolicyInForce, ReviewQueuePosition, ShownEndpoint};
use tollhouse_front::{AboutBody as _, ApiError, Code, PathParams, cursor};
use tollhouse_tool::{EndpointState, Owner, ReviewAction};

use crate::{
    Admin, Answer, Body, HeaderMap, Http, Json, JsonResult, PageLimit, PageQuery, Response, Route, Services, State, Subject as _,
    bad_cursor, convert,
    endpoints::{self, owned},
    get, if_match, post, put, query, with_etag,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/admin/policy", "getPolicy", "the policy in force, with its revision as `ETag`", policy).answers("PolicyResponse"),
        put("/ai/admin/policy", "setPolicy", "replaces the whole policy", set_policy)
            .reads_headers(&["If-Match"])
            .takes("PolicyDraft")
            .answers("PolicyResponse")
            .fails(&[Code::InvalidPolicy, Code::RevisionChanged]),
        post("/ai/admin/policy/check", "checkPolicy", "the effects of a policy on existing endpoints; nothing is changed", check_policy)
            .takes("PolicyDraft")
            .answers("PolicyCheckResponse")
            .fails(&[Code::InvalidPolicy]),
        get("/ai/admin/endpoints", "listAllEndpoints", "all endpoints in brief, by slug", list).answers("EndpointSummaryPage"),
        get("/ai/admin/reviews", "listReviews", "the endpoints that wait for a decision, longest wait first", reviews)
            .answers("ReviewPage"),
        post("/ai/admin/reviews/{slug}", "decideReview", "decides on an endpoint; `approve` requires `If-Match`", decide)
            .reads_headers(&["If-Match"])
            .takes("ReviewVerdict")
            .answers("OwnEndpointResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownEndpoint, Code::NothingToReview, Code::RevisionChanged]),
        post("/ai/admin/rescan", "rescan", "scans builders' endpoints with the rules in force", rescan)
            .answers("RescanResponse")
            .fails(&[Code::SourceUnavailable]),
    ]
}

async fn policy(_: Admin, State(http): State<Http>) -> Response {
    in_force(&http.catalog.policy())
}

async fn set_policy(_: Admin, State(http): State<Http>, headers: HeaderMap, Body(draft): Body<PolicyDraft>) -> Answer {
    let policy = http.catalog.set_policy(draft, if_match(&headers)?).await;
    let policy = policy.map_err(|error| error.about(PolicyDraft::CODE))?;
    tracing::info!(policy.revision = policy.revision, "the policy was changed");
    Ok(in_force(&policy))
}

/// Shows the effect of a policy. Changes nothing, and has no entry in the audit trail.
async fn check_policy(_: Admin, State(http): State<Http>, Body(draft): Body<PolicyDraft>) -> JsonResult<PolicyCheckResponse> {
    let narrows = http.catalog.would_narrow(draft, http.long_running_ms).await;
    let narrows = narrows.map_err(|error| error.about(PolicyDraft::CODE))?;
    Ok(Json(PolicyCheckResponse { ok: True, narrows }))
}

fn in_force(PolicyInForce { revision, policy }: &PolicyInForce) -> Response {
    let policy = Policy {
        builder_capabilities: policy.builder_capabilities,
        limits: convert::limits(&policy.limits),
        tier: policy.tier,
        require_review: policy.require_review,
        max_endpoints_per_builder: policy.max_endpoints_per_builder,
    };
    with_etag(*revision, PolicyResponse { ok: True, policy })
}

/// The list that cursors of the review queue are bound to.
const QUEUE: &[&str] = &["reviews"];

/// Lists tools that wait for a decision, longest waiting first.
async fn reviews(Admin(pages): Admin<PageQuery>, State(http): State<Http>) -> JsonResult<ReviewPage> {
    let position = |cursor: String| {
        cursor::read(QUEUE, &cursor).and_then(|position| ReviewQueuePosition::from_bytes(&position)).ok_or_else(bad_cursor)
    };
    let after = pages.cursor.map(position).transpose()?;
    let (page, total) = http.catalog.queue(after.as_ref(), pages.limit.0).await?;
    let mut reviews = Vec::with_capacity(page.endpoints.len());
    for live in &page.endpoints {
        reviews.push(waiting_for(&http, live).await);
    }
    let last = page.endpoints.last().filter(|_| page.more);
    let next_cursor = last.map(|last| cursor::write(QUEUE, &ReviewQueuePosition::of(&last.endpoint).to_bytes()));
    Ok(Json(ReviewPage { ok: True, reviews, total, next_cursor }))
}

// `owner` is `platform` or the id of a builder.
query!(EndpointQuery { state: Option<EndpointState>, owner: Option<String>, limit: PageLimit, cursor: Option<String> });

/// Lists all tools in any state, by slug.
async fn list(Admin(request): Admin<EndpointQuery>, State(http): State<Http>) -> JsonResult<EndpointSummaryPage<serde_json::Value>> {
    let owner = request.owner.map(|owner| match owner.as_str() {
        "platform" => Ok(Owner::Platform),
        id => id.parse().map(Owner::Builder).map_err(|_| ApiError::bad_request("`owner` must be `platform` or a builder's id")),
    });
    endpoints::list(&http, owner.transpose()?, request.state, request.limit, request.cursor).await
}

/// Returns the data that an admin needs for a decision: the request and the scan findings.
async fn waiting_for(http: &Services, live: &ShownEndpoint) -> PendingReview {
    let extras = http.extra_members(live).await;
    let endpoint = live.endpoint.clone();
    PendingReview {
        slug: endpoint.slug,
        title: endpoint.title,
        owner: endpoint.owner.share().to_owned(),
        version: endpoint.version,
        approved_version: endpoint.review.approved_version.clone(),
        revision: endpoint.revision,
        tier: endpoint.tier,
        capabilities: endpoint.capabilities,
        allowed_hosts: endpoint.allowed_hosts,
        requested_capabilities: endpoint.requested_capabilities,
        requested_hosts: endpoint.requested_hosts,
        content: endpoint.review.hold.as_ref().map(|hold| hold.kind),
        findings: endpoint.content_safety.map(|safety| safety.findings),
        since: endpoint.review.since(),
        usage: extras.usage,
        builder: extras.builder,
    }
}

async fn decide(
    _: Admin,
    State(http): State<Http>,
    PathParams(slug): PathParams,
    headers: HeaderMap,
    Body(verdict): Body<ReviewVerdict>,
) -> Answer {
    let live = http.catalog.decide(&slug, &verdict, decided_revision(&headers, verdict.decision)?).await;
    let live = live.map_err(|error| error.about(ReviewVerdict::CODE))?;
    tracing::info!(endpoint.slug = slug, decision = ?verdict.decision, "a tool was reviewed");
    Ok(owned(&http, &live))
}

/// Returns the revision that a decision is about. Without one, an approval could release content that its owner has
/// uploaded after the admin read the tool.
fn decided_revision(headers: &HeaderMap, decision: ReviewAction) -> Result<Option<u64>, ApiError> {
    match if_match(headers)? {
        None if decision == ReviewAction::Approve => {
            Err(ApiError::bad_request("An approval must name the revision that you read: send the tool's `ETag` in `If-Match`"))
        }
        revision => Ok(revision),
    }
}

/// Scans the tools of all builders with the current rules. Responds when the scan is complete.
async fn rescan(_: Admin, State(http): State<Http>) -> JsonResult<RescanResponse> {
    let rescan = http.catalog.rescan().await?;
    Ok(Json(RescanResponse { ok: True, rescan }))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn approval_names_the_revision_that_was_read() {
        for (sent, approves, rejects) in [
            (None, None, Some(None)),
            (Some("*"), None, Some(None)),
            (Some("\"3\""), Some(Some(3)), Some(Some(3))),
            (Some("W/\"3\""), Some(Some(3)), Some(Some(3))),
            (Some("three"), None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(sent) = sent {
                headers.insert("if-match", HeaderValue::from_static(sent));
            }
            let revision = |decision| decided_revision(&headers, decision).ok();
            assert_eq!((revision(ReviewAction::Approve), revision(ReviewAction::Reject)), (approves, rejects), "{sent:?}");
        }
    }
}
