//! Streamed answers.

use bytes::Bytes;
use deno_core::{OpState, op2};
use tollhouse_protocol::{OpRequest, ReplyBody, ToolReply, limits::STREAM_CHUNK_BYTES};

use super::outcome::{narrow, rows};
use crate::call_state::CallState;

/// Returns whether the caller of the running call can take a streamed answer.
#[op2(fast)]
pub(super) fn op_streams(state: &mut OpState) -> bool {
    CallState::of(state).streams()
}

/// Begins a streamed answer with the bytes from `at` on, up to the size of a chunk. `headers` contains
/// JSON rows.
#[op2(fast)]
#[smi]
pub(super) fn op_stream_open(
    state: &mut OpState,
    #[smi] status: u32,
    #[string] headers: String,
    #[buffer] bytes: &[u8],
    #[smi] at: u32,
) -> u32 {
    CallState::of(state).open_stream(narrow(status), rows(&headers), chunk(bytes, at))
}

/// Sends the bytes from `at` on, up to the size of a chunk.
#[op2(fast)]
#[smi]
pub(super) fn op_stream_write(state: &mut OpState, #[buffer] bytes: &[u8], #[smi] at: u32) -> u32 {
    CallState::of(state).ops().request(OpRequest::StreamWrite { chunk: chunk(bytes, at) })
}

/// Ends the call: its streamed answer is complete.
#[op2(fast)]
pub(super) fn op_streamed(state: &mut OpState, #[smi] status: u32) {
    CallState::of(state).reply(ToolReply { status: narrow(status), headers: Vec::new(), body: ReplyBody::Streamed });
}

fn chunk(bytes: &[u8], at: u32) -> Bytes {
    let rest = bytes.get(at as usize..).unwrap_or_default();
    Bytes::copy_from_slice(&rest[..rest.len().min(STREAM_CHUNK_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_the_next_bytes_up_to_its_size() {
        let bytes: Vec<u8> = (0..STREAM_CHUNK_BYTES + 5).map(|at| (at % 251) as u8).collect();
        assert_eq!(chunk(&bytes, 0), bytes[..STREAM_CHUNK_BYTES]);
        assert_eq!(chunk(&bytes, u32::try_from(STREAM_CHUNK_BYTES).unwrap()), bytes[STREAM_CHUNK_BYTES..]);
        assert_eq!(chunk(&bytes, 4), bytes[4..STREAM_CHUNK_BYTES + 4]);
        assert_eq!(chunk(&bytes, u32::MAX), Bytes::new());
    }
}
