//! Prometheus, which scrapes a host in a test, and its `promtool`.

use std::path::Path;

use crate::{Failure, packages};

/// Paths of the programs in Debian's package.
const PROGRAMS: [&str; 2] = ["/usr/bin/prometheus", "/usr/bin/promtool"];

/// Makes sure that Prometheus is installed.
///
/// # Errors
///
/// If we may not install it, the error says how to.
pub(crate) fn find() -> Result<(), Failure> {
    if PROGRAMS.iter().all(|program| Path::new(program).exists()) { Ok(()) } else { packages::install(&["prometheus"]) }
}
