//! `cargo xtask test`: runs every test, and prints how many passed and failed.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    Failure,
    args::{Args, EngineArg},
    browser_stories, clients, conformance,
    engine::{self, Engine},
    examples, packages, paths, shell, soak, workers,
};

/// The tests of a running host with hostile code.
const LIVE: &str = "hostile::";

/// The variable that selects the tier of the worker's tests.
const TIER: &str = "TOLLHOUSE_TIER";

/// Time without a line after which a test counts as hanging. The test harness prints one line for each test that runs for
/// over a minute.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// Prefix of the line with the result of a test binary.
const RESULT: &str = "test result: ";

/// Cargo's words for the worker's tests.
const WORKER_TESTS: [&str; 5] = ["test", "--release", "--no-fail-fast", "--package", "tollhouse-worker"];

/// Printed by a check that this system does not allow, with the reason after it.
const SKIPPED: &str = "skipped: ";

/// Runs all tests. First the tests of the host and of the pool, with a real worker. Then the
/// worker's own tests for each selected engine, and for V8 also in the tier without a compiler.
/// Last, with the other engines, the tests of a running host with hostile code.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let engines = match args.engine {
        Some(EngineArg::Both) => {
            engine::archive()?;
            eprintln!("engines: V8 and QuickJS (as requested)");
            vec![Engine::V8, Engine::QuickJs]
        }
        one => vec![engine::pick(one)?],
    };
    packages::require_postgres()?;
    packages::HAPROXY.require()?;
    packages::NGINX.require()?;
    packages::PROMETHEUS.require()?;
    let (clients, contract, packages) = (clients::prepare(), clients::prepare_npm("contract"), clients::prepare_npm("packages"));
    let (mcp_clients, browser, tools) = (conformance::prepare(), browser_stories::prepare(), examples::prepare());
    let worker = workers::build(engines[0])?;
    let clients = clients.join().map_err(|_| "the installation of the payers broke")??;
    contract.join().map_err(|_| "the installation of the compiler broke")??;
    packages.join().map_err(|_| "the installation of a builder's packages broke")??;

    let mut tally = Tally::default();
    // A build error is reported again by the run below, so the other runs still follow.
    _ = shell::run(host(&worker, &clients)?.arg("--no-run"));
    let worker_tests = build_worker_tests(engines.clone());
    tally.add(host(&worker, &clients)?, &args)?;
    worker_tests.join().map_err(|_| "the build of the worker's tests broke")?;
    for &engine in &engines {
        tally.add(workers::cargo(engine, &WORKER_TESTS)?, &args)?;
        if engine == Engine::V8 {
            let mut jitless = workers::cargo(engine, &WORKER_TESTS)?;
            jitless.env(TIER, "jitless");
            tally.add(jitless, &args)?;
        }
    }
    for &engine in engines.iter().skip(1).filter(|_| args.words.is_empty()) {
        tally.add(live(&workers::build(engine)?), &Args { words: vec![LIVE.to_owned()], rest: args.rest.clone(), ..Args::default() })?;
    }
    if args.words.is_empty() {
        // The host with which the tests above ran.
        let mcp_clients = mcp_clients.join().map_err(|_| "the installation of the MCP clients broke")??;
        let host = paths::target().join("debug/tollhouse");
        if let Err(reason) = conformance::check(&host, &worker, &mcp_clients) {
            eprintln!("conformance: {reason}");
            tally.broken += 1;
        }
        let tools = tools.join().map_err(|_| "the installation of the packages of the examples broke")??;
        if let Err(reason) = examples::check(&host, &worker, &tools) {
            eprintln!("examples: {reason}");
            tally.broken += 1;
        }
        let browser = browser.join().map_err(|_| "the installation of what looks at pages broke")??;
        if let Err(reason) = browser_stories::check(&host, &worker, &browser, &clients) {
            eprintln!("faces: {reason}");
            tally.broken += 1;
        }
        if let Err(reason) = soak::check(&host, &worker) {
            eprintln!("soak: {reason}");
            tally.broken += 1;
        }
    }
    println!("\n{} passed, {} failed, {} checks skipped", tally.passed, tally.failed, tally.skipped);
    if tally.broken == 0 { Ok(()) } else { Err(format!("{} of the runs above did not pass", tally.broken)) }
}

