//! `structuredClone`.

use deno_core::{op2, v8};

/// Whether the value is a proxy, which no script can tell.
#[op2(fast)]
pub(super) fn op_is_proxy(value: v8::Local<'_, v8::Value>) -> bool {
    value.is_proxy()
}
