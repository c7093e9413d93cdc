//! The events about rejected promises.

use deno_core::op2;

use crate::rejections;

/// Records whether the global object has listeners of these events.
#[op2(fast)]
pub(super) fn op_watch_rejections(watches: bool) {
    rejections::watch(watches);
}
