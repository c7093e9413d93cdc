//! Ops that end a call or a load. The first end of a call counts.

use bytes::Bytes;
use deno_core::{OpState, op2};
use tollhouse_protocol::{LoadError, Outcome, ReplyBody, Thrown, ToolReply};

use crate::{
    call_state::{CallState, Exports},
    stack::position,
};

/// Returns the maximum length of the answer of the running call.
#[op2(fast)]
pub(super) fn op_output_bytes(state: &mut OpState) -> f64 {
    CallState::of(state).output_bytes()
}

/// Ends the call with a JSON value.
#[op2(fast)]
pub(super) fn op_returned(state: &mut OpState, #[string] json: String) {
    CallState::of(state).reply(ToolReply { status: 200, headers: Vec::new(), body: ReplyBody::Json(Bytes::from(json)) });
}

/// Ends the call with a text `Response`. `headers` contains JSON rows.
#[op2(fast)]
pub(super) fn op_responded(state: &mut OpState, #[smi] status: u32, #[string] headers: String, #[string] body: String, json: bool) {
    let body = Bytes::from(body);
    let body = if json { ReplyBody::Json(body) } else { ReplyBody::Raw(body) };
    CallState::of(state).reply(ToolReply { status: narrow(status), headers: rows(&headers), body });
}

/// Ends the call with a binary `Response`.
#[op2(fast)]
pub(super) fn op_responded_bytes(state: &mut OpState, #[smi] status: u32, #[string] headers: String, #[buffer] body: &[u8]) {
    let body = ReplyBody::Raw(Bytes::copy_from_slice(body));
    CallState::of(state).reply(ToolReply { status: narrow(status), headers: rows(&headers), body });
}

/// Ends the call with an exception, or because the result has no JSON form.
#[op2(fast)]
pub(super) fn op_threw(state: &mut OpState, #[string] message: String, #[string] stack: String) {
    CallState::of(state).end(Outcome::Threw(Thrown { message, stack }));
}

/// Ends the load: the module has a handler. `scheduled`: whether it also exports that function.
#[op2(fast)]
pub(super) fn op_loaded(state: &mut OpState, scheduled: bool) {
    CallState::of(state).loaded(Ok(Exports { scheduled }));
}

/// Records whether the call waits for work with `ctx.waitUntil`.
#[op2(fast)]
pub(super) fn op_background_work(state: &mut OpState, has_some: bool) {
    CallState::of(state).set_background_work(has_some);
}

/// Ends the load: the module threw, or has no handler.
#[op2(fast)]
pub(super) fn op_unloadable(state: &mut OpState, #[string] message: String, #[string] stack: String) {
    let (line, column) = position(&stack);
    CallState::of(state).loaded(Err(LoadError { message, line, column }));
}

/// Reads rows of headers.
pub(super) fn rows(json: &str) -> Vec<(String, String)> {
    serde_json::from_str(json).unwrap_or_default()
}

pub(super) fn narrow(status: u32) -> u16 {
    u16::try_from(status).unwrap_or(500)
}
