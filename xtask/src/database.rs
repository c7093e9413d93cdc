//! A server of PostgreSQL, which the tests of the store start for themselves.

use std::fs;

use crate::{Failure, packages};

/// Where Debian's packages put the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Makes sure that the server is installed: what is there, else the package of Debian.
///
/// # Errors
///
/// How to install it, where we may not.
pub(crate) fn find() -> Result<(), Failure> {
    if is_there() {
        return Ok(());
    }
    packages::install(&["postgresql"])?;
    if is_there() { Ok(()) } else { Err(format!("no `initdb` below {VERSIONS} after PostgreSQL was installed")) }
}

fn is_there() -> bool {
    fs::read_dir(VERSIONS).into_iter().flatten().flatten().any(|version| version.path().join("bin/initdb").exists())
}
