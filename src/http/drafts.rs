//! `/ai/endpoints/check` and `/ai/endpoints/{slug}/run`: checks an upload and runs a handler without publishing it.

use std::sync::Arc;

use axum::extract::FromRequest;
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tollhouse_api::{self as api, DryRunRequest, DryRunResponse, DryRunUsage, EndpointCheck, EndpointCheckResponse, Grants, True};
use tollhouse_base::rate_limit::Permit;
use tollhouse_call::{Content, DryRun};
use tollhouse_capability::Granted;
use tollhouse_catalog::{CheckBody, CheckedUpload, HandlerDraft, KeepsResponse as _, PublishError, TrialTarget};
use tollhouse_front::{
    ApiError, Caller, Code, Party,
    body::{self, VerbatimJson},
};
use tollhouse_tool::{CapabilityScope, ContentSafety, Cron, HandlerType, finding::Finding};

use crate::{
    AdminOrBuilder, Answer, CpuBudget, Http, IntoResponse as _, Json, JsonResult, ManagedEndpoint, Request, Route, Services, State,
    Uploaded, convert,
    endpoints::{ForBuilderQuery, OF_UPLOADS, resolve_owner, unknown_version},
    invoke_response::ResultBody,
    json_body::{cut_response, management_body},
    post,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/endpoints/check", "checkEndpoint", "the result of an upload, without storing it", check)
            .takes("EndpointCheckRequest")
            .answers("EndpointCheckResponse")
            .fails(OF_UPLOADS),
        post("/ai/endpoints/{slug}/run", "runEndpoint", "runs a draft or a stored version without charge", run)
            .takes("DryRunRequest")
            .answers("DryRunResponse")
            .fails(OF_UPLOADS)
            .fails(&[Code::InvalidMember, Code::InvalidInput, Code::UnknownVersion, Code::UnderReview])
            .fails(&[Code::SourceUnavailable, Code::SecretsUnavailable]),
    ]
}

/// Checks an upload without storing it. There is no entry in the audit trail either.
async fn check(
    AdminOrBuilder(caller, named): AdminOrBuilder<ForBuilderQuery>,
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    Uploaded(given): Uploaded<CheckBody>,
) -> JsonResult<EndpointCheckResponse> {
    let owner = resolve_owner(&http, &caller, named).await?;
    let _permit = draft_permit(&http, &caller)?;
    let checked = turn.during(http.catalog.check(given, owner, caller.by())).await;
    let CheckedUpload { endpoint, existing, warnings } = checked.map_err(all_of)?;
    let check = EndpointCheck {
        existing,
        needs_review: endpoint.review.hold.is_some(),
        outcome: endpoint.content_safety.as_ref().map(|safety| safety.outcome),
        findings: endpoint.content_safety.as_ref().map(shown_findings).unwrap_or_default(),
        limits: api::Limits(endpoint.changed_limits()),
        warnings,
        version: endpoint.version,
        granted: Grants { capabilities: endpoint.capabilities, hosts: endpoint.allowed_hosts },
        requested: Grants { capabilities: endpoint.requested_capabilities, hosts: endpoint.requested_hosts },
    };
    Ok(Json(EndpointCheckResponse { ok: True, check }))
}

/// Returns the findings that the owner can see.
fn shown_findings(safety: &ContentSafety) -> Vec<Finding> {
    let shown = safety.findings.iter().filter(|finding| finding.is_shown());
    shown.map(|finding| Finding { excerpt: None, ..finding.clone() }).collect()
}

/// Returns the first error as an upload would get it, with all errors under `problems`. If the host itself failed
/// during the check, returns that error alone.
fn all_of(errors: Vec<PublishError>) -> ApiError {
    let mut faults: Vec<_> = errors.into_iter().map(ApiError::from).collect();
    if let Some(position) = faults.iter().position(|fault| fault.code().row().fault == Party::Host) {
        return faults.swap_remove(position);
    }
    let problems: Vec<_> = faults.iter().map(ApiError::problem).collect();
    let first = faults.into_iter().next();
    first.map_or_else(|| Code::Internal.into(), |first| first.with("problems", json!(problems)))
}

struct RunQuery(DryRunRequest<VerbatimJson, HandlerDraft>);

impl FromRequest<Http> for RunQuery {
    type Rejection = ApiError;

    async fn from_request(request: Request, http: &Http) -> Result<Self, ApiError> {
        let text = management_body(request, http, body::MANAGEMENT_BODY_BYTES).await?;
        let (rest, response) = cut_response(&text).await;
        let run = body::verbatim::<_, DryRunRequest<IgnoredAny, HandlerDraft>>(&rest, Code::InvalidMember);
        let mut run: DryRunRequest<VerbatimJson, HandlerDraft> = run.await?;
        if let Some(response) = response {
            run.handler.keep_response(response);
        }
        Ok(Self(run))
    }
}

