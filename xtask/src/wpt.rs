//! `cargo xtask wpt`: runs the web-platform tests as handlers of a host, and in Deno and Node.
//!
//! The scripts in `fixtures/wpt` get the tests, run them, and print the table.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{
    Failure,
    args::{Args, EngineArg, from_env},
    clients, conformance,
    engine::{self, Engine},
    host::Host,
    paths, shell, workers,
};

/// The passing subtests by folder and engine, below the root of the repository.
const BASELINE: &str = "fixtures/wpt/baseline.txt";

/// Builds host and workers in release mode, and runs the tests. Uses the host that `TOLLHOUSE_HOST`
/// names and the worker that `TOLLHOUSE_WORKER` names, if set.
///
/// # Errors
///
/// Fails if something cannot be built or downloaded, and if fewer subtests of a folder pass than in
/// the baseline.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let packages = clients::prepare_npm("wpt");
    let mut built = Vec::new();
    for engine in engines(args)? {
        let worker = match from_env("TOLLHOUSE_WORKER") {
            Some(worker) => PathBuf::from(worker),
            None => workers::build(engine)?,
        };
        built.push((engine, worker));
    }
    let program = match from_env("TOLLHOUSE_HOST") {
        Some(host) => PathBuf::from(host),
        None => workers::build_host()?,
    };
    let packages = packages.join().map_err(|_| "the installation of Deno and Node failed")??;
    let settings: [(&str, &str); 0] = [];
    let mut node = Command::new(conformance::node(&packages)?);
    node.arg(packages.join("run.mjs")).arg("--folder").arg(&packages);
    node.arg("--baseline").arg(paths::root().join(BASELINE));
    // The hosts run until the end of this function.
    let mut hosts = Vec::new();
    for (engine, worker) in &built {
        let host = Host::start(&program, worker, &settings)?;
        let name = engine.name();
        node.args(["--host", &format!("{name}={}", host.url), "--token", &format!("{name}={}", host.admin_token().display())]);
        hosts.push(host);
    }
    if let Some(checkout) = &args.from {
        node.arg("--from").arg(checkout);
    }
    if args.update {
        node.arg("--update");
    }
    node.args(&args.words).stdin(Stdio::null());
    shell::run(&mut node)
}

/// Returns the selected engines. A worker that is already built has one.
fn engines(args: &Args) -> Result<Vec<Engine>, Failure> {
    match args.engine {
        Some(EngineArg::Both) if from_env("TOLLHOUSE_WORKER").is_some() => {
            Err("TOLLHOUSE_WORKER names one worker; select its engine with `--engine`".to_owned())
        }
        Some(EngineArg::Both) => Ok(vec![engine::pick(Some(EngineArg::V8))?, engine::pick(Some(EngineArg::QuickJs))?]),
        one => Ok(vec![engine::pick(one)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baseline_counts_each_folder_on_both_engines() {
        let read = |file: &str| paths::read(&paths::root().join(file)).unwrap();
        let (baseline, source) = (read(BASELINE), read("fixtures/wpt/source.mjs"));
        let rows = baseline.lines().filter(|line| !line.starts_with('#'));
        let mut rows = rows.map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(rows.next().unwrap(), ["folder", "v8", "quickjs"]);
        let mut folders = 0;
        for row in rows {
            let (folder, counts) = row.split_first().unwrap();
            assert!(source.contains(&format!("  \"{folder}\",\n")), "{folder}");
            assert!(counts.len() == 2 && counts.iter().all(|count| count.parse::<u32>().is_ok()), "{row:?}");
            folders += 1;
        }
        assert_eq!(folders, 18);
    }
}
