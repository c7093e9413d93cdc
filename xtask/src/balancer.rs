//! A balancer before hosts, which the tests of several hosts start for themselves.

use std::path::Path;

use crate::{Failure, packages};

/// Where Debian's package puts it.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// Makes sure that HAProxy is installed.
///
/// # Errors
///
/// How to install it, where we may not.
pub(crate) fn find() -> Result<(), Failure> {
    if Path::new(PROGRAM).exists() { Ok(()) } else { packages::install(&["haproxy"]) }
}