/// Starts to build the worker's tests in the background, on processors that the running tests leave idle. A failure shows
/// when these tests run.
fn build_worker_tests(engines: Vec<Engine>) -> JoinHandle<()> {
    thread::spawn(move || {
        for engine in engines {
            if let Ok(mut cargo) = workers::cargo(engine, &WORKER_TESTS) {
                shell::succeeds(&mut shell::at_lowest_priority(cargo.arg("--no-run")));
            }
        }
    })
}

/// Returns the command for the host's tests, with a worker to start and payers to pay with.
fn host(worker: &Path, clients: &Path) -> Result<Command, Failure> {
    let others = [
        "tollhouse-protocol",
        "tollhouse-pace",
        "tollhouse-fair",
        "tollhouse-pool",
        "tollhouse-webcrypto",
        "tollhouse-fuzz",
        "xtask",
        "tollhouse-bench",
        "tollhouse-mutants",
    ];
    let packages = paths::packages()?;
    let packages = others.into_iter().chain(packages.iter().map(String::as_str)).flat_map(|name| ["--package", name]);
    let mut cargo = shell::cargo(&["test", "--no-fail-fast"]);
    cargo.args(packages).env("TOLLHOUSE_WORKER", worker).env("TOLLHOUSE_CLIENTS", clients);
    Ok(cargo)
}

/// Returns the command for the host's tests whose result may depend on the engine, with that
/// engine's worker.
fn live(worker: &Path) -> Command {
    let mut cargo = shell::cargo(&["test", "--package", "tollhouse", "--test", "it"]);
    cargo.env("TOLLHOUSE_WORKER", worker);
    cargo
}

/// Number of passed and failed tests, of skipped checks, and of failed runs of Cargo.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    broken: u64,
}

impl Tally {
    /// Runs one `cargo test` with the filters, and copies its output. Ends a test binary if one of its tests hangs.
    fn add(&mut self, mut cargo: Command, args: &Args) -> Result<(), Failure> {
        cargo.arg("--").args(&args.words).args(&args.rest);
        let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(|reason| format!("cannot start cargo: {reason}"))?;
        let Some(stdout) = child.stdout.take() else { return Err("no pipe from cargo".to_owned()) };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut has_compiled = false;
        loop {
            let next = if has_compiled { lines.recv_timeout(SILENCE) } else { lines.recv().map_err(Into::into) };
            has_compiled = true;
            match next {
                Ok(line) => {
                    println!("{line}");
                    self.count(&line);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("a test hangs: no output for {} minutes. Ending its binary.", SILENCE.as_secs() / 60);
                    shell::kill_children(child.id())?;
                }
            }
        }
        if !child.wait().map_err(|reason| reason.to_string())?.success() {
            self.broken += 1;
        }
        Ok(())
    }

    fn count(&mut self, line: &str) {
        // A line of another test can precede it.
        self.skipped += u64::from(line.contains(SKIPPED));
        let Some(counts) = line.strip_prefix(RESULT) else { return };
        let number = |what: &str| {
            let words = counts.split(['.', ';']).map(str::trim);
            words.filter_map(|part| part.strip_suffix(what)?.trim().parse::<u64>().ok()).sum::<u64>()
        };
        self.passed += number("passed");
        self.failed += number("failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_add_up() {
        let mut tally = Tally::default();
        tally.count("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.count("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        tally.count("test one ... ok");
        tally.count("test two ... skipped: cgroups: this system has none");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (15, 2, 1));
    }
}
