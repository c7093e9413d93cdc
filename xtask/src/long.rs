//! Tests in their long form: `cargo xtask damage`, `cargo xtask renewals`, `cargo xtask crash`, `cargo xtask cluster`, `cargo xtask scrape` and `cargo xtask hostile`.

use std::path::PathBuf;

use crate::{
    Failure,
    args::{Args, from_env},
    balancer, clients, database, engine, prometheus, shell, workers,
};

/// A test that can be asked for more rounds.
struct Long {
    command: &'static str,
    test: &'static [&'static str],
    /// Where it reads how many rounds are asked for.
    rounds: &'static str,
    /// How many, where none are asked for.
    usual: u32,
}

/// Flips and cuts anywhere in the files of a store.
const DAMAGE: Long = Long {
    command: "damage",
    test: &["--test", "store_contract", "no_damage_to_any_file_is_silent"],
    rounds: "TOLLHOUSE_DAMAGE_ROUNDS",
    usual: 200,
};

/// Kills of a store whose tree is renewed all the time.
const RENEWALS: Long = Long {
    command: "renewals",
    test: &["--test", "store_contract", "no_kill_of_a_renewal"],
    rounds: "TOLLHOUSE_RENEWAL_ROUNDS",
    usual: 200,
};

/// Kills of a host that is paid, and of one that starts: with play money, beside a facilitator
/// that does not always answer, and on a chain.
const CRASH: Long = Long { command: "crash", test: &["--test", "it", "no_kill_"], rounds: "TOLLHOUSE_CRASH_ROUNDS", usual: 200 };

/// Hosts of one database and one bucket: kills of them behind a balancer and of the database, payments that all are shown at once, how soon
/// changes hold at all, and the change of their version.
const CLUSTER: Long = Long { command: "cluster", test: &["--test", "it", "cluster::"], rounds: "TOLLHOUSE_CLUSTER_ROUNDS", usual: 30 };

/// All hostile fixtures, one after the other, each held to its limit by the clock.
const HOSTILE: Long =
    Long { command: "hostile", test: &["--test", "it", "hostile_handlers_end"], rounds: "TOLLHOUSE_HOSTILE_ROUNDS", usual: 3 };

/// Prometheus before a loaded host, for so many seconds.
const SCRAPE: Long =
    Long { command: "scrape", test: &["--test", "it", "prometheus_scrapes_a_loaded_host"], rounds: "TOLLHOUSE_SCRAPE_SECONDS", usual: 60 };

/// # Errors
///
/// As [`damage`]; a worker that does not build, where `TOLLHOUSE_WORKER` names none; a Prometheus that cannot be installed.
pub(crate) fn scrape(args: &Args) -> Result<(), Failure> {
    prometheus::find()?;
    let args = Args { rounds: args.seconds, ..args.clone() };
    run(&SCRAPE, &args, &[("TOLLHOUSE_WORKER", worker(&args)?)])
}

/// # Errors
///
/// Words that are not understood, and a test that failed.
pub(crate) fn damage(args: &Args) -> Result<(), Failure> {
    run(&DAMAGE, args, &[])
}

/// # Errors
///
/// As [`damage`].
pub(crate) fn renewals(args: &Args) -> Result<(), Failure> {
    run(&RENEWALS, args, &[])
}

/// # Errors
///
/// As [`damage`]; a worker that does not build, where `TOLLHOUSE_WORKER` names none; a chain that is not to be had.
pub(crate) fn crash(args: &Args) -> Result<(), Failure> {
    let worker = worker(args)?;
    let clients = clients::prepare().join().map_err(|_| "the installation of the chain broke")??;
    run(&CRASH, args, &[("TOLLHOUSE_WORKER", worker), ("TOLLHOUSE_CLIENTS", clients)])
}

/// # Errors
///
/// As [`damage`]; a worker that does not build, where `TOLLHOUSE_WORKER` names none, and a host, where `TOLLHOUSE_HOST` does; a database
/// or a balancer, or clients, that cannot be installed.
pub(crate) fn cluster(args: &Args) -> Result<(), Failure> {
    database::find()?;
    balancer::find()?;
    let clients = clients::prepare().join().map_err(|_| "the installation of clients broke")??;
    // One test after the other: a clock is held against some.
    let alone = ("RUST_TEST_THREADS", PathBuf::from("1"));
    let mut variables = vec![("TOLLHOUSE_WORKER", worker(args)?), ("TOLLHOUSE_HOST", host()?), ("TOLLHOUSE_CLIENTS", clients), alone];
    if let Some(before) = &args.before {
        let before = std::fs::canonicalize(before).map_err(|error| format!("{before}: {error}"))?;
        variables.push(("TOLLHOUSE_HOST_BEFORE", before));
    }
    run(&CLUSTER, args, &variables)
}

/// # Errors
///
/// As [`damage`]; a worker that does not build, where `TOLLHOUSE_WORKER` names none, and a host, where `TOLLHOUSE_HOST` does.
pub(crate) fn hostile(args: &Args) -> Result<(), Failure> {
    let mut variables = vec![("TOLLHOUSE_WORKER", worker(args)?), ("TOLLHOUSE_HOST", host()?)];
    variables.extend(args.tier.as_ref().map(|tier| ("TOLLHOUSE_HOSTILE_TIER", PathBuf::from(tier))));
    run(&HOSTILE, args, &variables)
}

/// In release: a clock is held against it.
fn host() -> Result<PathBuf, Failure> {
    from_env("TOLLHOUSE_HOST").map_or_else(workers::build_host, |built| Ok(PathBuf::from(built)))
}

fn worker(args: &Args) -> Result<PathBuf, Failure> {
    match from_env("TOLLHOUSE_WORKER") {
        Some(built) => Ok(PathBuf::from(built)),
        None => workers::build(engine::pick(args.engine)?),
    }
}

fn run(long: &Long, args: &Args, paths: &[(&str, PathBuf)]) -> Result<(), Failure> {
    let Long { command, test, rounds, usual } = long;
    if let Some(word) = args.words.first() {
        return Err(format!("`cargo xtask {command}` takes no `{word}`"));
    }
    let words = [&["test", "--package", "tollhouse"], *test, &["--", "--nocapture"]].concat();
    let mut cargo = shell::cargo(&words);
    cargo.env(rounds, args.rounds.unwrap_or(*usual).to_string()).envs(paths.iter().cloned());
    shell::run(&mut cargo)
}
