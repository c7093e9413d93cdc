//! `/ai/endpoints/check` and `/ai/endpoints/{slug}/run`: checks an upload and runs a handler without publishing it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequest, Request, State},
};
use bytes::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use tollhouse_base::rate::Permit;
use tollhouse_call::{Content, DryRun};
use tollhouse_capability::Granted;
use tollhouse_catalog::{Checked, HandlerDraft, PublishError, Tried};
use tollhouse_front::{
    Caller, Code, Fault, Party,
    body::{self, Verbatim},
};
use tollhouse_tool::{ContentSafety, Touches, finding::Finding};

use super::{
    auth::{Anyone, Managed},
    endpoints::{Body, For, OF_UPLOADS, Subject, management_body, unknown_version, whose},
    invoked::ResultBody,
    route::{Route, post},
    services::{Http, Publishing},
    turn::ProcessorTurn,
};

/// The body of a check, read field by field.
impl Subject for Map<String, Value> {
    const CODE: Code = Code::InvalidEndpoint;
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/endpoints/check", "checkEndpoint", "what an upload would come to; nothing of it is stored", check)
            .takes("EndpointCheckRequest")
            .answers("EndpointCheckResponse")
            .fails(OF_UPLOADS),
        post("/ai/endpoints/{slug}/run", "runEndpoint", "runs a draft, or a version that is kept, for nothing", run)
            .takes("DryRunRequest")
            .answers("DryRunResponse")
            .fails(OF_UPLOADS)
            .fails(&[Code::InvalidMember, Code::InvalidInput, Code::UnknownVersion, Code::UnderReview, Code::SecretsUnavailable]),
    ]
}

/// Checks an upload without storing it. There is no entry in the audit trail either.
async fn check(
    Anyone(caller, named): Anyone<For>,
    State(publishing): State<Arc<Publishing>>,
    ProcessorTurn(turn): ProcessorTurn,
    Body(given): Body<Map<String, Value>>,
) -> Result<Json<Value>, Fault> {
    let owner = whose(&publishing, &caller, named).await?;
    let _one = one_of(&publishing, &caller)?;
    let checked = turn.during(publishing.catalog.check(given, owner, caller.by())).await;
    let Checked { endpoint, existing, warnings } = checked.map_err(all_of)?;
    let found = endpoint.content_safety.as_ref();
    Ok(Json(json!({
        "ok": true,
        "check": {
            "version": endpoint.version,
            "existing": existing,
            "granted": { "capabilities": endpoint.capabilities, "hosts": endpoint.allowed_hosts },
            "requested": { "capabilities": endpoint.requested_capabilities, "hosts": endpoint.requested_hosts },
            "needsReview": endpoint.review.hold.is_some(),
            "outcome": found.map(|safety| safety.outcome),
            "findings": found.map(shown_findings).unwrap_or_default(),
            "limits": endpoint.changed_limits(),
            "warnings": warnings,
        },
    })))
}

/// Returns the findings that the owner can see.
fn shown_findings(safety: &ContentSafety) -> Vec<Value> {
    safety.findings.iter().filter(|finding| finding.is_shown()).map(Finding::for_owner).collect()
}

