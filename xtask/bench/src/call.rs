//! Benchmarks of calls through the whole host over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    Failure, Options, bare,
    client::{Client, Request},
    host::{self, Host},
    load::{self, CONNECTIONS, Figures, INPUT, Subject, latencies},
};

/// Number of endpoints whose first call is timed, for each setting of the spares.
const COLD_CALLS: usize = 30;
/// Pause between cold calls, so that a new spare is ready.
const PAUSE: Duration = Duration::from_millis(300);

/// Measures throughput and latencies of echoes, and of first calls.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
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
    publish_cold(&host)?;
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

/// Measures throughput and latencies of the echoes, compared with the bare route.
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

/// Publishes the endpoints whose first calls are timed.
pub(crate) fn publish_cold(host: &Host) -> Result<(), Failure> {
    (0..COLD_CALLS).try_for_each(|n| publish(host, &format!("bench-cold-{n:02}"), &format!("// version {n}")))
}

/// Times the first call of each version, one after the other.
pub(crate) fn cold(host: &Host) -> Result<Figures, Failure> {
    let mut client = Client::connect(host.address())?;
    // The connection and the host's own first call must not be measured.
    client.expect_ok(&Request::post("/tools/receipt-echo-free", INPUT))?;
    let mut taken = Vec::new();
    for n in 0..COLD_CALLS {
        std::thread::sleep(PAUSE);
        taken.push(client.timed(&Request::post(&format!("/tools/bench-cold-{n:02}"), INPUT))?);
    }
    Ok(Figures::of(taken, Duration::from_secs(1)))
}

/// Publishes an echo. The comment makes its version unique.
pub(crate) fn publish(host: &Host, slug: &str, comment: &str) -> Result<(), Failure> {
    publish_with(host, slug, comment, &json!({ "type": "object" }))
}

/// Publishes an echo with `schema` for input and result.
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
