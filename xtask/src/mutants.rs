//! `cargo xtask mutants ROOM`: changes the code of a room in small ways, one at a time, and tells of those that no test notices.
//!
//! Mutants that may live stand in `.cargo/mutants.toml`, each with its reason. What follows `--` goes to cargo-mutants as it
//! stands, to ask about a part of a room: `-- --re ledger.rs`, `-- --shard 0/4`. Lists of what became of each are left in
//! `mutants/ROOM` of the target folder.

use crate::{Failure, args::Args, clients, engine, place, shell, tools, workers};

/// Asks the tests about every mutant of one room.
///
/// # Errors
///
/// The mutants that live, or what kept them from being tried.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let [room] = args.words.as_slice() else { return Err("`cargo xtask mutants` takes one room".to_owned()) };
    let clients = clients::prepare();
    let worker = workers::build(engine::pick(args.engine)?)?;
    let clients = clients.join().map_err(|_| "the installation of the payers broke")??;
    let mut mutants = shell::cargo(&["run", "--quiet", "--package", "tollhouse-mutants", "--"]);
    mutants.arg(tools::MUTANTS.program()?).arg(place::target().join("mutants")).arg(room).args(&args.rest);
    mutants.env("TOLLHOUSE_WORKER", worker).env("TOLLHOUSE_CLIENTS", clients);
    shell::run(&mut mutants)
}
