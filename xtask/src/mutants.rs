//! `cargo xtask mutants CRATE`: changes the code of a crate in small ways, one at a time, and lists
//! the changes that no test notices.
//!
//! Accepted mutants are listed in `.cargo/mutants.toml`, each with its reason. Arguments after `--`
//! are passed to cargo-mutants unchanged, to select a part of a crate: `-- --re ledger.rs`,
//! `-- --shard 0/4`. The results of all mutants are written to `mutants/CRATE` of the target folder.

use crate::{Failure, args::Args, clients, engine, paths, shell, tools, workers};

/// Runs the tests for every mutant of one crate, or of one part of it.
///
/// # Errors
///
/// Returns the mutants that no test caught, or the reason why they could not be tested.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let [area] = args.words.as_slice() else { return Err("`cargo xtask mutants` takes the name of one crate".to_owned()) };
    let clients = clients::prepare();
    let worker = workers::build(engine::pick(args.engine)?)?;
    let clients = clients.join().map_err(|_| "the installation of the payers failed")??;
    let mut mutants = shell::cargo(&["run", "--quiet", "--package", "tollhouse-mutants", "--"]);
    mutants.arg(tools::MUTANTS.program()?).arg(paths::target().join("mutants")).arg(area).args(&args.rest);
    mutants.env("TOLLHOUSE_WORKER", worker).env("TOLLHOUSE_CLIENTS", clients);
    shell::run(&mut mutants)
}
