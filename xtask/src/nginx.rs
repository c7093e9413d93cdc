//! A reverse proxy before a host, which a test of challenges starts for itself.

use std::path::Path;

use crate::{Failure, packages};

/// Where Debian's package puts it.
const PROGRAM: &str = "/usr/sbin/nginx";

/// Makes sure that nginx is installed.
///
/// # Errors
///
/// How to install it, where we may not.
pub(crate) fn find() -> Result<(), Failure> {
    if Path::new(PROGRAM).exists() { Ok(()) } else { packages::install(&["nginx-light"]) }
}
