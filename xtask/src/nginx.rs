//! nginx, the reverse proxy that tests of challenges start.

use std::path::Path;

use crate::{Failure, packages};

/// The path in Debian's package.
const PROGRAM: &str = "/usr/sbin/nginx";

/// Installs nginx if it is missing.
///
/// # Errors
///
/// Explains how to install it if this user cannot.
pub(crate) fn find() -> Result<(), Failure> {
    if Path::new(PROGRAM).exists() { Ok(()) } else { packages::install(&["nginx-light"]) }
}
