//! The entry point of a request: the dashboard, the command line or the HTTP API.

use axum::http::{Extensions, HeaderMap, header};
use tollhouse_tool::ChangedVia;

/// Marks an in-process request of a dashboard page. Requests from outside never carry it.
#[derive(Debug, Clone, Copy)]
pub struct FromPage;

/// The prefix of the command line's user agent, before its version.
const COMMAND_LINE: &str = "tollhouse/";

/// Returns the entry point of a request. Any client can claim to be the command line. The entry point is only shown,
/// and decides nothing.
pub fn entry_point(headers: &HeaderMap, extensions: &Extensions) -> ChangedVia {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    match agent {
        _ if extensions.get::<FromPage>().is_some() => ChangedVia::Dashboard,
        Some(agent) if agent.starts_with(COMMAND_LINE) => ChangedVia::Cli,
        Some(_) | None => ChangedVia::Http,
    }
}
