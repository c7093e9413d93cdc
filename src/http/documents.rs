//! Documents for programs that look for tools: OpenAPI, `llms.txt`, the documentation as Markdown, and files for
//! registries and crawlers.
//!
//! They contain public data only. Documents about the catalog are built again after each change, and at least once a
//! minute. A document in pages links to the next one.

mod document;
mod document_cache;
mod examples;
mod library;
mod llms;
mod openapi;
mod paged;
mod plain_text;
mod resources;
mod schema_parts;
mod subject;
mod tool;

use std::time::Instant;

use serde_json::json;
use tollhouse_api::DocsSearchResponse;
use tollhouse_catalog::search::Query;
use tollhouse_front::{ApiError, Code, PathParams, QueryParams, host_name};

pub use self::document_cache::Documents;
#[cfg(test)]
pub(super) use self::schema_parts::PARTS;
pub(super) use self::schema_parts::described;
use self::{document::Document, document_cache::CachedPage, openapi::ToolSelection, schema_parts::MARKDOWN};
use crate::{
    Answer, CpuBudget, HeaderMap, HeaderValue, Http, IntoResponse, Json, JsonResult, Response, ResponseKind, Route, Services, State,
    header, open, query,
};

const TEXT: &str = "text/plain; charset=utf-8";

/// Headers of conditional requests.
const CACHED: &[&str] = &["If-None-Match"];

pub(super) fn routes() -> Vec<Route> {
    let text = |route: Route, media| route.responds(ResponseKind::Text(media)).reads_headers(CACHED);
    vec![
        open::get("/openapi.json", "getOpenApi", "the operations for agents and the most called tools, in OpenAPI with prices", openapi)
            .query(&["tools", "tag", "after"])
            .answers("OpenApiDocument")
            .reads_headers(CACHED),
        open::get("/docs/openapi.json", "getWholeOpenApi", "all operations of the host in OpenAPI, including management", whole)
            .answers("OpenApiDocument")
            .reads_headers(CACHED),
        open::get("/.well-known/x402", "getResources", "the addresses of the paid tools", well_known)
            .query(&["after"])
            .answers("Resources")
            .reads_headers(CACHED),
        open::get("/docs/tool.d.ts", "getToolTypes", "the types of handlers, in TypeScript", tool_types)
            .responds(ResponseKind::Text(TEXT))
            .reads_headers(CACHED),
        text(open::get("/.well-known/ai-catalog.json", "getAiCatalog", "the address of the MCP server's card", ai_catalog), AI_CATALOG),
        text(open::get("/llms.txt", "getLlmsTxt", "an introduction to the host for language models", llms), MARKDOWN),
        text(open::get("/llms-tools.txt", "listToolsAsText", "the tools, one line each", llms_tools), MARKDOWN).query(&["after"]),
        open::get("/robots.txt", "getRobots", "rules for crawlers", robots).responds(ResponseKind::Text(TEXT)),
        open::get("/favicon.svg", "getSign", "the host's icon", sign).responds(ResponseKind::Text("image/svg+xml")),
        open::get("/favicon.ico", "getIcon", "the host's icon, as a bitmap", icon).responds(ResponseKind::Text("image/x-icon")),
    ]
}

/// Returns the routes of the documentation as Markdown.
pub(super) fn written() -> Vec<Route> {
    // The HTML pages check the host name, so these routes can return 403.
    let page = |route: Route| route.responds(ResponseKind::Page).reads_headers(CACHED).fails(&[Code::Forbidden]);
    vec![
        page(open::get("/docs", "getDocsIndex", "the documentation of the host", index)),
        open::get("/docs/search", "searchDocs", "search the documentation; JSON if `Accept` names it", search)
            .query(&["q"])
            .responds(ResponseKind::JsonOrPage("DocsSearchResponse"))
            .fails(&[Code::Forbidden]),
        page(open::get("/docs/{name}", "getDocs", "a page of the documentation; as Markdown with `.md` after its name", docs))
            .fails(&[Code::NotFound]),
    ]
}

query!(DocsQuery { q: String });

// `after` is the last slug of the previous page of tools.
query!(Behind { after: Option<String> });

async fn openapi(
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    QueryParams(requested): QueryParams<openapi::ToolFilter>,
    headers: HeaderMap,
) -> Answer {
    let some = requested.read()?;
    let build = async { Ok(Document::json(&openapi::build(&http, &http.catalog.all(), &some).await?)) };
    let document = turn.during(page(&http, some == ToolSelection::CalledMost, &http.documents.openapi, build)).await?;
    Ok(document.respond(&headers))
}

