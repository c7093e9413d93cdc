//! `/ai/endpoints/create` and `/ai/endpoints/{slug}`: publishes, inspects, changes and deletes tools.

use std::convert::Infallible;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_api::{
    DeleteEndpointResponse, EndpointChangeResponse, EndpointResponse, EndpointSourceResponse, EndpointSummary, EndpointSummaryPage,
    OwnEndpointResponse, True, UploadedHandler,
};
use tollhouse_base::id::BuilderId;
use tollhouse_catalog::{Draft, HandlerDraft, Patch, ShownEndpoint};
use tollhouse_front::{ApiError, Caller, Code, PathParams, entry_point};
use tollhouse_tool::{CatalogForm, ChangedVia, EndpointState, Owner, Status};

use crate::{
    AdminOrBuilder, Answer, CpuBudget, Everyone, FromRequestParts, HeaderMap, HeaderValue, Http, IntoResponse as _, Json, JsonResult,
    ManagedEndpoint, PageLimit, Parts, Response, Route, Services, State, Uploaded,
    auth::Deletable,
    codes, delete, get, header,
    page::{behind, cursor_at},
    patch, post, query,
};

/// The entry point of the request.
struct EntryQuery(ChangedVia);

impl FromRequestParts<Http> for EntryQuery {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Http) -> Result<Self, Infallible> {
        Ok(Self(entry_point(&parts.headers, &parts.extensions)))
    }
}

