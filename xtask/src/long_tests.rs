//! Long forms of tests: `cargo xtask damage`, `cargo xtask renewals`, `cargo xtask crash`,
//! `cargo xtask cluster`, `cargo xtask scrape` and `cargo xtask hostile`.

use std::path::PathBuf;

use crate::{
    Failure,
    args::{Args, from_env},
    clients, engine, packages, shell, workers,
};

/// A test with a configurable number of rounds.
struct LongTest {
    command: &'static str,
    test: &'static [&'static str],
    /// The environment variable with the number of rounds.
    rounds: &'static str,
    /// The default number of rounds.
    default_rounds: u32,
}

/// Flips and truncations anywhere in the files of a store.
const DAMAGE: LongTest = LongTest {
    command: "damage",
    test: &["--test", "store_contract", "no_damage_to_any_file_is_silent"],
    rounds: "TOLLHOUSE_DAMAGE_ROUNDS",
    default_rounds: 200,
};

/// Kills of a store whose tree is rewritten all the time.
const RENEWALS: LongTest = LongTest {
    command: "renewals",
    test: &["--test", "store_contract", "no_kill_of_a_renewal"],
    rounds: "TOLLHOUSE_RENEWAL_ROUNDS",
    default_rounds: 200,
};

/// Kills of a host during paid calls and at its start: with simulated money, with an unreliable
/// facilitator, and on a chain.
const CRASH: LongTest =
    LongTest { command: "crash", test: &["--test", "it", "no_kill_"], rounds: "TOLLHOUSE_CRASH_ROUNDS", default_rounds: 200 };

/// Hosts that share a database and a bucket: kills of hosts behind a load balancer and of the
/// database, one payment presented to all at once, the delay until changes apply, and upgrades.
const CLUSTER: LongTest =
    LongTest { command: "cluster", test: &["--test", "it", "cluster::"], rounds: "TOLLHOUSE_CLUSTER_ROUNDS", default_rounds: 30 };

/// All hostile fixtures, one after the other, each with the clock checked against its limit.
const HOSTILE: LongTest =
    LongTest { command: "hostile", test: &["--test", "it", "hostile_handlers_end"], rounds: "TOLLHOUSE_HOSTILE_ROUNDS", default_rounds: 3 };

/// Prometheus scrapes a loaded host, for this many seconds.
const SCRAPE: LongTest = LongTest {
    command: "scrape",
    test: &["--test", "it", "prometheus_scrapes_a_loaded_host"],
    rounds: "TOLLHOUSE_SCRAPE_SECONDS",
    default_rounds: 60,
};

/// Runs the Prometheus test.
///
/// # Errors
///
/// Those of [`damage`]. Also fails if the worker does not build (and `TOLLHOUSE_WORKER` names
/// none), or if Prometheus cannot be installed.
pub(crate) fn scrape(args: &Args) -> Result<(), Failure> {
    packages::PROMETHEUS.require()?;
    let args = Args { rounds: args.seconds, ..args.clone() };
    run(&SCRAPE, &args, &[("TOLLHOUSE_WORKER", worker(&args)?)])
}

/// Runs the damage test.
pub(crate) fn damage(args: &Args) -> Result<(), Failure> {
    run(&DAMAGE, args, &[])
}

/// Runs the renewal test.
pub(crate) fn renewals(args: &Args) -> Result<(), Failure> {
    run(&RENEWALS, args, &[])
}

/// Runs the crash tests.
///
/// # Errors
///
/// Those of [`damage`]. Also fails if the worker does not build (and `TOLLHOUSE_WORKER` names
/// none), or if the chain is not available.
pub(crate) fn crash(args: &Args) -> Result<(), Failure> {
    let worker = worker(args)?;
    let clients = clients::prepare().join().map_err(|_| "the installation of the chain failed")??;
    run(&CRASH, args, &[("TOLLHOUSE_WORKER", worker), ("TOLLHOUSE_CLIENTS", clients)])
}

/// Runs the cluster tests.
///
/// # Errors
///
/// Those of [`damage`]. Also fails if the worker or the host does not build (and `TOLLHOUSE_WORKER`
/// or `TOLLHOUSE_HOST` names none), or if the database, the load balancer or the clients cannot be
/// installed.
pub(crate) fn cluster(args: &Args) -> Result<(), Failure> {
    packages::require_postgres()?;
    packages::HAPROXY.require()?;
    let clients = clients::prepare().join().map_err(|_| "the installation of clients failed")??;
    // One test after the other, because some measure times.
    let alone = ("RUST_TEST_THREADS", PathBuf::from("1"));
    let mut variables = vec![("TOLLHOUSE_WORKER", worker(args)?), ("TOLLHOUSE_HOST", host()?), ("TOLLHOUSE_CLIENTS", clients), alone];
    if let Some(before) = &args.before {
        let before = std::fs::canonicalize(before).map_err(|error| format!("{before}: {error}"))?;
        variables.push(("TOLLHOUSE_HOST_BEFORE", before));
    }
    run(&CLUSTER, args, &variables)
}

/// Runs the hostile fixtures.
///
/// # Errors
///
/// Those of [`damage`]. Also fails if the worker or the host does not build (and `TOLLHOUSE_WORKER`
/// or `TOLLHOUSE_HOST` names none).
pub(crate) fn hostile(args: &Args) -> Result<(), Failure> {
    let mut variables = vec![("TOLLHOUSE_WORKER", worker(args)?), ("TOLLHOUSE_HOST", host()?)];
    variables.extend(args.tier.as_ref().map(|tier| ("TOLLHOUSE_HOSTILE_TIER", PathBuf::from(tier))));
    run(&HOSTILE, args, &variables)
}

/// Returns the host in release mode, because the test checks times.
fn host() -> Result<PathBuf, Failure> {
    from_env("TOLLHOUSE_HOST").map_or_else(workers::build_host, |built| Ok(PathBuf::from(built)))
}

fn worker(args: &Args) -> Result<PathBuf, Failure> {
    match from_env("TOLLHOUSE_WORKER") {
        Some(built) => Ok(PathBuf::from(built)),
        None => workers::build(engine::pick(args.engine)?),
    }
}

fn run(long: &LongTest, args: &Args, paths: &[(&str, PathBuf)]) -> Result<(), Failure> {
    let LongTest { command, test, rounds, default_rounds } = long;
    if let Some(word) = args.words.first() {
        return Err(format!("`cargo xtask {command}` takes no `{word}`"));
    }
    let words = [&["test", "--package", "tollhouse"], *test, &["--", "--nocapture"]].concat();
    let mut cargo = shell::cargo(&words);
    cargo.env(rounds, args.rounds.unwrap_or(*default_rounds).to_string()).envs(paths.iter().cloned());
    shell::run(&mut cargo)
}
