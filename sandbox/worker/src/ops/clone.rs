//! `structuredClone`.

use deno_core::{op2, v8};

/// Returns whether the value is a proxy, which scripts cannot detect.
#[op2(fast)]
pub(super) fn op_is_proxy(value: v8::Local<'_, v8::Value>) -> bool {
    value.is_proxy()
}
