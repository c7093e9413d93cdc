//! `cargo xtask soak`: free calls at full rate for a long time beside attacks, and whether memory, disk and descriptors stay flat.

use std::path::Path;

use crate::{Failure, args::Args, engine, shell, workers};

/// What it takes to see what creeps.
const MINUTES: u32 = 30;
/// What it takes to see that retention has its turns.
const SHORT_SECONDS: u32 = 25;

/// Soaks a host in release.
///
/// # Errors
///
/// What kept it from being built; a call that was not answered right; memory, disk or descriptors that grew.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let seconds = if args.short { SHORT_SECONDS } else { args.minutes.unwrap_or(MINUTES) * 60 };
    let engine = engine::pick(args.engine)?;
    let worker = workers::build(engine)?;
    soak(&workers::build_host()?, &worker, seconds)
}

/// The short form, on a host that is built already.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn check(host: &Path, worker: &Path) -> Result<(), Failure> {
    soak(host, worker, SHORT_SECONDS)
}

fn soak(host: &Path, worker: &Path, seconds: u32) -> Result<(), Failure> {
    let mut bench = shell::cargo(&["run", "--quiet", "--release", "--package", "tollhouse-bench", "--"]);
    bench.arg("--host").arg(host).arg("--worker").arg(worker).args(["--subject", "soak", "--seconds", &seconds.to_string()]);
    shell::run(&mut bench)
}
