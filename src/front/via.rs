//! By which of the host's faces a request came.

use axum::http::{Extensions, HeaderMap, header};
use tollhouse_tool::Via;

/// Marks what a page of the dashboard asks for, inside the process: no request from outside carries it.
#[derive(Debug, Clone, Copy)]
pub struct ByPage;

/// What the host's command line calls itself, before its version.
const COMMAND_LINE: &str = "tollhouse/";

/// By which face a request came. Whoever asks over the network may call itself the command line: it is told, and hangs on nothing.
pub fn via(headers: &HeaderMap, extensions: &Extensions) -> Via {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    match agent {
        _ if extensions.get::<ByPage>().is_some() => Via::Dashboard,
        Some(agent) if agent.starts_with(COMMAND_LINE) => Via::Cli,
        Some(_) | None => Via::Http,
    }
}
