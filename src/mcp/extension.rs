//! x402's extension for MCP, `org.x402/payment`: a challenge is a result of its own kind, for clients that declare it.
//!
//! A challenge is first made as for everybody, and told anew as it is written: in `answer`.

use rmcp::model::ClientCapabilities;

/// As clients and this server declare it.
pub(super) const EXTENSION: &str = "org.x402/payment";

/// Whether a client knows the extension.
pub(super) fn declared(client: &ClientCapabilities) -> bool {
    client.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(EXTENSION))
}
