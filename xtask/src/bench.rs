//! `cargo xtask bench call`: builds everything in release and starts the measuring program on it.

use crate::{Failure, args::Args, engine, shell, workers};

/// Measures; never fails by a clock.
///
/// # Errors
///
/// What kept it from being built or measured.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.words != ["call"] {
        return Err("there is one measurement: `cargo xtask bench call`".to_owned());
    }
    let engine = engine::pick(args.engine)?;
    let worker = workers::build(engine)?;
    let host = workers::build_host()?;
    let mut bench = shell::cargo(&["run", "--quiet", "--release", "--package", "tollhouse-bench", "--"]);
    bench.arg("--host").arg(host).arg("--worker").arg(worker).args(["--engine", engine.name()]);
    if let Some(seconds) = args.seconds {
        bench.args(["--seconds", &seconds.to_string()]);
    }
    shell::run(&mut bench)
}