/// The document is built from the operation table. Between hosts it differs only in address and contact.
async fn whole(State(http): State<Http>, CpuBudget(turn): CpuBudget, headers: HeaderMap) -> Response {
    let build = || http.documents.whole.get_or_init(|| Document::json(&openapi::whole(&http))).clone();
    turn.work(build).respond(&headers)
}

async fn well_known(
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    QueryParams(requested): QueryParams<Behind>,
    headers: HeaderMap,
) -> Answer {
    let after = requested.after.as_deref().unwrap_or_default();
    let build = async { Ok(Document::json(&resources::build(&http, &http.catalog.all(), after).await?)) };
    Ok(turn.during(page(&http, requested.after.is_none(), &http.documents.well_known, build)).await?.respond(&headers))
}

async fn llms(State(http): State<Http>, CpuBudget(turn): CpuBudget, headers: HeaderMap) -> Answer {
    let build = async { Ok(Document::of(MARKDOWN, llms::build(&http, &http.catalog.all()).await?)) };
    Ok(turn.during(page(&http, true, &http.documents.llms, build)).await?.respond(&headers))
}

async fn llms_tools(
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    QueryParams(requested): QueryParams<Behind>,
    headers: HeaderMap,
) -> Answer {
    let after = requested.after.unwrap_or_default();
    let tools = turn.during(async { llms::tools(&http, &http.catalog.all(), &after).await }).await?;
    Ok(Document::of(MARKDOWN, tools).respond(&headers))
}

/// Returns the cached document if `is_cached`, building it if it is out of date. Otherwise always builds it.
async fn page(
    http: &Services,
    is_cached: bool,
    stored: &CachedPage,
    make: impl Future<Output = Result<Document, ApiError>>,
) -> Result<Document, ApiError> {
    // Read the change count before the catalog, so that later changes cause a rebuild.
    let changes = *http.catalog.changes().borrow();
    if is_cached { stored.first(changes, Instant::now(), make).await } else { make.await }
}

async fn index(http: State<Http>, headers: HeaderMap) -> Answer {
    docs(http, PathParams("index".to_owned()), headers).await
}

/// Returns a document as Markdown. The suffix `.md` is optional.
async fn docs(State(http): State<Http>, PathParams(name): PathParams, headers: HeaderMap) -> Answer {
    let page = http.documents.page(name.strip_suffix(".md").unwrap_or(&name)).ok_or(Code::NotFound)?;
    let mut response = page.document.clone().respond(&headers);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Returns the sections of the documentation that match a query.
async fn search(
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    QueryParams(requested): QueryParams<DocsQuery>,
) -> JsonResult<DocsSearchResponse> {
    let text = requested.q.trim();
    let query = Query::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(Json(turn.work(|| http.documents.search(text, &query, &http.base_url))))
}

/// Returns the contract of handlers, which is also the file that `tollhouse init` writes.
async fn tool_types(headers: HeaderMap) -> Response {
    Document::of(TEXT, include_str!("../../runtime-js/tool.d.ts")).respond(&headers)
}

const AI_CATALOG: &str = "application/ai-catalog+json";

/// Describes the host's MCP server.
async fn ai_catalog(State(http): State<Http>, headers: HeaderMap) -> Response {
    let base = &http.base_url;
    let host = host_name(base);
    let card = json!({
        "identifier": format!("urn:air:{host}:mcp:tollhouse"),
        "displayName": "Tollhouse",
        "type": "application/mcp-server-card+json",
        "url": format!("{base}/ai/mcp/server-card"),
    });
    let catalog = json!({ "specVersion": "1.0", "host": { "displayName": "Tollhouse", "identifier": host }, "entries": [card] });
    Document::of(AI_CATALOG, catalog.to_string()).respond(&headers)
}

/// Returns `robots.txt`, which agent registries also read. Tools can be found, but pages of receipts and payments
/// cannot.
async fn robots() -> impl IntoResponse {
    let text = "User-agent: *\nDisallow: /dashboard/receipts/\nDisallow: /dashboard/payments/\nDisallow: /dev/\nAllow: /\n";
    ([(header::CONTENT_TYPE, TEXT), (header::CACHE_CONTROL, A_DAY)], text)
}

const A_DAY: &str = "public, max-age=86400";

/// The host's icon for registries: a half-open gate.
const SIGN: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#234" d="M4 6h5v22H4z"/><path fill="#c52" d="M9 12 29 4v5L9 17z"/></svg>"##;

async fn sign() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, A_DAY), (header::CONTENT_TYPE, "image/svg+xml")], SIGN)
}

/// Returns the icon for clients that only request `favicon.ico`.
async fn icon() -> impl IntoResponse {
    ([(header::CACHE_CONTROL, A_DAY), (header::CONTENT_TYPE, "image/x-icon")], include_bytes!("documents/favicon.ico").as_slice())
}
