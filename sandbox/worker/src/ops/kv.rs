//! `ctx.kv`.

use bytes::Bytes;
use deno_core::{OpState, op2};
use tollhouse_protocol::OpRequest;

use super::args::{page, some, whole};
use crate::call_state::CallState;

#[op2(fast)]
#[smi]
pub(super) fn op_kv_get(state: &mut OpState, #[string] key: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::KvGet { key })
}

/// `ttl_ms` below 0 is none.
#[op2(fast)]
#[smi]
pub(super) fn op_kv_set(state: &mut OpState, #[string] key: String, #[string] value: String, ttl_ms: f64) -> u32 {
    CallState::of(state).ops().request(OpRequest::KvSet { key, value: Bytes::from(value), ttl_ms: whole(ttl_ms) })
}

#[op2(fast)]
#[smi]
pub(super) fn op_kv_delete(state: &mut OpState, #[string] key: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::KvDelete { key })
}

#[op2(fast)]
#[smi]
pub(super) fn op_kv_list(state: &mut OpState, #[string] prefix: String, limit: f64, #[string] cursor: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::KvList { prefix, limit: page(limit), cursor: some(cursor) })
}

/// `checks` and `writes` are JSON, made by 11_kv.js.
#[op2(fast)]
#[smi]
pub(super) fn op_kv_atomic(state: &mut OpState, #[string] checks: String, #[string] writes: String) -> u32 {
    match (serde_json::from_str(&checks), serde_json::from_str(&writes)) {
        (Ok(checks), Ok(writes)) => CallState::of(state).ops().request(OpRequest::KvAtomic { checks, writes }),
        _ => CallState::of(state).ops().refuse("invalid_argument", "atomic() does not read as checks and writes"),
    }
}