/// Error codes of uploads.
pub(super) const OF_UPLOADS: &[Code] = codes![
    InvalidEndpoint InvalidHandler AttestationRequired ContentBlocked SlugTaken TooManyEndpoints SchemaTooCostly
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/ai/endpoints/create", "createEndpoint", "publishes an endpoint", create)
            .takes("EndpointDraft")
            .answers("EndpointChangeResponse")
            .fails(OF_UPLOADS),
        get("/ai/endpoints/{slug}", "inspectEndpoint", "its record; its owner gets everything but the source", inspect)
            .answers("EndpointResponse")
            .fails(&[Code::Unauthorized, Code::BuilderSuspended, Code::UnknownEndpoint]),
        patch("/ai/endpoints/{slug}", "updateEndpoint", "changes it", update)
            .reads_headers(&["If-Match"])
            .takes("EndpointPatch")
            .answers("EndpointChangeResponse")
            .fails(OF_UPLOADS)
            .fails(&[Code::UnknownVersion, Code::RevisionChanged, Code::UnderReview, Code::TakenDown, Code::SourceUnavailable]),
        delete("/ai/endpoints/{slug}", "deleteEndpoint", "removes it", remove)
            .reads_headers(&["If-Match"])
            .answers("DeleteEndpointResponse")
            .fails(&[Code::RevisionChanged, Code::TakenDown, Code::TooManyEndpoints]),
        get("/ai/endpoints/{slug}/source", "getSource", "a version's handler as it was uploaded", source)
            .answers("EndpointSourceResponse")
            .fails(&[Code::UnknownVersion, Code::SourceUnavailable]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForBuilderQuery {
    #[serde(rename = "builderId")]
    pub(super) builder: Option<BuilderId>,
}

async fn create(
    AdminOrBuilder(caller, named): AdminOrBuilder<ForBuilderQuery>,
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    EntryQuery(entry_point): EntryQuery,
    Uploaded(mut draft): Uploaded<Draft>,
) -> Answer {
    draft.via = Some(entry_point);
    let owner = resolve_owner(&http, &caller, named).await?;
    let live = turn.during(http.catalog.create(draft, owner, caller.by())).await?;
    tracing::info!(endpoint.slug = %live.endpoint.slug, "a tool was created");
    let mut warnings = http.catalog.warnings(&live.endpoint).await;
    warnings.extend(http.catalog.price_warnings(&live.endpoint));
    Ok(changed(&http, &live, warnings))
}

/// Returns the owner of a new tool: the builder who uploads it, or the builder that the admin names.
pub(super) async fn resolve_owner(http: &Services, caller: &Caller, named: ForBuilderQuery) -> Result<Owner, ApiError> {
    match (caller, named.builder) {
        (_, None) => Ok(caller.owner()),
        (Caller::Builder(builder), Some(id)) if id == builder.id => Ok(caller.owner()),
        (Caller::Builder(_), Some(_)) => Err(Code::NotOwner.into()),
        (Caller::Admin, Some(id)) => match http.builders.get(&id).await? {
            Some(builder) => Ok(Owner::Builder(builder.id)),
            None => Err(Code::UnknownBuilder.into()),
        },
    }
}

/// Returns the public record. Owners and admins get the full record without the source.
async fn inspect(_: Everyone, State(http): State<Http>, managed: Option<ManagedEndpoint>, PathParams(slug): PathParams) -> Answer {
    if let Some(ManagedEndpoint { shown, caller, .. }) = managed {
        let mut record = shown.endpoint.owned(&http.base_url);
        if matches!(caller, Caller::Admin) {
            let found = shown.endpoint.content_safety.iter().flat_map(|safety| &safety.findings);
            record["review"]["findings"] = json!(found.collect::<Vec<_>>());
        }
        return Ok(with_etag(shown.endpoint.revision, EndpointResponse { ok: True, endpoint: record }));
    }
    let live = http.catalog.find_listed(&slug).await?.ok_or_else(|| ApiError::unknown_endpoint(&slug))?;
    let record = http.with_extras(&live, live.endpoint.public(&http.base_url, CatalogForm::Newer)).await;
    Ok(with_etag(live.endpoint.revision, EndpointResponse { ok: True, endpoint: record }))
}

async fn update(
    managed: ManagedEndpoint,
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    EntryQuery(entry_point): EntryQuery,
    headers: HeaderMap,
    Uploaded(mut patch): Uploaded<Patch>,
) -> Answer {
    patch.via = Some(entry_point);
    let slug = managed.shown.endpoint.slug.as_str();
    let resumes = patch.status == Some(Status::Active);
    let changes_access = resumes || patch.handler.is_some() || patch.version.is_some() || patch.capabilities.is_some();
    let changes_price = patch.price_usd.is_some() || patch.max_price_usd.is_some() || patch.accepts.is_some();
    let live = turn.during(http.catalog.update(slug, patch, if_match(&headers)?, managed.caller.by())).await?;
    tracing::info!(endpoint.slug = slug, endpoint.revision = live.endpoint.revision, "a tool was updated");
    let mut warnings = if changes_access { http.catalog.warnings(&live.endpoint).await } else { vec![] };
    if changes_price {
        warnings.extend(http.catalog.price_warnings(&live.endpoint));
    }
    Ok(changed(&http, &live, warnings))
}

async fn remove(request: Deletable, State(http): State<Http>, headers: HeaderMap) -> JsonResult<DeleteEndpointResponse> {
    let (slug, id) = match request {
        Deletable::There(managed) => {
            let slug = managed.shown.endpoint.slug.to_string();
            let live = http.catalog.delete(&slug, if_match(&headers)?, managed.caller.by()).await?;
            tracing::info!(endpoint.slug = slug, "a tool was deleted");
            (slug, live.endpoint.id.clone())
        }
        // A repeated deletion returns the same response.
        Deletable::Gone { slug, id } => (slug, id),
    };
    Ok(Json(DeleteEndpointResponse { ok: True, deleted: True, slug, id }))
}

query!(VersionQuery { version: Option<String> });

pub(super) fn unknown_version() -> ApiError {
    ApiError::from(Code::UnknownVersion)
}

/// Returns the source of a version. Default: the active version.
async fn source(managed: ManagedEndpoint<VersionQuery>, State(http): State<Http>) -> JsonResult<EndpointSourceResponse> {
    let endpoint = &managed.shown.endpoint;
    let version = managed.requested.version.unwrap_or_else(|| endpoint.version.clone());
    if !endpoint.keeps(&version) {
        return Err(unknown_version());
    }
    let (source, language, response) = match http.catalog.uploaded(&version).await?.ok_or_else(unknown_version)? {
        HandlerDraft::Source { source, language } => (Some(source), Some(language), None),
        HandlerDraft::Response { response } => (None, None, Some(response)),
    };
    Ok(Json(EndpointSourceResponse { ok: True, handler: UploadedHandler { version, source, language, response } }))
}

/// Returns a page of tools in short form, by slug.
pub(super) async fn list(
    http: &Services,
    owner: Option<Owner>,
    state: Option<EndpointState>,
    limit: PageLimit,
    cursor: Option<String>,
) -> JsonResult<EndpointSummaryPage<Value>> {
    let page = http.catalog.page(owner.as_ref(), state, behind(cursor)?.as_ref(), limit.0).await?;
    let endpoints = join_all(page.endpoints.iter().map(|live| brief(http, live))).await;
    let next_cursor = page.endpoints.last().filter(|_| page.more).map(|last| cursor_at(&last.endpoint.slug));
    Ok(Json(EndpointSummaryPage { ok: True, endpoints, next_cursor }))
}

/// Returns a tool in short form, with conditions that currently prevent its calls.
async fn brief(http: &Services, live: &ShownEndpoint) -> EndpointSummary<Value> {
    let id = &live.endpoint.id;
    let held = http.pool.held(id.as_str());
    EndpointSummary {
        brief: live.endpoint.brief(&http.base_url),
        held_for_ms: held.map(|remaining| u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)),
        secrets_unreadable: http.secrets.unreadable(id).await,
    }
}

pub(super) fn owned(http: &Services, live: &ShownEndpoint) -> Response {
    with_etag(live.endpoint.revision, OwnEndpointResponse { ok: True, endpoint: live.endpoint.owned(&http.base_url) })
}

/// Returns the record after a change, with warnings about capabilities that the handler uses but was not granted, and
/// about its price.
fn changed(http: &Services, live: &ShownEndpoint, warnings: Vec<String>) -> Response {
    with_etag(live.endpoint.revision, EndpointChangeResponse { ok: True, endpoint: live.endpoint.owned(&http.base_url), warnings })
}

/// Returns a response with a revision as `ETag`.
pub(super) fn with_etag(revision: u64, body: impl Serialize) -> Response {
    let mut response = Json(body).into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// Returns the revision in `If-Match`, or `None` for `*` or no header, which match any revision.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    // The tag is weak if the record was sent compressed.
    let revision = text.trim_start_matches("W/").trim_matches('"').parse();
    revision.map(Some).map_err(|_| ApiError::bad_request("`If-Match` must be the `ETag` of the record, for example `\"3\"`"))
}
