//! Measures paid calls: compared with the standard middleware on one chain, and durable ones per
//! second.

mod chain;
pub(crate) mod payer;

use std::{net::SocketAddr, time::Duration};

use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};

use self::{
    chain::{Chain, HOST_KEY, PAY_TO, express},
    payer::{Challenge, Payer},
};
use crate::{
    Failure, Options,
    client::{Client, Request},
    host::{self, Host},
    load::{self, Figures, INPUT, latencies},
};

/// Connections for the comparison with the middleware.
const CONNECTIONS: [usize; 2] = [1, 8];
/// Calls of one connection in a turn, for each requested second.
const CALLS: usize = 20;
/// Connections of the durable calls, and calls on each.
const MANY: usize = 64;
const MANY_CALLS: usize = 150;
/// Cores of the host. The load generator uses others.
const HOST_CORES: &str = "0,1";
const BLOCK: Duration = Duration::from_secs(2);
const ECHO: &str = "/tools/bench-echo";
pub(crate) const STATIC: &str = "/tools/bench-static";

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism()?.get();
    println!("{cores} cores, worker on {}, {} bytes of JSON in and out\n", options.engine, INPUT.len());
    compare_to_express(options)?;
    blocks(options)?;
    durable(options, cores)
}

/// Starts a host that settles payments itself.
fn evm(options: &Options, data: &std::path::Path, chain: &Chain) -> Result<Host, Failure> {
    let settings = [
        ("TOLLHOUSE_FACILITATOR", "evm"),
        ("TOLLHOUSE_RPC_URL", &chain.url()),
        ("TOLLHOUSE_GAS_KEY", HOST_KEY),
        ("TOLLHOUSE_PAY_TO", PAY_TO),
    ];
    let host = Host::start(options, data, &settings)?;
    publish(host.address(), ECHO, 0.01, &json!({ "source": "export default async (req) => req.input;", "language": "js" }))?;
    Ok(host)
}

/// Compares the same echo with the same payer and chain, in turns.
fn compare_to_express(options: &Options) -> Result<(), Failure> {
    let (first, second) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let chain = Chain::start(options, &[])?;
    let facilitator = chain.facilitator(options)?;
    let express = express(options, &facilitator)?;
    let own = evm(options, first.path(), &chain)?;
    let settings = [
        ("TOLLHOUSE_FACILITATOR", "http"),
        ("X402_FACILITATOR_URL", &facilitator.url()),
        ("TOLLHOUSE_RPC_URL", &chain.url()),
        ("TOLLHOUSE_PAY_TO", PAY_TO),
    ];
    let through = Host::start(options, second.path(), &settings)?;
    publish(through.address(), ECHO, 0.01, &json!({ "source": "export default async (req) => req.input;", "language": "js" }))?;
    let payer = Payer::new()?;
    chain.fund(payer.address)?;

    let echo = Request::post(ECHO, INPUT);
    let mut subjects = vec![];
    for (what, address) in [
        ("@x402/express, stock facilitator", express.address),
        ("Tollhouse, the same facilitator", through.address()),
        ("Tollhouse, evm", own.address()),
    ] {
        subjects.push((what, address, Challenge::of(address, &echo)?));
    }
    println!(
        "{:<40}{:>5}{:>10}{:>11}{:>11}{:>14}{:>9}",
        "paid calls on a chain", "conn", "calls/s", "p50", "p99", "p50/Express", "refused"
    );
    for connections in CONNECTIONS {
        let mut sums = vec![(vec![], Duration::ZERO, 0); subjects.len()];
        // The first turn is a warm-up.
        for turn in 0..=options.seconds {
            for ((_, address, challenge), sum) in subjects.iter().zip(&mut sums) {
                let lists = lists(&payer, &echo, challenge, connections, CALLS)?;
                let (figures, refused) = load::run_lists(*address, &lists)?;
                if turn > 0 {
                    let (taken, span) = figures.into_parts();
                    sum.0.extend(taken);
                    (sum.1, sum.2) = (sum.1 + span, sum.2 + refused);
                }
            }
        }
        let all: Vec<_> = sums.into_iter().map(|(taken, span, refused)| (Figures::of(taken, span), refused)).collect();
        for ((what, ..), (figures, refused)) in subjects.iter().zip(&all) {
            let ratio = figures.quantile(0.5).as_secs_f64() / all[0].0.quantile(0.5).as_secs_f64();
            println!("{what:<40}{connections:>5}{:>10.0}{}{ratio:>14.2}{refused:>9}", figures.per_second(), latencies(figures));
        }
    }
    own.stop()?;
    through.stop()
}

