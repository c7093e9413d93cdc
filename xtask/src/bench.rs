//! `cargo xtask bench
//! call|catalog|cli|density|fairness|ledger|many|mcp|neighbors|paid|revenue|search|store|victims`:
//! builds everything in release mode and starts the benchmark.

use std::path::PathBuf;

use crate::{
    Failure,
    args::{Args, from_env},
    browser_stories, clients, conformance, engine, packages, shell, workers,
};

pub(crate) const SUBJECTS: [&str; 14] = [
    "call",
    "catalog",
    "cli",
    "density",
    "fairness",
    "ledger",
    "many",
    "mcp",
    "neighbors",
    "paid",
    "revenue",
    "search",
    "store",
    "victims",
];
const USAGE: &str = "the benchmarks are `cargo xtask bench call`, `catalog`, `cli`, `density`, `fairness`, `ledger`, `many`, `mcp`, `neighbors`, `paid`, `revenue`, `search`, `store` and `victims`";

/// Runs a benchmark. It never fails because of a figure, but `fairness` fails if a victim was not served. The short form
/// of `victims` measures nothing: it checks that each row works, on a test build.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let [subject, rows @ ..] = args.words.as_slice() else { return Err(USAGE.to_owned()) };
    if !SUBJECTS.contains(&subject.as_str()) || (!rows.is_empty() && subject != "victims") {
        return Err(USAGE.to_owned());
    }
    if ["ledger", "many", "store"].contains(&subject.as_str()) {
        packages::require_postgres()?;
    }
    if args.short && subject != "victims" {
        return Err("only `victims` has a short form".to_owned());
    }
    let engine = engine::pick(args.engine)?;
    let worker = match from_env("TOLLHOUSE_WORKER").filter(|_| args.short) {
        Some(built) => PathBuf::from(built),
        None => workers::build(engine)?,
    };
    let (host, release) = if args.short { (browser_stories::debug_host()?, None) } else { (workers::build_host()?, Some("--release")) };
    let words: Vec<_> = ["run", "--quiet"].into_iter().chain(release).chain(["--package", "tollhouse-bench", "--"]).collect();
    let mut bench = shell::cargo(&words);
    bench.arg("--host").arg(host).arg("--worker").arg(worker).args(["--engine", engine.name(), "--subject", subject]);
    if subject == "mcp" {
        let clients = conformance::prepare().join().map_err(|_| "the installation of the clients failed")??;
        bench.arg("--node").arg(conformance::node(&clients)?).arg("--clients").arg(clients);
    }
    if subject == "paid" {
        let (payers, express) = (clients::prepare(), clients::prepare_npm("express"));
        let payers = payers.join().map_err(|_| "the installation of the payers failed")??;
        let express = express.join().map_err(|_| "the installation of the middleware failed")??;
        bench.arg("--node").arg("node").arg("--clients").arg(payers).arg("--express").arg(express);
    }
    bench.args(rows.iter().flat_map(|row| ["--only", row]));
    if args.short {
        bench.arg("--short");
    }
    if let Some(seconds) = args.seconds {
        bench.args(["--seconds", &seconds.to_string()]);
    }
    if let Some(receipts) = args.receipts {
        bench.args(["--most", &receipts.to_string()]);
    }
    shell::run(&mut bench)
}