/// Returns the first error as an upload would get it, with all errors under `problems`. If the host itself failed
/// during the check, returns that error alone.
fn all_of(errors: Vec<PublishError>) -> Fault {
    let mut faults: Vec<_> = errors.into_iter().map(Fault::from).collect();
    if let Some(place) = faults.iter().position(|fault| fault.code().row().fault == Party::Host) {
        return faults.swap_remove(place);
    }
    let problems: Vec<_> = faults.iter().map(Fault::problem).collect();
    let first = faults.into_iter().next();
    first.map_or_else(|| Code::Internal.into(), |first| first.with("problems", json!(problems)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run<I> {
    /// Default: `{}`.
    input: Option<I>,
    version: Option<String>,
    handler: Option<HandlerDraft>,
}

/// The requested run.
struct Asked(Run<Verbatim>);

impl FromRequest<Http> for Asked {
    type Rejection = Fault;

    async fn from_request(request: Request, http: &Http) -> Result<Self, Fault> {
        let text = management_body(request, http, body::MANAGEMENT_BODY_BYTES).await?;
        body::verbatim::<_, Run<IgnoredAny>>(&text, Code::InvalidMember).await.map(Self)
    }
}

/// Runs a version or an unpublished handler of the caller's tool.
async fn run(
    managed: Managed,
    State(publishing): State<Arc<Publishing>>,
    ProcessorTurn(turn): ProcessorTurn,
    Asked(asked): Asked,
) -> Result<Json<Value>, Fault> {
    let Run { input, version, handler } = asked;
    let tried = match (version, handler) {
        (Some(_), Some(_)) => return Err(Fault::bad_request("send `version` or `handler`, not both")),
        (Some(version), None) if !managed.shown.endpoint.keeps(&version) => return Err(unknown_version()),
        (version, None) => Tried::Kept(version),
        (None, Some(draft)) => Tried::Draft(draft),
    };
    let _one = one_of(&publishing, &managed.caller)?;
    let slug = managed.shown.endpoint.slug.as_str();
    let live = publishing.catalog.find(slug).await?.ok_or_else(|| Fault::unknown_endpoint(slug))?;
    let live = turn.during(publishing.catalog.trial(&live, tried, managed.caller.by())).await?;
    let ran = publishing.calls.dry_run(Arc::clone(&live), input.map(Bytes::from).unwrap_or_default(), &turn).await;
    let DryRun { ended, log, spent } = ran?;
    let mut run = json!({
        "version": live.endpoint.version,
        "log": log,
        "spent": {
            "cpuMs": spent.cpu_us as f64 / 1e3,
            "wallMs": spent.wall_us as f64 / 1e3,
            "heapBytes": spent.heap_bytes,
            "ops": spent.ops,
        },
        "granted": granted_to(&live.grant.now()),
    });
    match ended {
        Ok(produced) => {
            run["status"] = json!(produced.status);
            run["result"] = json!(ResultBody::from(Content::new(produced.status, &produced.headers, &produced.body)));
        }
        Err(error) => run["error"] = Fault::from(error).problem(),
    }
    Ok(Json(json!({ "ok": true, "run": run })))
}

/// Returns the granted capabilities by name, and the hosts that they reach.
fn granted_to(granted: &Granted) -> Value {
    let reached = granted.capabilities.touch(Touches::Others).then(|| granted.hosts.iter());
    let mut told = json!(granted.capabilities);
    told["hosts"] = json!(reached.into_iter().flatten().collect::<Vec<_>>());
    told
}

/// Takes one of the caller's concurrent checks and dry runs until the permit is dropped.
fn one_of(publishing: &Publishing, caller: &Caller) -> Result<Permit<String>, Fault> {
    let message = || format!("more than {} checks and dry runs of yours at once", publishing.dry_runs.most());
    let turn = publishing.dry_runs.take(caller.owner().share().to_owned());
    turn.ok_or_else(|| Fault::new(Code::RateLimited, message()).retry_after(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_store::StoreError;

    fn field(pointer: &str) -> PublishError {
        PublishError::Field { pointer: pointer.to_owned(), message: "it cannot be".to_owned() }
    }

    #[test]
    fn a_check_that_the_host_could_not_end_is_not_told_as_the_uploads_fault() {
        let away = || PublishError::Store(StoreError::Away("a planned fault".to_owned()));
        assert_eq!(all_of(vec![field("/title"), away(), field("/slug")]).code(), Code::StoreUnavailable);
        assert_eq!(all_of(vec![PublishError::Corrupt(String::new())]).code(), Code::Internal);
        assert_eq!(all_of(vec![]).code(), Code::Internal, "refused for nothing");
        let told = all_of(vec![field("/title"), field("/slug")]);
        assert_eq!((told.code(), told.error()["problems"][1]["pointer"].as_str()), (Code::InvalidEndpoint, Some("/slug")));
    }
}
