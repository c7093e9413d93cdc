//! The documents that indexers and agents look for at an origin.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::Value;
use tollhouse_base::offload::run_blocking;
use tollhouse_capability::guard::{Fetch, Fetched};
use url::Url;

use super::{ReadinessClient, request::with_agent};

/// Number of documents that are probed. The rest of [`EXPECTED`] is only named.
pub(super) const PROBED: usize = 5;
/// Maximum size of a document that is read while probing, in bytes.
const BODY_BYTES: usize = 1 << 20;

struct Expected {
    path: &'static str,
    purpose: &'static str,
    /// Whether a missing document is worth a note.
    important: bool,
    fits: fn(&Fetched) -> bool,
}

const EXPECTED: &[Expected] = &[
    Expected { path: "/openapi.json", purpose: "paid operations with prices; what x402 indexers read", important: true, fits: is_openapi },
    Expected { path: "/.well-known/x402", purpose: "list of paid resources; older indexers", important: true, fits: is_json_object },
    Expected { path: "/llms.txt", purpose: "overview for language models", important: false, fits: is_text },
    Expected { path: "/.well-known/mcp/server.json", purpose: "MCP server description", important: false, fits: is_json_object },
    Expected { path: "/.well-known/mcp.json", purpose: "MCP endpoints of the origin", important: false, fits: is_json_object },
    Expected { path: "/favicon.ico", purpose: "icon in listings", important: false, fits: |_| true },
];

/// A discovery URL of an origin.
#[derive(Debug, Serialize)]
pub(super) struct DiscoveryUrl {
    pub(super) url: String,
    purpose: &'static str,
    /// Whether the document exists. `None` if it was not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) found: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip)]
    pub(super) important: bool,
}

/// Returns the discovery URLs of `url`'s origin.
pub(super) fn expected(url: &Url) -> Vec<DiscoveryUrl> {
    let at = |expected: &Expected| {
        let url = url.join(expected.path).map_or_else(|_| expected.path.to_owned(), |url| url.to_string());
        DiscoveryUrl { url, purpose: expected.purpose, found: None, status: None, important: expected.important }
    };
    EXPECTED.iter().map(at).collect()
}

/// Probes the discovery URLs of `url`'s origin, each within `wall`.
pub(super) async fn probe(client: &ReadinessClient, url: &Url, wall: Duration) -> Vec<DiscoveryUrl> {
    let probes = expected(url).into_iter().zip(EXPECTED).enumerate().map(|(index, (mut position, expected))| async move {
        if index < PROBED {
            let fetched = client.fetch(with_agent(Fetch::get(&position.url, wall, BODY_BYTES))).await;
            position.status = fetched.as_ref().ok().map(|fetched| fetched.status.as_u16());
            position.found = Some(match fetched {
                Ok(fetched) if fetched.status.is_success() => run_blocking(fetched.body.len(), || (expected.fits)(&fetched)).await,
                Ok(_) | Err(_) => false,
            });
        }
        position
    });
    join_all(probes).await
}

fn is_json_object(fetched: &Fetched) -> bool {
    matches!(serde_json::from_slice(&fetched.body), Ok(Value::Object(_)))
}

fn is_openapi(fetched: &Fetched) -> bool {
    serde_json::from_slice::<Value>(&fetched.body).is_ok_and(|document| document["openapi"].is_string())
}

/// Returns whether it is a plain text. Many sites answer any path with their home page, which does not count.
fn is_text(fetched: &Fetched) -> bool {
    let kind = fetched.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    !fetched.body.is_empty() && kind.starts_with("text/") && !kind.starts_with("text/html")
}
