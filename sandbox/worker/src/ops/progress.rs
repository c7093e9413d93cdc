//! `ctx.progress`.

use deno_core::{OpState, op2};

use crate::call_state::CallState;

/// Sends a progress message. A negative `fraction` means none.
#[op2(fast)]
pub(super) fn op_progress(state: &mut OpState, #[string] message: String, fraction: f64) {
    CallState::of(state).push_progress(message, (fraction >= 0.0).then_some(fraction));
}
