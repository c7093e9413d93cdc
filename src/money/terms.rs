//! What a call costs.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    base::id::EndpointId,
    tool::{MicroUsd, Slug},
};

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
}

/// At most [`MAX_DESCRIPTION`] characters of `text`.
pub(super) fn short(text: &str) -> String {
    text.chars().take(MAX_DESCRIPTION).collect()
}
