//! `setTimeout` and its family.

use deno_core::{OpState, op2};

use super::args::whole;
use crate::call_state::CallState;

/// Starts a timer. `set` is the number of timers that are set, including this one.
#[op2(fast)]
#[smi]
pub(super) fn op_sleep(state: &mut OpState, ms: f64, #[smi] set: u32) -> u32 {
    CallState::of(state).ops().sleep(whole(ms).unwrap_or(1).max(1), u64::from(set))
}

/// Queues a task that runs once all microtasks have, without waiting for the host. Returns its number.
#[op2(fast)]
#[smi]
pub(super) fn op_task(state: &mut OpState) -> u32 {
    CallState::of(state).ops().task()
}

/// Marks op `number` as unwanted: its answer wakes nobody. Returns whether the host has it.
#[op2(fast)]
pub(super) fn op_forget(state: &mut OpState, #[smi] number: u32) -> bool {
    CallState::of(state).ops().forget(number)
}
