//! What a call costs.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tollhouse_base::id::EndpointId;
use tollhouse_tool::{MicroUsd, Owner, SettleTime, Slug};

/// Longest description in a challenge, in characters: facilitators refuse longer ones.
const MAX_DESCRIPTION: usize = 500;

/// How long an authorisation must be valid beyond the time that a handler may take: to queue, and to settle. Facilitators refuse
/// what ends within 6 s.
pub(super) const SETTLE_MARGIN: Duration = Duration::from_secs(30);

/// What a call of one endpoint version costs, and the words of its challenge.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The tool that is paid for.
    pub slug: Slug,
    /// The endpoint behind the slug.
    pub endpoint_id: EndpointId,
    /// Whose tool it is.
    pub owner: Owner,
    /// Version that runs.
    pub version: String,
    /// Absolute URL of the tool: what a payment is bound to.
    pub resource_url: String,
    /// For wallets that show what is paid for.
    pub description: String,
    /// What is asked: at most, where the tool is metered.
    pub price: MicroUsd,
    /// Whether the handler says what a call costs: then no payment is asked for that takes all of what is authorised.
    pub metered: bool,
    /// The networks and tokens that are taken of those that the host takes, each as `network` or `network/token`; all if empty.
    pub accepts: Vec<String>,
    /// When a call is charged: before its handler runs, or after.
    pub settle: SettleTime,
    /// For who wants to know before paying.
    pub input_schema: Arc<Value>,
    /// For who wants to know before paying.
    pub output_schema: Arc<Value>,
    /// For directories of what can be paid for.
    pub tags: Vec<String>,
    /// How long the work may take that is paid for: the tool's wall limit.
    pub wall: Duration,
    /// How long an authorisation must stay valid, in seconds: the tool's wall limit, and time to settle.
    pub timeout_secs: u64,
    /// What was signed of them last.
    pub offers: SignedOffers,
}

/// The offers that were signed last, and in which minute: a signature takes longer than all else of a challenge. A clone has none.
#[derive(Debug, Default)]
pub struct SignedOffers(Mutex<Option<Signed>>);

/// When and how they were asked for, what was offered, and that signed.
type Signed = ((u64, Way), Vec<Value>, Arc<Vec<Value>>);

impl SignedOffers {
    /// Those of `accepts` in this minute and way, or what `sign` makes.
    pub(super) fn of(&self, at: (u64, Way), accepts: &[Value], sign: impl FnOnce() -> Vec<Value>) -> Arc<Vec<Value>> {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., offers)) = last().as_ref().filter(|(signed, of, _)| *signed == at && of == accepts) {
            return Arc::clone(offers);
        }
        let offers = Arc::new(sign());
        *last() = Some((at, accepts.to_vec(), Arc::clone(&offers)));
        offers
    }
}

impl Clone for SignedOffers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// How a tool is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// With its input in the body.
    Post,
    /// With its input in the query.
    Get,
    /// As a tool of MCP.
    Mcp,
}

impl Way {
    /// Most asked first.
    pub(super) const ALL: [Self; 3] = [Self::Post, Self::Get, Self::Mcp];

    /// That of a request over HTTP.
    #[must_use]
    pub fn of_method(method: &str) -> Self {
        if matches!(method, "GET" | "HEAD") { Self::Get } else { Self::Post }
    }
}

impl Terms {
    /// Whether the payment is settled before the handler runs. What a metered call costs is known only after that.
    #[must_use]
    pub fn is_upfront(&self) -> bool {
        self.settle == SettleTime::Before && !self.metered
    }

    /// The address at which the tool is asked in this way. For MCP it is the server's, narrowed to this tool.
    #[must_use]
    pub fn resource(&self, way: Way) -> Cow<'_, str> {
        let base = match way {
            Way::Post | Way::Get => None,
            Way::Mcp => self.resource_url.strip_suffix(self.slug.as_str()).and_then(|url| url.strip_suffix("/tools/")),
        };
        match base {
            Some(base) => Cow::Owned(format!("{base}/ai/mcp?tools={}", self.slug)),
            None => Cow::Borrowed(&self.resource_url),
        }
    }
}

/// At most [`MAX_DESCRIPTION`] characters of `text`.
pub(super) fn short(text: &str) -> String {
    text.chars().take(MAX_DESCRIPTION).collect()
}

#[cfg(test)]
mod tests;
