//! x402's extension for MCP, `org.x402/payment`: a challenge is a result of its own kind, for clients that declare it.
//!
//! A challenge is first made as for everybody, and told anew as it is written.

use rmcp::model::{CallToolResponse, ClientCapabilities};
use serde_json::{Value, json};

use super::answer::is_challenge;

/// As clients and this server declare it.
pub(super) const EXTENSION: &str = "org.x402/payment";

/// Whether a client knows the extension.
pub(super) fn declared(client: &ClientCapabilities) -> bool {
    client.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(EXTENSION))
}

/// The challenge in a result, as the extension has it; `None` when it is none.
pub(super) fn challenge(response: &CallToolResponse) -> Option<Value> {
    let CallToolResponse::Complete(result) = response else { return None };
    is_challenge(result.meta.as_ref()?)
        .then(|| json!({ "resultType": "payment_required", "paymentRequired": result.structured_content, "_meta": result.meta }))
}
