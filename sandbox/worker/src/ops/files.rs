//! `ctx.files`.

use bytes::Bytes;
use deno_core::{OpState, op2};
use tollhouse_protocol::OpRequest;

use super::args::{page, some};
use crate::call_state::CallState;

#[op2(fast)]
#[smi]
pub(super) fn op_file_read(state: &mut OpState, #[string] path: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::FileRead { path })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_write(state: &mut OpState, #[string] path: String, #[buffer] content: &[u8]) -> u32 {
    CallState::of(state).ops().request(OpRequest::FileWrite { path, content: Bytes::copy_from_slice(content) })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_write_text(state: &mut OpState, #[string] path: String, #[string] content: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::FileWrite { path, content: Bytes::from(content) })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_delete(state: &mut OpState, #[string] path: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::FileDelete { path })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_list(state: &mut OpState, #[string] prefix: String, limit: f64, #[string] cursor: String) -> u32 {
    CallState::of(state).ops().request(OpRequest::FileList { prefix, limit: page(limit), cursor: some(cursor) })
}
