//! npm and PyPI packages that tests need. They are installed into the target folder, from the lists
//! in `fixtures`.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::Hasher,
    path::{Path, PathBuf},
    process::Command,
    thread::{self, JoinHandle},
};

use crate::{Failure, packages, paths, shell};

/// Starts the installation of the payers and of the validators of the host's documents, in the
/// background. Joining it returns their folder, with `node_modules`, `venv`, `venv-lint`,
/// `venv-generators` and the scripts.
pub(crate) fn prepare() -> JoinHandle<Result<PathBuf, Failure>> {
    thread::spawn(|| {
        let to = copy_fixture("clients")?;
        install_once(&to, "package-lock.json", npm)?;
        install_once(&to, "requirements.txt", |folder, list| pip(folder, list, "venv", &[]))?;
        install_once(&to, "requirements-lint.txt", |folder, list| {
            pip(folder, list, "venv-lint", &["--no-deps", "--ignore-requires-python"])
        })?;
        install_once(&to, "requirements-generators.txt", |folder, list| pip(folder, list, "venv-generators", &[]))?;
        Ok(to)
    })
}

/// Starts the installation of the MCP clients and the conformance suite, from
/// `fixtures/mcp-clients`: `node_modules`, `venv-1` and `venv-2`, the scripts and the baselines.
pub(crate) fn prepare_mcp() -> JoinHandle<Result<PathBuf, Failure>> {
    thread::spawn(|| {
        let to = copy_fixture("mcp-clients")?;
        install_once(&to, "package-lock.json", npm)?;
        install_once(&to, "requirements-1.txt", |folder, list| pip(folder, list, "venv-1", &[]))?;
        install_once(&to, "requirements-2.txt", |folder, list| pip(folder, list, "venv-2", &[]))?;
        Ok(to)
    })
}

/// Starts the installation of the npm packages of this folder of `fixtures`: of `express`, with which paid calls are
/// compared; of `contract`, the TypeScript compiler; of `packages`, which a builder has next to a tool; of `tried`, for
/// `cargo xtask packages`; of `examples`, for `cargo xtask examples`; of `browser`, without the browser itself; of `wpt`,
/// the runtimes beside the host.
pub(crate) fn prepare_npm(fixture: &'static str) -> JoinHandle<Result<PathBuf, Failure>> {
    thread::spawn(move || {
        let to = copy_fixture(fixture)?;
        install_once(&to, "package-lock.json", npm)?;
        Ok(to)
    })
}

/// Installs the packages from which `cargo xtask vendor` builds files, from a folder below `xtask`, and returns the copy
/// of that folder.
pub(crate) fn install_vendor(name: &str) -> Result<PathBuf, Failure> {
    let from = paths::root().join("xtask").join(name);
    let to = copy_from(&from, &format!("vendor-{name}"))?;
    let modules = from.join("modules");
    if modules.is_dir() {
        copy_from(&modules, &format!("vendor-{name}/modules"))?;
    }
    install_once(&to, "package-lock.json", npm)?;
    Ok(to)
}

/// Copies a folder of the fixtures into the target folder, every time: Node resolves modules from
/// the folder of the script.
fn copy_fixture(name: &str) -> Result<PathBuf, Failure> {
    copy_from(&paths::root().join("fixtures").join(name), name)
}

fn copy_from(from: &Path, name: &str) -> Result<PathBuf, Failure> {
    let to = paths::target().join(name);
    fs::create_dir_all(&to).map_err(|reason| format!("cannot create {}: {reason}", to.display()))?;
    for entry in fs::read_dir(from).map_err(|reason| format!("cannot read {}: {reason}", from.display()))?.flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))
                .map_err(|reason| format!("cannot copy {}: {reason}", entry.path().display()))?;
        }
    }
    Ok(to)
}

/// Runs an installation, unless it has already succeeded for the same list.
fn install_once(folder: &Path, list: &str, install: fn(&Path, &str) -> Result<(), Failure>) -> Result<(), Failure> {
    let bytes = fs::read(folder.join(list)).map_err(|reason| format!("cannot read {list}: {reason}"))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let (stamp, hash) = (folder.join(format!("{list}.installed")), format!("{:016x}", hasher.finish()));
    if fs::read_to_string(&stamp).is_ok_and(|done| done == hash) {
        return Ok(());
    }
    install(folder, list)?;
    fs::write(&stamp, hash).map_err(|reason| format!("cannot write {}: {reason}", stamp.display()))
}

fn npm(folder: &Path, _: &str) -> Result<(), Failure> {
    if shell::find("npm").is_none() {
        return Err("the tests need Node.js 20 or later with npm".to_owned());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
    shell::run_silently(&folder.join("npm.log"), &mut npm)
}

fn pip(folder: &Path, list: &str, venv: &str, flags: &[&str]) -> Result<(), Failure> {
    let python = python().ok_or("the payers need Python 3.10 or later")?;
    let venv = folder.join(venv);
    let make =
        || shell::run_silently(&folder.join(format!("{list}.venv.log")), Command::new(python).args(["-m", "venv", "--clear"]).arg(&venv));
    if make().is_err() {
        // In Debian, a part of venv is a separate package.
        packages::install(&["python3-venv"])?;
        make()?;
    }
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--disable-pip-version-check", "--quiet"]).args(flags).arg("--requirement").arg(folder.join(list));
    shell::run_silently(&folder.join(format!("{list}.log")), &mut pip)
}

fn python() -> Option<&'static str> {
    let is_recent = "import sys; sys.exit(sys.version_info < (3, 10))";
    ["python3", "python3.13", "python3.12", "python3.11", "python3.10"]
        .into_iter()
        .find(|python| shell::succeeds(Command::new(python).args(["-c", is_recent])))
}
