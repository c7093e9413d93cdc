//! One builder's attacks beside another builder's calls: of each kind of victim how many are refused, and how long the others take, as a
//! ratio to what they take beside as many calls of an honest tool.
//!
//! The attacker has as many connections as it likes, from many addresses. A victim asks for less than its share: it must be served, each
//! time. How long that takes is for whoever reads it.

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

/// Connections of the attacker, and addresses that they come from in turn.
const ATTACKERS: u8 = 64;
const ADDRESSES: u8 = 40;
/// How often each victim calls, in calls per second, each from an address of its own.
const PACE: f64 = 20.0;
/// How long a victim waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a victim was answered: how long each took that was served, and how many were not, by status.
#[derive(Debug, Default)]
struct Met {
    taken: Vec<Duration>,
    refused: BTreeMap<u16, usize>,
}

/// Measures each pair for as long as the options say.
///
/// # Errors
///
/// A victim that was refused a call below its share.
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
        for (number, met) in beside(host.address(), kind, &victims, span)?.into_iter().enumerate() {
            let (away, other) = (met.refused.get(&503).copied().unwrap_or(0), met.refused.values().sum::<usize>());
            // Who is told to wait for its turn has had more than its share.
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

/// What the victims send, by name.
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

/// All victims beside one kind of attack, or beside none.
fn beside(host: SocketAddr, kind: Option<&str>, victims: &[(&str, Request)], span: Duration) -> Result<Vec<Met>, Failure> {
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
        // The attack is to be under way.
        thread::sleep(Duration::from_millis(500));
        let calls = victims.iter().zip(1..).map(|((_, request), number)| {
            let from = Ipv4Addr::new(127, 0, 2, number);
            scope.spawn(move || call(from, host, request, span).map_err(|why| why.to_string()))
        });
        let calls: Vec<_> = calls.collect();
        let met = calls.into_iter().map(|calls| calls.join().map_err(|_| "a victim's thread broke".to_owned())?).collect::<Vec<_>>();
        over.store(true, Ordering::Relaxed);
        met.into_iter().map(|met| met.map_err(Failure::from)).collect()
    })
}

/// Calls at the victim's pace for a while.
fn call(from: Ipv4Addr, host: SocketAddr, request: &Request, span: Duration) -> Result<Met, Failure> {
    let (began, mut met) = (Instant::now(), Met::default());
    let mut client = Client::connect_from(from, host, PATIENCE)?;
    for turn in 0_u32.. {
        let due = Duration::from_secs_f64(f64::from(turn) / PACE);
        thread::sleep(due.saturating_sub(began.elapsed()));
        if began.elapsed() >= span {
            break;
        }
        let asked = Instant::now();
        let status = client.ask(request)?;
        // JSON-RPC tells of a refusal in its body.
        let is_error = serde_json::from_slice::<Value>(client.body()).is_ok_and(|body| body["result"]["isError"] == true);
        match status {
            200 if !is_error => met.taken.push(asked.elapsed()),
            status => *met.refused.entry(status).or_default() += 1,
        }
    }
    Ok(met)
}
