//! The load balancer for tests with several hosts. The tests start it themselves.

use std::path::Path;

use crate::{Failure, packages};

/// Path of the program in Debian's package.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// Makes sure that HAProxy is installed.
///
/// # Errors
///
/// If we may not install it, the error says how to.
pub(crate) fn find() -> Result<(), Failure> {
    if Path::new(PROGRAM).exists() { Ok(()) } else { packages::install(&["haproxy"]) }
}
