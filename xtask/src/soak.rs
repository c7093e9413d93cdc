//! `cargo xtask soak`: makes free calls at full rate for a long time, during attacks, and checks
//! that memory, disk and descriptors do not grow.

use std::{path::Path, process::Command};

use crate::{Failure, args::Args, engine, shell, workers};

/// Long enough to notice slow growth.
const MINUTES: u32 = 30;
/// Long enough for retention to run several times.
const SHORT_SECONDS: u32 = 25;

/// Runs the soak test with a release build of the host.
///
/// # Errors
///
/// Fails if something cannot be built, if a call has the wrong answer, or if memory, disk or
/// descriptors grow.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let seconds = if args.short { SHORT_SECONDS } else { args.minutes.unwrap_or(MINUTES) * 60 };
    let engine = engine::pick(args.engine)?;
    let worker = workers::build(engine)?;
    soak(shell::cargo(&["run", "--quiet", "--release"]), &workers::build_host()?, &worker, seconds)
}

/// Runs the short form with a host that is already built, and a debug build of the benchmark: the benchmark links the
/// crates of the host, which `cargo xtask test` has compiled for debugging only.
pub(crate) fn check(host: &Path, worker: &Path) -> Result<(), Failure> {
    soak(shell::cargo(&["run", "--quiet"]), host, worker, SHORT_SECONDS)
}

fn soak(mut bench: Command, host: &Path, worker: &Path, seconds: u32) -> Result<(), Failure> {
    bench.args(["--package", "tollhouse-bench", "--"]);
    bench.arg("--host").arg(host).arg("--worker").arg(worker).args(["--subject", "soak", "--seconds", &seconds.to_string()]);
    shell::run(&mut bench)
}
