//! The body of the call, if it is not JSON, and the bodies of responses.

use deno_core::{OpState, op2};
use tollhouse_protocol::OpRequest;

use super::args::whole;
use crate::call_state::CallState;

/// Reads the bytes of the body from `offset` on.
#[op2(fast)]
#[smi]
pub(super) fn op_body_read(state: &mut OpState, offset: f64) -> u32 {
    CallState::of(state).ops().request(OpRequest::BodyRead { offset: whole(offset).unwrap_or(0) })
}

/// Reads the next bytes of the response to the request `id`.
#[op2(fast)]
#[smi]
pub(super) fn op_fetch_read(state: &mut OpState, #[smi] id: u32) -> u32 {
    CallState::of(state).ops().read_response(id)
}

/// Ends the request `id`, or its response.
#[op2(fast)]
#[smi]
pub(super) fn op_fetch_cancel(state: &mut OpState, #[smi] id: u32) -> u32 {
    CallState::of(state).ops().request(OpRequest::FetchCancel { id })
}
