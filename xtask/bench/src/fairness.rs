//! Measures the effect of one builder's attacks on another builder's calls: for each kind of
//! victim, the refused calls, and the latency compared with a neighbor that calls an honest tool as
//! often.
//!
//! The attacker uses many connections from many addresses. A victim uses less than its share, so
//! each of its calls must be served. Latencies are printed but not judged.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Failure, Options,
    client::{Client, Request},
    host::Host,
    hostile::{self, HONEST, KINDS, publish, register},
    load::{Figures, INPUT},
    mcp,
};

/// Number of the attacker's connections, and of the addresses they use in turn.
const ATTACKERS: u8 = 64;
const ADDRESSES: u8 = 40;
/// Calls per second of each victim, from an address of its own.
const PACE: f64 = 20.0;
/// Maximum time that a victim waits.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Answers to a victim: times of served calls, and number of others by status.
#[derive(Debug, Default)]
struct VictimResults {
    taken: Vec<Duration>,
    refused: BTreeMap<u16, usize>,
}

/// Measures each pair for the time in the options.
///
/// # Errors
///
/// A victim was refused a call below its share.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let host = Host::start(options, data.path(), &[("TOLLHOUSE_REGISTRATION_PRICE_USD", "0")])?;
    hostile::publish_all(&host)?;
    let victims = victims(&host)?;
    println!("{ATTACKERS} connections of the attacker's from {ADDRESSES} addresses; each victim calls {PACE} times a second");
    println!("in each place: calls, of them refused with 503 and otherwise not served, p99, and that to the one beside honest calls\n");
    print!("{:<12}", "");
    victims.iter().for_each(|(name, _)| print!("{name:>34}"));
    println!("{:>8}", "MB");
    let (mut refused, mut honest) = (0, Vec::new());
    for kind in [None, Some(HONEST.0)].into_iter().chain(KINDS.map(|(kind, _)| Some(kind))) {
        let span = Duration::from_secs(options.seconds);
        print!("{:<12}", kind.unwrap_or("nothing"));
        for (number, met) in run_during(host.address(), kind, &victims, span)?.into_iter().enumerate() {
            let (away, other) = (met.refused.get(&503).copied().unwrap_or(0), met.refused.values().sum::<usize>());
            // 429 means that the victim has used more than its share.
            refused += other - met.refused.get(&429).copied().unwrap_or(0);
            let calls = met.taken.len() + other;
            let p99 = Figures::of(met.taken, span).quantile(0.99).as_secs_f64() * 1e3;
            if kind == Some(HONEST.0) {
                honest.push(p99);
            }
            let ratio = honest.get(number).map(|honest| format!("{:.2}", p99 / honest)).unwrap_or_default();
            print!("{:>34}", format!("{calls}, {away}, {}, {p99:.1} ms {ratio}", other - away));
        }
        println!("{:>8}", host.memory_mb()?);
    }
    host.stop()?;
    if refused == 0 { Ok(()) } else { Err(format!("{refused} calls of victims were not served").into()) }
}

/// Returns the requests of the victims by name.
fn victims(host: &Host) -> Result<Vec<(&'static str, Request)>, Failure> {
    const KEEPS: &str = "export default async (req, ctx) => { await ctx.kv.set('a', req.input); return ctx.kv.get('a'); };";
    let key = register(host, "Victim")?;
    publish(host, &key, "plain", "export default (req) => req.input;", &json!({}))?;
    publish(host, &key, "keeps", KEEPS, &json!({}))?;
    let credit = json!({ "amountUsd": 1_000, "label": "victim" });
    let (_, minted) = host.admin(Request::post("/ai/credits", &credit.to_string()))?;
    let credit = minted["credit"].as_str().ok_or("no credit was minted")?;
    let paid = json!({
        "slug": "paid", "title": "Paid", "priceUsd": 0.001, "handlerType": "js_request_response", "inputSchema": { "type": "object" },
        "handler": { "source": "export default (req) => req.input;\n", "language": "js" }, "safetyAttestation": { "accepted": true },
    });
    let create = Request::post("/ai/endpoints/create", &paid.to_string()).with("x-builder-key", &key);
    Client::connect(host.address())?.expect_ok(&create)?;
    Ok(vec![
        ("plain", Request::post("/tools/plain", INPUT)),
        ("keeps", Request::post("/tools/keeps", INPUT)),
        ("paid", Request::post("/tools/paid", INPUT).with("x-developer-credit", credit)),
        ("mcp", mcp::legacy_request("/ai/mcp", "plain")),
        ("built in", Request::post("/tools/receipt-echo-free", INPUT)),
    ])
}

/// Runs all victims during one kind of attack, or alone.
fn run_during(host: SocketAddr, kind: Option<&str>, victims: &[(&str, Request)], span: Duration) -> Result<Vec<VictimResults>, Failure> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in (0..ATTACKERS).take(kind.map_or(0, |_| usize::from(ATTACKERS))) {
            let (over, kind) = (&over, kind.unwrap_or_default());
            scope.spawn(move || {
                let from = Ipv4Addr::new(127, 0, 1, 1 + number % ADDRESSES);
                while !over.load(Ordering::Relaxed) {
                    for calm in [false, true] {
                        hostile::attack(from, host, kind, calm);
                    }
                }
            });
        }
        // Wait until the attack is running.
        thread::sleep(Duration::from_millis(500));
        let calls = victims.iter().zip(1..).map(|((_, request), number)| {
            let from = Ipv4Addr::new(127, 0, 2, number);
            scope.spawn(move || call(from, host, request, span).map_err(|reason| reason.to_string()))
        });
        let calls: Vec<_> = calls.collect();
        let met = calls.into_iter().map(|calls| calls.join().map_err(|_| "a victim's thread broke".to_owned())?).collect::<Vec<_>>();
        over.store(true, Ordering::Relaxed);
        met.into_iter().map(|met| met.map_err(Failure::from)).collect()
    })
}

/// Calls at the victim's rate for a while.
fn call(from: Ipv4Addr, host: SocketAddr, request: &Request, span: Duration) -> Result<VictimResults, Failure> {
    let (started, mut met) = (Instant::now(), VictimResults::default());
    let mut client = Client::connect_from(from, host, TIMEOUT)?;
    for turn in 0_u32.. {
        let due = Duration::from_secs_f64(f64::from(turn) / PACE);
        thread::sleep(due.saturating_sub(started.elapsed()));
        if started.elapsed() >= span {
            break;
        }
        let query = Instant::now();
        let status = client.ask(request)?;
        // JSON-RPC reports a refusal in the body.
        let is_error = serde_json::from_slice::<Value>(client.body()).is_ok_and(|body| body["result"]["isError"] == true);
        match status {
            200 if !is_error => met.taken.push(query.elapsed()),
            status => *met.refused.entry(status).or_default() += 1,
        }
    }
    Ok(met)
}
