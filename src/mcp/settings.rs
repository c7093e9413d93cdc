//! The front's settings, as they work out on this host.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tollhouse_base::{rate::Rate, uses::Tally};
use tollhouse_config::{ListenerSettings, McpSettings, TaskSettings};
use tollhouse_front::AllowedOrigins;
use tollhouse_replica::Tallies;
use tollhouse_tool::Slug;

use super::names::ToolName;

/// The front's settings as they work out on this host.
#[derive(Debug)]
pub struct Mcp {
    pub(super) origins: Arc<AllowedOrigins>,
    /// Calls of each address and tool.
    pub(super) rate: Option<Arc<Rate<(IpAddr, ToolName)>>>,
    /// Members of a batch.
    pub(super) batch: usize,
    /// Time between two progress notifications.
    pub(super) progress: Duration,
    /// Of long-running calls.
    pub(super) tasks: TaskSettings,
    /// Of streams that tell of changes.
    pub(super) listeners: ListenerSettings,
    /// The conformance suite's tools have underscores in their names, which slugs have not.
    pub(super) underscores: bool,
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
            origins: Arc::new(AllowedOrigins::new(&hosts, origins.as_deref())),
            rate: settings.rate_limit.map(Rate::new).map(Arc::new),
            batch: settings.batch,
            progress: settings.progress,
            tasks: settings.tasks,
            listeners: settings.listeners,
            underscores: settings.conformance_tools.is_some(),
        }
    }

    /// By which names the host is reached, for whoever else asks that.
    #[must_use]
    pub fn origins(&self) -> Arc<AllowedOrigins> {
        Arc::clone(&self.origins)
    }

    /// The slug of the tool that is called `name`.
    pub(super) fn slug_of<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.underscores { Cow::Owned(name.replace('_', "-")) } else { Cow::Borrowed(name) }
    }

    /// The name of the tool with this slug.
    pub(super) fn name_of(&self, slug: &Slug) -> String {
        name_of(slug, self.underscores)
    }

    /// What is counted of callers who may come to other hosts as well.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        self.rate.iter().map(|rate| ("mcp", Arc::clone(rate) as Arc<dyn Tally>)).collect()
    }

    /// Forgets callers that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        if let Some(rate) = &self.rate {
            rate.forget_quiet();
        }
    }
}

/// The name of a tool.
pub(super) fn name_of(slug: &Slug, underscores: bool) -> String {
    if underscores { slug.as_str().replace('-', "_") } else { slug.to_string() }
}
