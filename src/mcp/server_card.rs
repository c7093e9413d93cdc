//! `GET /ai/mcp/server-card`: a description of the server for clients that are not connected yet (SEP-2127).

use axum::{
    Router,
    http::{HeaderValue, header},
    response::IntoResponse as _,
    routing::get,
};
use bytes::Bytes;
use serde_json::json;
use tollhouse_front::host_name;

use super::{
    front::{NAME, VERSION},
    refusal::PATH,
    revision::VERSIONS,
};

/// The path of the card, which the specification reserves below the server's path.
const CARD: &str = "/ai/mcp/server-card";

const MEDIA: &str = "application/mcp-server-card+json";

/// Returns the route of the card, which does not change while the host runs.
pub(super) fn routes(base_url: &str) -> Router {
    let reversed = host_name(base_url).rsplit('.').collect::<Vec<_>>().join(".");
    let versions: Vec<_> = VERSIONS.iter().map(|version| version.as_str()).collect();
    let card = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": format!("{reversed}/{NAME}"),
        "title": "Tollhouse",
        "description": "Tools of many builders, some paid per call with x402.",
        "version": VERSION,
        "websiteUrl": base_url,
        "icons": [{ "src": format!("{base_url}/favicon.svg"), "mimeType": "image/svg+xml", "sizes": ["any"] }],
        "remotes": [{ "type": "streamable-http", "url": format!("{base_url}{PATH}"), "supportedProtocolVersions": versions }],
    });
    let card = Bytes::from(card.to_string());
    Router::new().route(
        CARD,
        get(move || async move {
            let headers = [(header::CONTENT_TYPE, MEDIA), (header::CACHE_CONTROL, "public, max-age=3600")];
            (headers.map(|(name, value)| (name, HeaderValue::from_static(value))), card).into_response()
        }),
    )
}
