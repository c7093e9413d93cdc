//! Prometheus, which a test has scrape a host, and its `promtool`.

use std::path::Path;

use crate::{Failure, packages};

/// Where Debian's package puts them.
const PROGRAMS: [&str; 2] = ["/usr/bin/prometheus", "/usr/bin/promtool"];

/// Makes sure that Prometheus is installed.
///
/// # Errors
///
/// How to install it, where we may not.
pub(crate) fn find() -> Result<(), Failure> {
    if PROGRAMS.iter().all(|program| Path::new(program).exists()) { Ok(()) } else { packages::install(&["prometheus"]) }
}
