//! The effective settings of the MCP front end on this host.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use tollhouse_base::{gcra::Tally, rate_limit::RateLimiter};
use tollhouse_config::McpSettings;
use tollhouse_front::AllowedOrigins;
use tollhouse_replica::SharedCounts;
use tollhouse_tool::Slug;

use super::names::ToolName;

/// The effective settings of the MCP front end on this host.
#[derive(Debug)]
pub struct McpOptions {
    pub(super) origins: Arc<AllowedOrigins>,
    /// Limit of calls per address and tool.
    pub(super) rate: Option<Arc<RateLimiter<(IpAddr, ToolName)>>>,
    pub(super) given: McpSettings,
    /// Whether tool names use underscores for hyphens, as those of the conformance suite do. Slugs have no underscores.
    pub(super) underscores: bool,
}

/// The loopback names of a machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl McpOptions {
    /// Computes the settings. A host on loopback accepts only loopback's names and its own, so that no web page reaches
    /// it by a name that resolves here. A host behind proxies cannot know its names, so it accepts any name unless
    /// configured.
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
            origins: Arc::new(AllowedOrigins::new(&hosts, origins.as_deref())),
            rate: settings.rate_limit.map(RateLimiter::new).map(Arc::new),
            given: settings.clone(),
            underscores: settings.conformance_tools.is_some(),
        }
    }

    /// Returns the allowed hosts and origins, for other front ends.
    pub fn origins(&self) -> Arc<AllowedOrigins> {
        Arc::clone(&self.origins)
    }

    /// Returns the slug of the tool called `name`.
    pub(super) fn slug_of<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.underscores { Cow::Owned(name.replace('_', "-")) } else { Cow::Borrowed(name) }
    }

    /// Returns the name of the tool with this slug.
    pub(super) fn name_of(&self, slug: &Slug) -> String {
        name_of(slug, self.underscores)
    }

    /// Returns the counters of callers that replicas share.
    pub fn tallies(&self) -> SharedCounts {
        self.rate.iter().map(|rate| ("mcp", Arc::clone(rate) as Arc<dyn Tally>)).collect()
    }

    /// Forgets callers that have been quiet, so that memory stays bounded.
    pub fn prune_idle(&self) {
        if let Some(rate) = &self.rate {
            rate.prune_idle();
        }
    }
}

/// Returns the name of a tool.
pub(super) fn name_of(slug: &Slug, underscores: bool) -> String {
    if underscores { slug.as_str().replace('-', "_") } else { slug.to_string() }
}
