//! `cargo xtask examples`: publishes the tools of `fixtures/examples` on a host with `tollhouse deploy`, and pays for a
//! call of each with a stock client.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread::JoinHandle,
};

use crate::{
    Failure,
    args::{Args, from_env},
    clients, engine, paths, shell, workers,
};

/// Starts the installation of the packages of the tools and of the client. Joining it returns their folder.
pub(crate) fn prepare() -> JoinHandle<Result<PathBuf, Failure>> {
    clients::prepare_npm("examples")
}

/// Builds everything in release mode, and tries the tools. Uses the binaries that `TOLLHOUSE` and `TOLLHOUSE_WORKER`
/// name, if set.
///
/// # Errors
///
/// Fails if a tool does not work.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let packages = prepare();
    let worker = match from_env("TOLLHOUSE_WORKER") {
        Some(built) => PathBuf::from(built),
        None => workers::build(engine::pick(args.engine)?)?,
    };
    let program = match from_env("TOLLHOUSE") {
        Some(built) => PathBuf::from(built),
        None => workers::build_host()?,
    };
    let packages = packages.join().map_err(|_| "the installation of the packages failed")??;
    check(&program, &worker, &packages)
}

/// Tries the tools with programs that are built. Prints a row for each.
pub(crate) fn check(program: &Path, worker: &Path, packages: &Path) -> Result<(), Failure> {
    let mut script = Command::new("node");
    script.arg("examples.mjs").arg(paths::root().join("fixtures/examples")).current_dir(packages);
    shell::run(script.env("TOLLHOUSE", program).env("TOLLHOUSE_WORKER", worker))
}
