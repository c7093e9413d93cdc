//! The built-in readiness check: what an agent would find at an MCP or x402 metadata URL.
//!
//! It fetches the URL through a [`ReadinessClient`] and interprets the response: a 402 challenge of either version, a
//! manifest, an OpenAPI document, a `server.json`, MCP metadata or an MCP endpoint. It also looks for the discovery
//! documents of the same origin. It does *not* pay, sign or log in. It sends a GET, an empty POST if GET is refused,
//! and MCP's `initialize` and `tools/list`, with the beginning and end of a session if there is one: at most 11 in all,
//! not counting redirects, and each under a time limit.
//!
//! A URL that cannot be reached is a result, not an error. Texts of the other side are shortened before they are
//! repeated.

mod challenge;
mod client;
mod discovery;
mod document;
mod mcp;
mod notes;
pub(crate) mod request;
pub(crate) mod seller;

use bytes::Bytes;
use reqwest::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use tollhouse_base::{boxed, offload::run_blocking};
use tollhouse_capability::guard::{Fetch, Fetched};

pub use self::client::ReadinessClient;
use self::{
    discovery::DiscoveryUrl,
    document::Kind,
    notes::{Note, Notes, short},
    request::{BODY_BYTES, FIRST_WALL, REST_WALL, post_json, with_agent},
};

/// The result of a check.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    url: String,
    /// The URL of the answer after redirects.
    #[serde(skip_serializing_if = "Option::is_none")]
    final_url: Option<String>,
    reachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    kind: Kind,
    /// Whether something was recognized, and no note is an error.
    ready: bool,
    found: Map<String, Value>,
    notes: Vec<Note>,
    expected_discovery_urls: Vec<DiscoveryUrl>,
    next_actions: Vec<String>,
    paid: bool,
}

#[derive(Serialize)]
struct Reason {
    code: &'static str,
    message: String,
}

/// Checks `url`, and reports what an agent would find there.
#[boxed]
pub async fn check(client: &ReadinessClient, url: &str) -> Value {
    let report = match client.fetch(with_agent(Fetch::get(url, FIRST_WALL, BODY_BYTES))).await {
        Ok(fetched) => inspect(client, url, fetched).await,
        Err(error) => {
            let urls = client.check(url).map(|url| discovery::expected(&url)).unwrap_or_default();
            unreachable(url, Reason { code: error.code(), message: error.to_string() }, urls)
        }
    };
    serde_json::to_value(report).unwrap_or_default()
}

/// Returns the result of a check that another check requested.
pub(crate) fn of_a_check(url: &str) -> Value {
    let reason = Reason { code: "asked_by_a_check", message: "a check cannot request another check".to_owned() };
    serde_json::to_value(unreachable(url, reason, vec![])).unwrap_or_default()
}

fn unreachable(url: &str, reason: Reason, urls: Vec<DiscoveryUrl>) -> Report {
    let mut notes = Notes::default();
    notes.error("unreachable", format!("the URL could not be read: {}", reason.message));
    let action = match reason.code {
        "forbidden_address" | "invalid_argument" => "Submit an https URL of a public host, without credentials or a port.",
        "asked_by_a_check" => "Submit the URL that the inner check was meant for.",
        "timeout" => "Make the URL answer within 4 seconds, then check again.",
        _ => "Make the URL answer over https from the public internet, then check again.",
    };
    Report {
        url: short(url),
        reason: Some(reason),
        notes: notes.into_vec(),
        expected_discovery_urls: urls,
        next_actions: vec![action.to_owned()],
        ..Report::default()
    }
}

async fn inspect(client: &ReadinessClient, submitted: &str, first: Fetched) -> Report {
    let mut seen = Seen::default();
    let origin = first.url.clone();
    let look = tokio::time::timeout(REST_WALL, seen.look(client, &first));
    let (looked, urls) = tokio::join!(look, discovery::probe(client, &origin, REST_WALL));
    if looked.is_err() {
        seen.notes.warning("slow", "a further request got no answer in time, so this check is not complete");
    }
    if client.is_own(&origin) {
        seen.notes.info("own_host", "the URL belongs to this host, so the check did not try whether other machines can reach it");
    }
    if origin.scheme() != "https" {
        seen.notes.warning("not_https", "the URL is not https, so payments and prices can be changed on the way");
    }
    let missing: Vec<_> = urls.iter().filter(|url| url.found == Some(false) && url.important).map(|url| url.url.as_str()).collect();
    if !missing.is_empty() {
        seen.notes.info("discovery_missing", format!("indexers and agents look for these and do not find them: {}", missing.join(", ")));
    }
    let ready = seen.kind != Kind::Unknown && !seen.notes.any_error();
    let next_actions = next_actions(&seen, ready, !missing.is_empty());
    Report {
        url: short(submitted),
        final_url: (origin.as_str() != submitted).then(|| short(origin.as_str())),
        reachable: true,
        status: Some(first.status.as_u16()),
        kind: seen.kind,
        ready,
        found: seen.found,
        notes: seen.notes.into_vec(),
        expected_discovery_urls: urls,
        next_actions,
        ..Report::default()
    }
}

