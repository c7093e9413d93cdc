//! The MCP front end: `POST /ai/mcp`, stateless Streamable HTTP, revisions 2025-03-26 to 2026-07-28.
//!
//! ```text
//!                               ┌─▶ direct: plain calls, as JSON ─────────────┐
//! transport: Accept, batch ────────┴▶ rmcp: JSON-RPC, revisions, SSE ─▶ server ─┴▶ call ─▶ call::Calls
//!                      (beside: raw results)                      ├─ tools: lists
//!                                                                 ├─ own: search_tools, get_receipt
//!                                                                 └─ begun: until its end ── progress, cancel, tasks
//! ```
//!
//! MCP tools are the active tools, named by their slugs. A call is the same as over HTTP, with the same pipeline,
//! payment and answer, in another wrapping. Payment is in-band (x402's MCP transport), never a 402.

#![warn(missing_docs)]

mod accept;
mod answer;
mod arguments;
mod batch;
mod begun;
mod beside;
mod call;
mod cancel;
mod card;
mod direct;
mod extension;
mod front;
mod heed;
mod list_cache;
mod listed;
mod listen;
mod listeners;
mod names;
mod narrowed;
mod offer;
mod own;
mod pieces;
mod progress;
mod recalls;
mod refusal;
mod request;
mod revision;
mod server;
mod services;
mod settings;
mod tasks;
mod tools;
mod transport;
mod unpayable;

pub use self::{
    refusal::wording,
    services::Services,
    settings::Mcp,
    transport::{door, routes},
};
