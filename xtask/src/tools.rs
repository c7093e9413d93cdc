//! Extensions of Cargo. Each is built from crates.io into the target folder, once for each version
//! named here.

use std::{fs, path::PathBuf};

use crate::{Failure, paths, shell};

/// A program and its version.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
pub(crate) const MUTANTS: Tool = Tool { name: "cargo-mutants", version: "27.1.0" };

impl Tool {
    /// Returns the path of the program. Builds it first if necessary, which takes minutes.
    pub(crate) fn program(&self) -> Result<PathBuf, Failure> {
        let Self { name, version } = self;
        let home = paths::target().join("tools").join(format!("{name}-{version}"));
        let program = home.join("bin").join(name);
        if program.is_file() {
            return Ok(program);
        }
        let build = home.join("build");
        let mut install = shell::cargo(&["install", "--locked", "--root"]);
        install.arg(&home).arg(format!("{name}@{version}")).env("CARGO_TARGET_DIR", &build);
        shell::run_with_progress(&format!("building {name} {version}"), &mut install)?;
        fs::remove_dir_all(&build).map_err(|reason| format!("cannot remove {}: {reason}", build.display()))?;
        Ok(program)
    }
}
