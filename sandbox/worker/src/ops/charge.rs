//! `ctx.charge`.

use deno_core::{OpState, op2};
use tollhouse_protocol::OpRequest;

use crate::call_state::CallState;

/// Sets the price of the call `call`, in dollars.
#[op2(fast)]
#[smi]
pub(super) fn op_charge(state: &mut OpState, #[string] call: String, #[string] usd: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::Charge { call, usd })
}
