//! `CompressionStream` and `DecompressionStream`.

use std::io;

use deno_core::{OpState, op2, v8};

use crate::{call_state::CallState, memory};

/// Returns the number of a new stream, or 0 if its format is unknown or there are too many.
#[op2(fast)]
#[smi]
pub(super) fn op_compression_new(state: &mut OpState, #[string] format: &str, decodes: bool) -> u32 {
    CallState::of(state).compressors().begin(format, decodes)
}

/// Processes the next input of a stream. Returns its output, or the text of an error.
#[op2]
pub(super) fn op_compression_write<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    #[smi] number: u32,
    #[buffer] input: &[u8],
) -> v8::Local<'s, v8::Value> {
    let output = CallState::of(state).compressors().write(number, input);
    let output = if memory::settle(scope) { output } else { Err(io::Error::other("the memory for buffers is used up")) };
    answer(scope, output)
}

/// Ends a stream. Returns the rest of its output, or the text of an error, or nothing if that is not
/// `wanted`.
#[op2]
pub(super) fn op_compression_finish<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut OpState,
    #[smi] number: u32,
    wanted: bool,
) -> v8::Local<'s, v8::Value> {
    let output = CallState::of(state).compressors().finish(number);
    if wanted { answer(scope, output) } else { v8::undefined(scope).into() }
}

fn answer<'s>(scope: &mut v8::PinScope<'s, '_>, output: io::Result<Vec<u8>>) -> v8::Local<'s, v8::Value> {
    let answer = match output {
        Ok(bytes) => memory::bytes(scope, bytes).map(Into::into),
        Err(error) => v8::String::new(scope, &error.to_string()).map(Into::into),
    };
    answer.unwrap_or_else(|| v8::undefined(scope).into())
}
