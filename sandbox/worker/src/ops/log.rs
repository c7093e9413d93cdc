//! `ctx.log` and `console`.

use deno_core::{OpState, op2};
use tollhouse_protocol::LogLevel;

use crate::call_state::CallState;

#[op2(fast)]
pub(super) fn op_log(state: &mut OpState, #[smi] level: u32, #[string] message: String, #[string] fields: String) {
    let level = match level {
        0 => LogLevel::Debug,
        2 => LogLevel::Warn,
        3 => LogLevel::Error,
        _ => LogLevel::Info,
    };
    CallState::of(state).log(level, message, fields);
}