/// Times a paid call with a block every two seconds.
fn blocks(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let chain = Chain::start(options, &["--block-time", &BLOCK.as_secs().to_string()])?;
    let host = evm(options, data.path(), &chain)?;
    let payer = Payer::new()?;
    chain.fund(payer.address)?;
    let echo = Request::post(ECHO, INPUT);
    let challenge = Challenge::of(host.address(), &echo)?;
    println!("\n{:<40}{:>5}{:>11}{:>11}{:>14}", "evm, a block every 2 s", "conn", "p50", "p99", "p50/block");
    for connections in CONNECTIONS {
        let (figures, refused) = load::run_lists(host.address(), &lists(&payer, &echo, &challenge, connections, 8)?)?;
        let blocks = figures.quantile(0.5).as_secs_f64() / BLOCK.as_secs_f64();
        println!("{:<40}{connections:>5}{}{blocks:>14.2}", format!("paid calls, {refused} refused"), latencies(&figures));
    }
    host.stop()
}

/// Measures paid calls that are durable before the answer, by way of payment.
fn durable(options: &Options, cores: usize) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let pinned = cores >= 4;
    let host = if pinned { Host::start_on(HOST_CORES, options, data.path(), &[])? } else { Host::start(options, data.path(), &[])? };
    if pinned {
        let mut others = CpuSet::new();
        (2..cores).for_each(|core| others.set(core));
        sched_setaffinity(None, &others)?;
    }
    publish(host.address(), STATIC, 0.001, &json!({ "response": { "done": true } }))?;
    let call = Request::post(STATIC, "{}");
    let payer = Payer::new()?;
    let funds = json!({ "address": payer.address.to_checksum(None), "amountUsd": 1_000 }).to_string();
    Client::connect(host.address())?.expect_ok(&Request::post("/dev/faucet", &funds))?;
    let challenge = Challenge::of(host.address(), &call)?;
    let on = if pinned { format!("the host on cores {HOST_CORES}") } else { format!("on {cores} cores with the load") };
    println!(
        "\n{:<40}{:>10}{:>11}{:>11}{:>16}{:>14}",
        format!("durable, {MANY} conn, {on}"),
        "calls/s",
        "p50",
        "p99",
        "fdatasyncs/call",
        "CPU µs/call"
    );
    let one = minted(&host)?;
    let each = (0..MANY).map(|_| minted(&host)).collect::<Result<Vec<_>, _>>()?;
    let by = |credit: &String| vec![call.clone().with("x-developer-credit", credit); MANY_CALLS];
    for (what, lists) in [
        ("one credit", vec![by(&one); MANY]),
        ("64 credits", each.iter().map(by).collect()),
        ("simulated x402", lists(&payer, &call, &challenge, MANY, MANY_CALLS)?),
    ] {
        // Warm up first, as a host under load would be.
        let (warm, timed): (Vec<_>, Vec<_>) = lists.iter().map(|list| (list[..10].to_vec(), list[10..].to_vec())).unzip();
        load::run_lists(host.address(), &warm)?;
        let before = spent(&host)?;
        let (figures, refused) = load::run_lists(host.address(), &timed)?;
        let after = spent(&host)?;
        if refused > 0 {
            return Err(format!("{refused} calls by {what} were refused").into());
        }
        let calls = (MANY * (MANY_CALLS - 10)) as f64;
        let (syncs, cpu) = ((after.0 - before.0) as f64 / calls, (after.1 - before.1) / calls * 1e6);
        println!("{what:<40}{:>10.0}{}{syncs:>16.3}{cpu:>14.0}", figures.per_second(), latencies(&figures));
    }
    host.stop()
}

/// Returns the requests of each connection, each with its own payment.
pub(crate) fn lists(
    payer: &Payer,
    request: &Request,
    challenge: &Challenge,
    connections: usize,
    calls: usize,
) -> Result<Vec<Vec<Request>>, Failure> {
    (0..connections).map(|_| payer.paid(request, challenge, calls)).collect()
}

/// Returns the host's number of `fdatasync` calls, and its processor time in seconds.
fn spent(host: &Host) -> Result<(u64, f64), Failure> {
    let (_, health) = host.admin(Request::get("/health"))?;
    let syncs = health["stored"]["syncs"].as_u64().ok_or("the host does not say how often it has put commits on disk")?;
    Ok((syncs, host.seconds()?))
}

/// Creates a credit.
fn minted(host: &Host) -> Result<String, Failure> {
    let body = json!({ "amountUsd": 1_000, "label": "bench" }).to_string();
    let (_, minted) = host.admin(Request::post("/ai/credits", &body))?;
    Ok(minted["credit"].as_str().ok_or("no credit was minted")?.to_owned())
}

pub(crate) fn publish(host: SocketAddr, path: &str, price: f64, handler: &Value) -> Result<(), Failure> {
    let kind = if handler["source"].is_string() { "js_request_response" } else { "static_json" };
    let body = json!({
        "slug": path.trim_start_matches("/tools/"),
        "title": "Bench",
        "description": "Answers.",
        "priceUsd": price,
        "handlerType": kind,
        "tags": ["bench"],
        "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object" },
        "capabilities": {},
        "handler": handler,
    });
    let request = Request::post("/ai/endpoints/create", &body.to_string()).with("x-admin-token", host::ADMIN_TOKEN);
    Client::connect(host)?.expect_ok(&request)
}
