//! System packages: those that QuickJS is built with, and the servers that tests start.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, args::from_env, paths, shell};

/// Makes sure that QuickJS can be built. Returns the environment variables of the build.
pub(crate) fn for_quickjs() -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    let mut missing = Vec::new();
    for (program, package) in [("cmake", "cmake"), ("cc", "gcc"), ("c++", "g++"), ("make", "make")] {
        if shell::find(program).is_none() {
            missing.push(package);
        }
    }
    if simde().is_none() {
        missing.push("libsimde-dev");
    }
    if !missing.is_empty() {
        install(&missing)?;
    }
    let Some(simde) = simde() else { return Err("the simde headers are still missing after `apt-get install libsimde-dev`".to_owned()) };
    // A toolchain file that the user sets takes precedence.
    let toolchain = from_env("CMAKE_TOOLCHAIN_FILE").map(PathBuf::from).unwrap_or_else(|| paths::root().join("xtask/simde.cmake"));
    // The build runs the engine to create the snapshot. Keep it from writing a bytecode cache to
    // the home folder.
    Ok(vec![("CMAKE_TOOLCHAIN_FILE", toolchain), ("SIMDE_INCLUDE_DIR", simde), ("V82JSC_NO_BC_CACHE", "1".into())])
}

/// A program that tests start, and its Debian package.
pub(crate) struct Server {
    /// Paths of its programs.
    programs: &'static [&'static str],
    package: &'static str,
}

pub(crate) const HAPROXY: Server = Server { programs: &["/usr/sbin/haproxy"], package: "haproxy" };
pub(crate) const NGINX: Server = Server { programs: &["/usr/sbin/nginx"], package: "nginx-light" };
pub(crate) const PROMETHEUS: Server = Server { programs: &["/usr/bin/prometheus", "/usr/bin/promtool"], package: "prometheus" };

impl Server {
    /// Makes sure that the program is installed.
    pub(crate) fn require(&self) -> Result<(), Failure> {
        if self.programs.iter().all(|program| Path::new(program).exists()) { Ok(()) } else { install(&[self.package]) }
    }
}

/// Makes sure that a PostgreSQL server is installed, in any version.
pub(crate) fn require_postgres() -> Result<(), Failure> {
    const VERSIONS: &str = "/usr/lib/postgresql";
    let is_installed = || fs::read_dir(VERSIONS).into_iter().flatten().flatten().any(|version| version.path().join("bin/initdb").exists());
    if !is_installed() {
        install(&["postgresql"])?;
    }
    if is_installed() { Ok(()) } else { Err(format!("no `initdb` below {VERSIONS} after PostgreSQL was installed")) }
}

/// Installs Debian packages.
///
/// # Errors
///
/// The command to run if this user cannot install packages, otherwise the error of apt-get.
pub(crate) fn install(packages: &[&str]) -> Result<(), Failure> {
    let line = format!("apt-get update && apt-get install -y {}", packages.join(" "));
    if shell::find("apt-get").is_none() {
        return Err(format!("missing: {}. Install them with your system's package manager (Debian: {line})", packages.join(", ")));
    }
    let root = shell::output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let sudo = !root && shell::succeeds(Command::new("sudo").args(["-n", "true"]));
    if !root && !sudo {
        return Err(format!("missing: {}. Run this command once, then repeat yours:\n  sudo sh -c '{line}'", packages.join(", ")));
    }
    let apt = |words: &[&str]| {
        let mut command = if sudo { Command::new("sudo") } else { Command::new("env") };
        if sudo {
            command.args(["-n", "env"]);
        }
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]).args(words);
        command
    };
    let mut words = vec!["install", "-y", "--no-install-recommends"];
    words.extend(packages);
    shell::run_with_progress("updating the package lists", &mut apt(&["update"]))?;
    shell::run_with_progress(&format!("installing {}", packages.join(", ")), &mut apt(&words))
}

fn simde() -> Option<PathBuf> {
    let own = from_env("SIMDE_INCLUDE_DIR").map(PathBuf::from);
    own.into_iter()
        .chain(["/usr/include", "/usr/local/include", "/opt/homebrew/include"].map(PathBuf::from))
        .find(|folder| has_simde(folder))
}

fn has_simde(folder: &Path) -> bool {
    folder.join("simde/wasm/simd128.h").is_file()
}
