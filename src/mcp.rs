//! The MCP front: `POST /ai/mcp`, Streamable HTTP without state between requests, revisions 2025-03-26 to 2026-07-28.
//!
//! ```text
//!                               ┌─▶ direct: plain calls, as JSON ─────────────┐
//! transport: origin, Accept, batch ┴▶ rmcp: JSON-RPC, revisions, SSE ─▶ server ─┴▶ call ─▶ call::Calls
//!                      (its results go beside it)                 ├─ tools: what is listed
//!                                                                 ├─ own: search_tools, get_receipt
//!                                                                 ├─ tasks: calls that outlive their request
//!                                                                 └─ cancel: calls that are taken back
//! ```
//!
//! Tools are the active endpoints, by their slugs. A call is the same call as over HTTP: the same pipeline, the
//! same payment, the same answer; only what it is wrapped in differs. Payment is in-band (x402's MCP
//! transport), never a 402.

mod answer;
mod batch;
mod beside;
mod call;
mod cancel;
mod direct;
mod extension;
mod offer;
mod origins;
mod own;
mod refusal;
mod server;
mod tasks;
mod tools;
mod transport;

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

pub use self::{
    cancel::SESSION,
    refusal::{PATH, spoken},
    transport::route,
};
use self::{origins::AllowedOrigins, tools::Maker};
use crate::{base::rate::Rate, catalog::MakeForm, config::McpSettings, money::Gate, tool::Slug};

/// The front's settings as they work out on this host.
#[derive(Debug)]
pub struct Mcp {
    origins: AllowedOrigins,
    /// Calls of each address and tool.
    rate: Option<Rate<(IpAddr, String)>>,
    /// Members of a batch.
    batch: usize,
    /// Time between two progress notifications.
    progress: Duration,
    /// The conformance suite's tools have underscores in their names, which slugs have not.
    underscores: bool,
}

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Mcp {
    /// A host on loopback answers to loopback's names and its own, so that no web page reaches it by a name that it made
    /// point here; one that is reached through proxies cannot know its names, and answers to any unless told.
    #[must_use]
    pub fn new(settings: &McpSettings, listen: SocketAddr, base_url: &str) -> Self {
        let base = url::Url::parse(base_url).ok();
        let any = |given: &[String]| given.iter().any(|word| word == "*");
        let hosts = match settings.hosts.as_slice() {
            given if any(given) => vec![],
            [] if listen.ip().is_loopback() => {
                let own = base.as_ref().and_then(url::Url::host_str);
                LOOPBACK.into_iter().chain(own).map(str::to_owned).collect()
            }
            given => given.to_vec(),
        };
        let origins = match settings.origins.as_slice() {
            given if any(given) => None,
            [] => {
                let own =
                    base.as_ref().and_then(|url| Some(format!("{}://{}:{}", url.scheme(), url.host_str()?, url.port_or_known_default()?)));
                Some(LOOPBACK.into_iter().map(|name| format!("http://{name}:*")).chain(own).collect())
            }
            given => Some(given.to_vec()),
        };
        Self {
            origins: AllowedOrigins::new(&hosts, origins.as_deref()),
            rate: settings.rate_limit.map(Rate::new),
            batch: settings.batch,
            progress: settings.progress,
            underscores: settings.conformance_tools.is_some(),
        }
    }

    /// Makes the tool of each endpoint, for the catalogue to keep.
    #[must_use]
    pub fn make_form(&self, long_running_ms: u64, gate: Arc<Gate>) -> MakeForm {
        let maker = Maker { gate, long_running_ms, underscores: self.underscores };
        Box::new(move |live| maker.make(live))
    }

    /// The slug of the tool that is called `name`.
    fn slug_of<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.underscores { Cow::Owned(name.replace('_', "-")) } else { Cow::Borrowed(name) }
    }

    /// Forgets callers that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        if let Some(rate) = &self.rate {
            rate.forget_quiet();
        }
    }
}

/// The name of a tool.
fn name_of(slug: &Slug, underscores: bool) -> String {
    if underscores { slug.as_str().replace('-', "_") } else { slug.to_string() }
}
