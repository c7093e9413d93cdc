//! The binaries of an earlier version, for tests of an upgrade to the tested one.

use std::ffi::OsString;

/// Returns the host binary, if one is named.
pub(super) fn host() -> Option<OsString> {
    std::env::var_os("TOLLHOUSE_HOST_BEFORE")
}

/// Returns its worker, if it is a different one too.
pub(super) fn worker() -> Option<OsString> {
    std::env::var_os("TOLLHOUSE_WORKER_BEFORE")
}
