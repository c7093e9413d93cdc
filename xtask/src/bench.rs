//! `cargo xtask bench
//! call|catalogue|cli|density|fairness|ledger|many|mcp|neighbours|paid|revenue|search|store|victims`:
//! builds everything in release mode and starts the benchmark.

use crate::{Failure, args::Args, clients, conformance, database, engine, shell, workers};

const SUBJECTS: [&str; 14] = [
    "call",
    "catalogue",
    "cli",
    "density",
    "fairness",
    "ledger",
    "many",
    "mcp",
    "neighbours",
    "paid",
    "revenue",
    "search",
    "store",
    "victims",
];
const WHICH: &str = "there are fourteen measurements: `cargo xtask bench call`, `catalogue`, `cli`, `density`, `fairness`, `ledger`, `many`, `mcp`, `neighbours`, `paid`, `revenue`, `search`, `store` and `victims`";

/// Measures. No result fails by its time. `fairness` fails if a victim was not served.
///
/// # Errors
///
/// Fails if something cannot be built or measured.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let [subject] = args.words.as_slice() else { return Err(WHICH.to_owned()) };
    if !SUBJECTS.contains(&subject.as_str()) {
        return Err(WHICH.to_owned());
    }
    if ["ledger", "many", "store"].contains(&subject.as_str()) {
        database::find()?;
    }
    let engine = engine::pick(args.engine)?;
    let worker = workers::build(engine)?;
    let host = workers::build_host()?;
    let mut bench = shell::cargo(&["run", "--quiet", "--release", "--package", "tollhouse-bench", "--"]);
    bench.arg("--host").arg(host).arg("--worker").arg(worker).args(["--engine", engine.name(), "--subject", subject]);
    if subject == "mcp" {
        let clients = conformance::prepare().join().map_err(|_| "the installation of the clients broke")??;
        bench.arg("--node").arg(conformance::node(&clients)?).arg("--clients").arg(clients);
    }
    if subject == "paid" {
        let (payers, express) = (clients::prepare(), clients::prepare_express());
        let payers = payers.join().map_err(|_| "the installation of the payers broke")??;
        let express = express.join().map_err(|_| "the installation of the middleware broke")??;
        bench.arg("--node").arg("node").arg("--clients").arg(payers).arg("--express").arg(express);
    }
    if let Some(seconds) = args.seconds {
        bench.args(["--seconds", &seconds.to_string()]);
    }
    if let Some(receipts) = args.receipts {
        bench.args(["--most", &receipts.to_string()]);
    }
    shell::run(&mut bench)
}
