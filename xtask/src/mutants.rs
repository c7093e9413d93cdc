//! `cargo xtask mutants ROOM`: changes the code of a room in small ways, one at a time, and lists
//! the changes that no test notices.
//!
//! Accepted mutants are listed in `.cargo/mutants.toml`, each with its reason. Arguments after `--`
//! are passed to cargo-mutants unchanged, to select a part of a room: `-- --re ledger.rs`,
//! `-- --shard 0/4`. The results of all mutants are written to `mutants/ROOM` of the target folder.

use crate::{Failure, args::Args, clients, engine, paths, shell, tools, workers};

/// Runs the tests for every mutant of one room.
///
/// # Errors
///
/// Returns the mutants that no test caught, or the reason why they could not be tested.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let [room] = args.words.as_slice() else { return Err("`cargo xtask mutants` takes one room".to_owned()) };
    let clients = clients::prepare();
    let worker = workers::build(engine::pick(args.engine)?)?;
    let clients = clients.join().map_err(|_| "the installation of the payers broke")??;
    let mut mutants = shell::cargo(&["run", "--quiet", "--package", "tollhouse-mutants", "--"]);
    mutants.arg(tools::MUTANTS.program()?).arg(paths::target().join("mutants")).arg(room).args(&args.rest);
    mutants.env("TOLLHOUSE_WORKER", worker).env("TOLLHOUSE_CLIENTS", clients);
    shell::run(&mut mutants)
}
