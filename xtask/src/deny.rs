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
    if list == List::Cached {
        deny.arg("--offline");
    }
    deny.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    match list {
        List::Fetched | List::Cached => _ = deny.arg("advisories"),
        List::Unavailable => eprintln!("dependencies: known vulnerabilities are not checked, because {ADVISORIES} cannot be reached"),
    }
    shell::run(&mut deny)
}

/// The origin of the list of known vulnerabilities.
#[derive(Debug, PartialEq, Eq)]
enum List {
    Fetched,
    /// A copy from an earlier run.
    Cached,
    Unavailable,
}

fn list() -> List {
    if shell::succeeds(Command::new("curl").args(["-sfIL", "--connect-timeout", "3", "--max-time", "8", ADVISORIES])) {
        return List::Fetched;
    }
    if has_list(&paths::cargo_home().join("advisory-dbs")) { List::Cached } else { List::Unavailable }
}

/// Returns whether cargo-deny's folder contains a list. The first attempt to fetch one already
/// leaves a lock file there.
fn has_list(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut lists| lists.any(|list| list.is_ok_and(|list| list.path().join(".git").is_dir())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_file_alone_is_not_a_list_of_vulnerabilities() {
        let lists = std::env::temp_dir().join(format!("xtask-deny-{}", std::process::id()));
        assert!(!has_list(&lists));
        fs::create_dir(&lists).unwrap();
        fs::write(lists.join("db.lock"), "").unwrap();
        assert!(!has_list(&lists));
        fs::create_dir_all(lists.join("advisory-db-1/.git")).unwrap();
        assert!(has_list(&lists));
        fs::remove_dir_all(lists).unwrap();
    }
}
