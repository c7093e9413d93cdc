//! Measures calls through a whole host beside a bare axum route, reports of revenue, and the search, on this machine, in one run.
//!
//! Load and server share the machine's cores, so that the ratios tell more than the figures. Nothing
//! here fails by a clock; a call that is not answered with 200 does fail the run.

#![warn(missing_docs)]
#![expect(clippy::print_stdout, reason = "figures are for the terminal")]

mod bare;
mod client;
#[path = "../../../src/catalog/search/corpus.rs"]
mod corpus;
mod host;
mod load;
mod mcp;
mod revenue;
mod schemas;
mod search;
mod soak;
mod victims;

use std::{error::Error, path::PathBuf, time::Duration};

use client::{Client, Request};
use host::Host;
use load::{Figures, Subject};
use serde_json::{Value, json};

/// What every kind of echo is sent.
const INPUT: &str = r#"{"text":"the quick brown fox","numbers":[1,2,3],"nested":{"flag":true}}"#;
const CONNECTIONS: [usize; 2] = [1, 16];
/// Endpoints whose first call is timed, for each setting of the spares.
const COLD_CALLS: usize = 30;
/// Between cold calls, so that a spare is back in its place.
const PAUSE: Duration = Duration::from_millis(300);

type Failure = Box<dyn Error>;

struct Options {
    subject: String,
    host: PathBuf,
    worker: PathBuf,
    engine: String,
    seconds: u64,
    /// Node, and the folder of the MCP clients, for the server that MCP is held against.
    node: PathBuf,
    clients: PathBuf,
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let mut options = Options {
        subject: "call".to_owned(),
        host: PathBuf::new(),
        worker: PathBuf::new(),
        engine: "v8".to_owned(),
        seconds: 5,
        node: PathBuf::new(),
        clients: PathBuf::new(),
    };
    while let Some(word) = words.next() {
        if word == bare::COMMAND {
            return bare::serve();
        }
        let value = words.next().ok_or_else(|| format!("`{word}` wants a value"))?;
        match word.as_str() {
            "--subject" => options.subject = value,
            "--host" => options.host = value.into(),
            "--worker" => options.worker = value.into(),
            "--engine" => options.engine = value,
            "--node" => options.node = value.into(),
            "--clients" => options.clients = value.into(),
            "--seconds" => options.seconds = value.parse()?,
            _ => return Err(format!("no option `{word}`").into()),
        }
    }
    match options.subject.as_str() {
        "call" => measure(&options),
        "mcp" => mcp::measure(&options),
        "revenue" => revenue::measure(&options),
        "soak" => soak::run(&options),
        "victims" => victims::measure(&options),
        "search" => search::measure(),
        other => Err(format!("nothing measures `{other}`").into()),
    }
}

fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let cores = std::thread::available_parallelism()?;
    println!(
        "{cores} cores, worker on {}, {} s for each line, {} bytes of JSON in and out\n",
        options.engine,
        options.seconds,
        INPUT.len()
    );

    let host = Host::start(options, data.path(), &[])?;
    publish(&host, "bench-echo", "")?;
    publish_with(&host, "bench-checked", "", &json!({ "type": "object", "minProperties": 1 }))?;
    for n in 0..COLD_CALLS {
        publish(&host, &format!("bench-cold-{n:02}"), &format!("// version {n}"))?;
    }
    let bare = bare::Bare::start()?;
    warm(options, &host, bare.address())?;
    host.stop()?;

    println!("\nfirst call of a version, {COLD_CALLS} of them         p50        p99");
    for (what, settings) in [("with spare workers", &[][..]), ("without spares", &[("TOLLHOUSE_SANDBOX_SPARES", "0")])] {
        let host = Host::start(options, data.path(), settings)?;
        println!("  {what:<38}{}", latencies(&cold(&host)?));
        host.stop()?;
    }
    Ok(())
}

/// Throughput and latencies of the echoes, each beside the bare route's.
fn warm(options: &Options, host: &Host, bare: std::net::SocketAddr) -> Result<(), Failure> {
    println!("{:<28}{:>4}{:>12}{:>11}{:>11}{:>9}{:>10}", "", "conn", "calls/s", "p50", "p99", "calls", "p50");
    let subject = |what, address, path| Subject { what, address, request: Request::post(path, INPUT) };
    let subjects = [
        subject("bare axum route", bare, "/echo"),
        subject("built-in receipt echo", host.address(), "/tools/receipt-echo-free"),
        subject("JavaScript echo", host.address(), "/tools/bench-echo"),
        subject("with schemas to check", host.address(), "/tools/bench-checked"),
    ];
    for connections in CONNECTIONS {
        let all = load::in_turns(&subjects, connections, options.seconds)?;
        for (Subject { what, .. }, figures) in subjects.iter().zip(&all) {
            let calls = figures.per_second() / all[0].per_second();
            let median = figures.quantile(0.5).as_secs_f64() / all[0].quantile(0.5).as_secs_f64();
            println!("{what:<28}{connections:>4}{:>12.0}{}{calls:>9.2}{median:>9.1}x", figures.per_second(), latencies(figures));
        }
    }
    Ok(())
}

/// The first call of each version, one after the other.
fn cold(host: &Host) -> Result<Figures, Failure> {
    let mut client = Client::connect(host.address())?;
    // The connection and the host's own first call are not what is measured.
    client.expect_ok(&Request::post("/tools/receipt-echo-free", INPUT))?;
    let mut taken = Vec::new();
    for n in 0..COLD_CALLS {
        std::thread::sleep(PAUSE);
        taken.push(client.timed(&Request::post(&format!("/tools/bench-cold-{n:02}"), INPUT))?);
    }
    Ok(Figures::of(taken, Duration::from_secs(1)))
}

fn publish(host: &Host, slug: &str, comment: &str) -> Result<(), Failure> {
    publish_with(host, slug, comment, &json!({ "type": "object" }))
}

/// An echo whose input and result are held against `schema`.
fn publish_with(host: &Host, slug: &str, comment: &str, schema: &Value) -> Result<(), Failure> {
    let body = json!({
        "slug": slug,
        "title": "Echo",
        "description": "Answers what it was sent.",
        "priceUsd": 0,
        "handlerType": "js_request_response",
        "tags": ["bench"],
        "inputSchema": schema,
        "outputSchema": schema,
        "capabilities": {},
        "handler": { "source": format!("export default async (req) => req.input; {comment}"), "language": "js" },
    });
    let request = Request::post("/ai/endpoints/create", &body.to_string()).with("x-admin-token", host::ADMIN_TOKEN);
    Client::connect(host.address())?.expect_ok(&request)
}

fn latencies(figures: &Figures) -> String {
    let shown = |quantile| format!("{:>8.0} µs", figures.quantile(quantile).as_secs_f64() * 1e6);
    format!("{}{}", shown(0.5), shown(0.99))
}
