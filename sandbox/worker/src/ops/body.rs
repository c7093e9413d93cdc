//! The body of the call, if it is not JSON.

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
