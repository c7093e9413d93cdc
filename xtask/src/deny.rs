//! Checks licenses, sources, versions and known vulnerabilities of the dependencies, as
//! `.deny.toml` specifies.

use std::{fs, path::Path, process::Command};

use crate::{Failure, paths, shell, tools};

const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// Runs cargo-deny. Skips known vulnerabilities if their list is not available: no registry carries
/// it.
pub(crate) fn check() -> Result<(), Failure> {
    let mut deny = Command::new(tools::DENY.program()?);
    deny.args(["--workspace", "--locked"]).current_dir(paths::root());
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

/// The origin of the list of known vulnerabilities.
#[derive(Debug, PartialEq, Eq)]
enum List {
    Fetched,
    /// A copy from an earlier run.
    Kept,
    Away,
}

fn list() -> List {
    if shell::succeeds(Command::new("curl").args(["-sfIL", "--connect-timeout", "3", "--max-time", "8", ADVISORIES])) {
        return List::Fetched;
    }
    if holds_a_list(&paths::cargo_home().join("advisory-dbs")) { List::Kept } else { List::Away }
}

/// Returns whether cargo-deny's folder contains a list. The first attempt to fetch one already
/// leaves a lock file there.
fn holds_a_list(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut lists| lists.any(|list| list.is_ok_and(|list| list.path().join(".git").is_dir())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_alone_is_not_a_list_of_known_faults() {
        let lists = std::env::temp_dir().join(format!("xtask-deny-{}", std::process::id()));
        assert!(!holds_a_list(&lists));
        fs::create_dir(&lists).unwrap();
        fs::write(lists.join("db.lock"), "").unwrap();
        assert!(!holds_a_list(&lists));
        fs::create_dir_all(lists.join("advisory-db-1/.git")).unwrap();
        assert!(holds_a_list(&lists));
        fs::remove_dir_all(lists).unwrap();
    }
}
