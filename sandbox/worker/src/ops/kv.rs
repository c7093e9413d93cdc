//! `ctx.kv`.

use bytes::Bytes;
use deno_core::{OpState, op2};
use tollhouse_protocol::OpRequest;

use super::call;

#[op2(fast)]
#[smi]
pub(super) fn op_kv_get(state: &mut OpState, #[string] key: String) -> u32 {
    call(state).request(OpRequest::KvGet { key })
}

/// `ttl_ms` below 0 is none.
#[op2(fast)]
#[smi]
pub(super) fn op_kv_set(state: &mut OpState, #[string] key: String, #[string] value: String, ttl_ms: f64) -> u32 {
    call(state).request(OpRequest::KvSet { key, value: Bytes::from(value), ttl_ms: whole(ttl_ms) })
}

#[op2(fast)]
#[smi]
pub(super) fn op_kv_delete(state: &mut OpState, #[string] key: String) -> u32 {
    call(state).request(OpRequest::KvDelete { key })
}

#[op2(fast)]
#[smi]
pub(super) fn op_kv_list(state: &mut OpState, #[string] prefix: String, #[smi] limit: u32, #[string] cursor: String) -> u32 {
    call(state).request(OpRequest::KvList { prefix, limit, cursor: some(cursor) })
}

/// `checks` and `writes` are JSON, made by 11_kv.js.
#[op2(fast)]
#[smi]
pub(super) fn op_kv_atomic(state: &mut OpState, #[string] checks: String, #[string] writes: String) -> u32 {
    match (serde_json::from_str(&checks), serde_json::from_str(&writes)) {
        (Ok(checks), Ok(writes)) => call(state).request(OpRequest::KvAtomic { checks, writes }),
        _ => call(state).refuse("invalid_argument", "atomic() does not read as checks and writes"),
    }
}

/// An optional number as the scripts pass it: below 0 is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, and below 0 is none")]
pub(super) fn whole(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

/// An optional text as the scripts pass it: empty is none.
pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
