//! A PostgreSQL server. The tests of the store start it themselves.

use std::fs;

use crate::{Failure, packages};

/// The folder where Debian's packages install the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Makes sure that the server is installed. Installs Debian's package if there is none.
///
/// # Errors
///
/// If we may not install it, the error says how to.
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
