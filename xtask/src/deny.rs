//! Licences, sources, versions and known faults of the dependencies, as `.deny.toml` has them.

use std::{fs, process::Command};

use crate::{Failure, place, shell, tools};

const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// Asks cargo-deny. Known faults are left out where their list cannot be had: no registry carries it.
///
/// # Errors
///
/// What is not as it has to be.
pub(crate) fn check() -> Result<(), Failure> {
    let mut deny = Command::new(tools::DENY.program()?);
    deny.args(["--workspace", "--locked"]).current_dir(place::root());
    let list = list();
    if list == List::Kept {
        deny.arg("--offline");
    }
    deny.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    match list {
        List::Fetched | List::Kept => _ = deny.arg("advisories"),
        List::Away => eprintln!("dependencies: known faults left out, for {ADVISORIES} cannot be reached"),
    }
    shell::run(&mut deny)
}

/// Where the list of known faults is had from.
#[derive(Debug, PartialEq, Eq)]
enum List {
    Fetched,
    /// From an earlier day.
    Kept,
    Away,
}

fn list() -> List {
    if shell::succeeds(Command::new("curl").args(["-sfIL", "--connect-timeout", "3", "--max-time", "8", ADVISORIES])) {
        return List::Fetched;
    }
    let kept = fs::read_dir(place::cargo_home().join("advisory-dbs")).is_ok_and(|mut lists| lists.next().is_some());
    if kept { List::Kept } else { List::Away }
}