/// Runs a version or an unpublished handler of the caller's tool.
async fn run(managed: ManagedEndpoint, State(http): State<Http>, CpuBudget(turn): CpuBudget, RunQuery(request): RunQuery) -> Answer {
    let DryRunRequest { input, version, handler, schedule } = request;
    if schedule.is_some() && !matches!(managed.shown.endpoint.handler_type, HandlerType::JsRequestResponse) {
        return Err(ApiError::bad_request("`schedule` is for tools of the type `js_request_response`"));
    }
    if schedule.is_some() && input.is_some() {
        return Err(ApiError::bad_request("`schedule` and `input` cannot be combined; send one of them"));
    }
    if let Some(error) = schedule.as_deref().and_then(|cron| Cron::parse(cron).err()) {
        return Err(ApiError::bad_request(format!("`schedule` is not valid: {error}")));
    }
    let tried = match (version, handler) {
        (Some(_), Some(_)) => return Err(ApiError::bad_request("`version` and `handler` cannot be combined; send one of them")),
        (Some(version), None) if !managed.shown.endpoint.keeps(&version) => return Err(unknown_version()),
        (version, None) => TrialTarget::Kept(version),
        (None, Some(draft)) => TrialTarget::Draft(draft),
    };
    let _permit = draft_permit(&http, &managed.caller)?;
    let slug = managed.shown.endpoint.slug.as_str();
    let live = http.catalog.find(slug).await?.ok_or_else(|| ApiError::unknown_endpoint(slug))?;
    let live = turn.during(http.catalog.trial(&live, tried, managed.caller.by())).await?;
    let ran = match schedule {
        Some(cron) => http.calls.dry_run_schedule(Arc::clone(&live), &cron, &turn).await,
        None => http.calls.dry_run(Arc::clone(&live), input.map(Bytes::from).unwrap_or_default(), &turn).await,
    };
    let DryRun { ended, log, spent } = ran?;
    let (produced, error) = match ended {
        Ok(produced) => (Some(produced), None),
        Err(error) => (None, Some(ApiError::from(error).problem())),
    };
    let content = produced.as_ref().map(|produced| Content::new(produced.status, &produced.headers, &produced.body));
    let run = api::DryRun {
        version: live.endpoint.version.clone(),
        log: log.iter().map(convert::log_line).collect(),
        spent: DryRunUsage {
            cpu_ms: spent.cpu_us as f64 / 1e3,
            wall_ms: spent.wall_us as f64 / 1e3,
            heap_bytes: spent.heap_bytes,
            ops: spent.ops,
        },
        granted: granted_to(&live.grant.now()),
        status: produced.as_ref().map(|produced| produced.status),
        result: content.map(ResultBody::from),
        error,
    };
    Ok(Json(DryRunResponse { ok: True, run }).into_response())
}

/// Returns the granted capabilities by name, and the hosts that they reach.
fn granted_to(granted: &Granted) -> Map<String, Value> {
    let reached = granted.capabilities.touch(CapabilityScope::Others).then(|| granted.hosts.iter());
    let mut body = convert::object(json!(granted.capabilities));
    body.insert("hosts".to_owned(), reached.into_iter().flatten().collect());
    body
}

/// Takes one of the caller's concurrent checks and dry runs until the permit is dropped.
fn draft_permit(http: &Services, caller: &Caller) -> Result<Permit<String>, ApiError> {
    let message = || format!("you have reached the limit on concurrent checks and dry runs, {}", http.dry_runs.max());
    let turn = http.dry_runs.take(caller.owner().share().to_owned());
    turn.ok_or_else(|| ApiError::new(Code::RateLimited, message()).retry_after(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_store::StoreError;

    fn field(pointer: &str) -> PublishError {
        PublishError::Field { pointer: pointer.to_owned(), message: "it cannot be".to_owned() }
    }

    #[test]
    fn check_that_fails_in_the_host_is_the_hosts_fault() {
        let away = || PublishError::Store(StoreError::Away("a planned fault".to_owned()));
        assert_eq!(all_of(vec![field("/title"), away(), field("/slug")]).code(), Code::StoreUnavailable);
        assert_eq!(all_of(vec![PublishError::Corrupt(String::new())]).code(), Code::Internal);
        assert_eq!(all_of(vec![]).code(), Code::Internal, "refused for nothing");
        let reported = all_of(vec![field("/title"), field("/slug")]);
        assert_eq!((reported.code(), reported.error()["problems"][1]["pointer"].as_str()), (Code::InvalidEndpoint, Some("/slug")));
    }
}
