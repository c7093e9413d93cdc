//! The terms of a call: its price and how it is paid.

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde_json::Value;
use tollhouse_base::{id::EndpointId, lock::Lock};
use tollhouse_tool::{MicroUsd, Owner, SettleTime, Slug};

/// Maximum length of a description in a challenge, in characters. Facilitators refuse longer ones.
const MAX_DESCRIPTION: usize = 500;

/// How long an authorization must be valid beyond the handler's time limit, for queueing and settling. Facilitators
/// refuse authorizations that expire within 6 s.
pub(super) const SETTLE_MARGIN: Duration = Duration::from_secs(30);

/// The price of a call of a tool's version, and the texts of its challenge.
#[derive(Debug, Clone)]
pub struct CallTerms {
    /// The tool that is paid for.
    pub slug: Slug,
    /// The id behind the slug.
    pub endpoint_id: EndpointId,
    /// The tool's owner.
    pub owner: Owner,
    /// The version that runs.
    pub version: String,
    /// Absolute URL of the tool, which a payment is bound to.
    pub resource_url: String,
    /// Description shown by wallets.
    pub description: String,
    /// The price, or the maximum for a metered tool.
    pub price: MicroUsd,
    /// Whether the handler sets the price of a call. Then only payments are offered that can take less than the
    /// authorized amount.
    pub metered: bool,
    /// The accepted networks and tokens among those of the host, each as `network` or `network/token`. Empty means all.
    pub accepts: Vec<String>,
    /// Whether a call is charged before or after its handler runs.
    pub settle: SettleTime,
    /// Input schema for the challenge.
    pub input_schema: Arc<Value>,
    /// Output schema for the challenge.
    pub output_schema: Arc<Value>,
    /// Tags for directories of paid tools.
    pub tags: Vec<String>,
    /// The tool's wall limit.
    pub wall: Duration,
    /// How long an authorization must be valid, in seconds: the tool's wall limit and the time to settle.
    pub timeout_secs: u64,
    /// Cache of the last signed offers.
    pub offers: SignedOffers,
}

/// The offers signed last, and their minute. Signing takes longer than the rest of a challenge. A clone starts empty.
#[derive(Debug, Default)]
pub struct SignedOffers(Lock<Option<Signed>>);

/// Minute and way of the request, the offers, and the signed offers.
type Signed = ((u64, EntryMethod), Vec<Value>, Arc<Vec<Value>>);

impl SignedOffers {
    /// Returns the cached offers for `accepts` in this minute and way, or those that `sign` makes.
    pub(super) fn of(&self, at: (u64, EntryMethod), accepts: &[Value], sign: impl FnOnce() -> Vec<Value>) -> Arc<Vec<Value>> {
        let last = || self.0.lock();
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

/// A way to call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryMethod {
    /// With the input in the body.
    Post,
    /// With the input in the query.
    Get,
    /// As an MCP tool.
    Mcp,
}

impl EntryMethod {
    /// All ways, most common first.
    pub(super) const ALL: [Self; 3] = [Self::Post, Self::Get, Self::Mcp];

    /// Returns the way of an HTTP request.
    pub fn of_method(method: &str) -> Self {
        if matches!(method, "GET" | "HEAD") { Self::Get } else { Self::Post }
    }
}

impl CallTerms {
    /// Returns whether the payment is settled before the handler runs. This is never so for metered calls, whose price
    /// is known only afterwards.
    pub fn is_upfront(&self) -> bool {
        self.settle == SettleTime::Before && !self.metered
    }

    /// Returns the URL for calling the tool this way. For MCP it is the server's URL, limited to this tool.
    pub fn resource(&self, method: EntryMethod) -> Cow<'_, str> {
        let base = match method {
            EntryMethod::Post | EntryMethod::Get => None,
            EntryMethod::Mcp => self.resource_url.strip_suffix(self.slug.as_str()).and_then(|url| url.strip_suffix("/tools/")),
        };
        match base {
            Some(base) => Cow::Owned(format!("{base}/ai/mcp?tools={}", self.slug)),
            None => Cow::Borrowed(&self.resource_url),
        }
    }
}

/// Truncates `text` to [`MAX_DESCRIPTION`] characters.
pub(super) fn short(text: &str) -> String {
    text.chars().take(MAX_DESCRIPTION).collect()
}

#[cfg(test)]
mod tests;