#[derive(Default)]
struct Seen {
    kind: Kind,
    found: Map<String, Value>,
    notes: Notes,
}

impl Seen {
    async fn look(&mut self, client: &ReadinessClient, first: &Fetched) {
        match first.status {
            StatusCode::PAYMENT_REQUIRED => self.challenge(first).await,
            status if status.is_success() => self.document(first).await,
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE => {
                self.post(client, first).await;
            }
            status => self.notes.error("status", format!("GET answers {status}, which is neither a payment challenge nor metadata")),
        }
    }

    async fn challenge(&mut self, fetched: &Fetched) {
        self.kind = Kind::PaidEndpoint;
        let challenge = run_blocking(fetched.body.len(), || challenge::read(fetched, &mut self.notes)).await;
        self.found.insert("payment".into(), challenge.shown());
    }

    async fn document(&mut self, fetched: &Fetched) {
        self.kind = run_blocking(fetched.body.len(), || document::read(fetched, &mut self.found, &mut self.notes)).await;
    }

    /// If GET is refused, sends an unpaid, empty POST as indexers do, and then acts as an MCP client.
    async fn post(&mut self, client: &ReadinessClient, first: &Fetched) {
        let get = first.status;
        let url = first.url.as_str();
        let empty = post_json(url, Bytes::new());
        let answered = match client.fetch(empty).await {
            Ok(answered) => answered,
            Err(error) => return self.notes.error("unreachable", format!("GET answers {get}, and POST gets no answer: {error}")),
        };
        if answered.status == StatusCode::PAYMENT_REQUIRED {
            self.notes.info("method", format!("GET answers {get}, and an unpaid POST gets a payment challenge"));
            return self.challenge(&answered).await;
        }
        if mcp::looks_like_one(&first.url, &answered).await && mcp::read(client, url, &mut self.found, &mut self.notes).await {
            self.kind = Kind::McpEndpoint;
            return;
        }
        let text = format!("GET answers {get} and an unpaid, empty POST {}: neither a challenge nor metadata", answered.status);
        self.notes.error("nothing_found", text);
        if matches!(answered.status.as_u16(), 400 | 415 | 422) {
            let text = "if this endpoint is paid, it checks the input before it requires payment; indexers send an empty body and expect the 402 first";
            self.notes.warning("validation_before_402", text);
        }
    }
}

fn next_actions(seen: &Seen, ready: bool, discovery_missing: bool) -> Vec<String> {
    let mut actions = Vec::new();
    if seen.notes.any_error() {
        actions.push("Fix the notes of severity `error`, then check again.".to_owned());
    }
    let action = match seen.kind {
        Kind::Unknown => "Submit the URL of a paid endpoint, a public manifest, an OpenAPI document, a server.json or an MCP endpoint.",
        _ if !ready => "",
        Kind::PaidEndpoint => {
            "Pay with an x402 client that has a spending limit; compare payTo, asset and amount with `found.payment` first."
        }
        Kind::McpEndpoint => "Connect an MCP client and list the tools; paid tools ask for payment inside the result of `tools/call`.",
        Kind::McpMetadata | Kind::McpServerJson => "Check the MCP endpoint that this document names.",
        Kind::Openapi | Kind::X402WellKnown | Kind::EndpointCatalog | Kind::ServiceManifest => {
            "Check one of the paid endpoints that this document names, unpaid, before paying it."
        }
        Kind::Facilitator => "Use this facilitator from a seller's settings; buyers do not call it themselves.",
        Kind::LlmsTxt => "Follow its links to the machine-readable documents and check those.",
    };
    actions.extend(Some(action.to_owned()).filter(|action| !action.is_empty()));
    if discovery_missing {
        actions.push("Serve the missing discovery documents named in `expectedDiscoveryUrls`.".to_owned());
    }
    actions.push("Nothing was paid or signed by this check.".to_owned());
    actions
}

#[cfg(test)]
mod tests;
