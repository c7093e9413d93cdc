//! The MCP front end: `POST /ai/mcp`, stateless Streamable HTTP, revisions 2025-03-26 to 2026-07-28.
//!
//! ```text
//!                                  ┌─▶ fast_path: plain calls and lists, as JSON ─┐
//! transport: Accept, batch, parse ─┴▶ rmcp: JSON-RPC, revisions, SSE ─▶ server ───┴▶ call ─▶ call::Calls
//!                                     (raw_result: exact results)       ├─ tools: lists
//!                                                                       └─ tasks
//! ```
//!
//! A call runs in `builtin_tools`, or as a `started_call` that can report progress, be canceled and become a task.
//!
//! MCP tools are the active tools, named by their slugs. A call is the same as over HTTP, with the same pipeline,
//! payment and answer, in another wrapping. Payment is in-band (x402's MCP transport), never a 402.

mod accepted_forms;
mod answer;
mod arguments;
mod batch;
mod builtin_tools;
mod call;
mod cancel;
mod chunked_body;
mod dialect;
mod fast_path;
mod front;
mod list_cache;
mod listen;
mod listeners;
mod message;
mod names;
mod progress;
mod raw_result;
mod refusal;
mod remote_cancel;
mod request;
mod revision;
mod server;
mod server_card;
mod services;
mod settings;
mod started_call;
mod tasks;
mod tool_entry;
mod tool_filter;
mod tools;
mod transport;
mod unpayable;

pub use self::{
    refusal::wording,
    services::Services,
    settings::McpOptions,
    transport::{door, routes},
};
