//! The binaries of an earlier version, which the one that is tested takes the place of.

use std::ffi::OsString;

/// The host, where one is named.
pub(super) fn host() -> Option<OsString> {
    std::env::var_os("TOLLHOUSE_HOST_BEFORE")
}

/// Its worker, where that is another one too.
pub(super) fn worker() -> Option<OsString> {
    std::env::var_os("TOLLHOUSE_WORKER_BEFORE")
}
