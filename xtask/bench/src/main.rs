//! Benchmarks on this machine, in one run: calls through a whole host compared with a bare axum
//! route, paid calls compared with the standard middleware, revenue reports, search, commits of the
//! store, and paid calls of several hosts.
//!
//! Load generator and server share the machine's cores, so ratios are more meaningful than absolute
//! values. No result fails by its time. A call that is not answered with 200 fails the run.

#![warn(missing_docs)]
#![expect(clippy::print_stdout, reason = "figures are for the terminal")]

mod bare;
mod call;
mod catalog;
mod cli;
mod client;
#[path = "../../../src/catalog/search/tests/corpus.rs"]
mod corpus;
mod density;
mod failure;
mod fairness;
mod host;
mod hostile;
mod http2;
mod ledger;
mod load;
mod many;
mod mcp;
mod neighbors;
mod options;
mod paid;
#[allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "tests use more of it, and may panic")]
#[path = "../../../tests/it/harness/postgres.rs"]
mod postgres;
#[allow(clippy::unwrap_used, dead_code, reason = "tests look at more of a process, and may panic")]
#[allow(unreachable_pub, reason = "the tests say it to others")]
#[path = "../../../tests/it/harness/process.rs"]
mod process;
mod revenue;
mod schemas;
mod search;
mod soak;
mod store;
mod victims;

use std::path::PathBuf;

use failure::Failure;
use options::Options;

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let mut options = Options {
        subject: "call".to_owned(),
        host: PathBuf::new(),
        worker: PathBuf::new(),
        engine: "v8".to_owned(),
        seconds: 5,
        short: false,
        only: vec![],
        max: 1_000_000,
        node: PathBuf::new(),
        clients: PathBuf::new(),
        express: PathBuf::new(),
    };
    while let Some(word) = words.next() {
        if word == bare::COMMAND {
            return bare::serve();
        }
        if word == "--short" {
            options.short = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("`{word}` wants a value"))?;
        match word.as_str() {
            "--subject" => options.subject = value,
            "--only" => options.only.push(value),
            "--host" => options.host = value.into(),
            "--worker" => options.worker = value.into(),
            "--engine" => options.engine = value,
            "--node" => options.node = value.into(),
            "--clients" => options.clients = value.into(),
            "--express" => options.express = value.into(),
            "--most" => options.max = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            _ => return Err(format!("no option `{word}`").into()),
        }
    }
    match options.subject.as_str() {
        "call" => call::measure(&options),
        "catalog" => catalog::measure(&options),
        "cli" => cli::measure(&options),
        "density" => density::measure(&options),
        "ledger" => ledger::measure(&options),
        "many" => many::measure(&options),
        "mcp" => mcp::measure(&options),
        "paid" => paid::measure(&options),
        "revenue" => revenue::measure(&options),
        "fairness" => fairness::measure(&options),
        "soak" => soak::run(&options),
        "victims" if options.short => victims::measure(&options),
        "victims" => victims::measure(&options).and_then(|()| neighbors::measure(&options)),
        "neighbors" => neighbors::measure(&options),
        "search" => search::measure(),
        "store" => store::measure(&options),
        other => Err(format!("nothing measures `{other}`").into()),
    }
}
