//! x402's extension for MCP, `org.x402/payment`: for clients that declare it, a challenge is a separate kind of result.
//!
//! A challenge is first built as for all clients, and converted when it is serialized, in `answer`.

use rmcp::model::ClientCapabilities;

/// The name by which clients and this server declare it.
pub(super) const EXTENSION: &str = "org.x402/payment";

/// Returns whether a client declares the extension.
pub(super) fn declared(client: &ClientCapabilities) -> bool {
    client.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(EXTENSION))
}
