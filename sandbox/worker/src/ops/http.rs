//! `ctx.httpGetJson`.

use deno_core::{OpState, op2};
use tollhouse_protocol::{HeaderFromEnv, OpRequest};

use super::args::whole;
use crate::call_state::CallState;

/// `headers` is JSON rows, `auth` a JSON object or empty, both made by 13_http.js.
#[op2(fast)]
#[smi]
pub(super) fn op_http_get_json(
    state: &mut OpState,
    #[string] url: String,
    #[string] headers: String,
    timeout_ms: f64,
    #[string] auth: String,
) -> u32 {
    let Ok(headers) = serde_json::from_str(&headers) else {
        return CallState::of(state).ops().refuse("invalid_argument", "headers do not read as names and values");
    };
    let auth = serde_json::from_str::<HeaderFromEnv>(&auth).ok();
    CallState::of(state).ops().request(OpRequest::HttpGetJson { url, headers, timeout_ms: whole(timeout_ms), auth })
}
