//! `cargo xtask lint`: the checks that every change must pass.

use crate::{Failure, args::Args, deny, engine, prose, shell, workers};

/// Checks formatting, prose, dependencies, clippy and documentation, with all warnings as errors.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match (args.prose, args.write_baseline) {
        (true, true) => return prose::write_baseline(),
        (true, false) => return prose::check(),
        (false, true) => return Err("`--write-baseline` belongs to `lint --prose`".to_owned()),
        (false, false) => {}
    }
    let engine = engine::pick(args.engine)?;
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))?;
    prose::check()?;
    deny::check()?;
    let host = ["--workspace", "--exclude", "tollhouse-worker"];
    shell::run(shell::cargo(&["clippy", "--all-targets"]).args(host).args(["--", "-D", "warnings"]))?;
    // The documentation includes private items, so public ones may link to them.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    shell::run(shell::cargo(&["doc", "--no-deps", "--document-private-items"]).args(host).env("RUSTDOCFLAGS", flags))?;
    // Check the worker in release mode, because its dependencies are already built in it.
    shell::run(
        workers::cargo(engine, &["clippy", "--release", "--all-targets", "--package", "tollhouse-worker"])?.args(["--", "-D", "warnings"]),
    )
}
