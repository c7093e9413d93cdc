//! `cargo xtask lint`: what every change must leave clean.

use crate::{Failure, args::Args, deny, engine, shell, workers};

/// Formatting, dependencies, clippy and documentation, all warnings refused.
///
/// # Errors
///
/// The first that is not clean.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let engine = engine::pick(args.engine)?;
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))?;
    deny::check()?;
    let host = ["--workspace", "--exclude", "tollhouse-worker"];
    shell::run(shell::cargo(&["clippy", "--all-targets"]).args(host).args(["--", "-D", "warnings"]))?;
    // Read with the private items, to which public ones may link.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    shell::run(shell::cargo(&["doc", "--no-deps", "--document-private-items"]).args(host).env("RUSTDOCFLAGS", flags))?;
    // The worker in release, whose dependencies are built already.
    shell::run(
        workers::cargo(engine, &["clippy", "--release", "--all-targets", "--package", "tollhouse-worker"])?.args(["--", "-D", "warnings"]),
    )
}
