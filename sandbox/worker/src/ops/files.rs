//! `ctx.files`.

use bytes::Bytes;
use deno_core::{OpState, op2};
use tollhouse_protocol::OpRequest;

use super::{call, kv::some};

#[op2(fast)]
#[smi]
pub(super) fn op_file_read(state: &mut OpState, #[string] path: String) -> u32 {
    call(state).request(OpRequest::FileRead { path })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_write(state: &mut OpState, #[string] path: String, #[buffer] content: &[u8]) -> u32 {
    call(state).request(OpRequest::FileWrite { path, content: Bytes::copy_from_slice(content) })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_write_text(state: &mut OpState, #[string] path: String, #[string] content: String) -> u32 {
    call(state).request(OpRequest::FileWrite { path, content: Bytes::from(content) })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_delete(state: &mut OpState, #[string] path: String) -> u32 {
    call(state).request(OpRequest::FileDelete { path })
}

#[op2(fast)]
#[smi]
pub(super) fn op_file_list(state: &mut OpState, #[string] prefix: String, #[smi] limit: u32, #[string] cursor: String) -> u32 {
    call(state).request(OpRequest::FileList { prefix, limit, cursor: some(cursor) })
}
