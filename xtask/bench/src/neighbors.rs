//! Measures a victim's p99 with attackers of each kind, relative to its p99 with the same number of
//! honest neighbors that are as busy as possible.
//!
//! Each attacker is a builder with several tools, who calls them over one connection from a
//! separate address, again after each answer. A neighbor is the same with one tool. Addresses have
//! no limit of processor time, because an attacker may have many. So the result shows how workers
//! affect each other.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;

use crate::{
    Failure, Options,
    client::{Client, Request},
    host::Host,
    hostile::{HONEST, publish, register},
    load::{self, Figures, INPUT},
};

/// Numbers of attackers or neighbors.
const CROWDS: [usize; 4] = [1, 3, 6, 9];
/// Tools of each attacker and kind. After a refusal it uses the next one, because callers whose
/// runs keep being stopped have to wait.
const TOOLS: usize = 6;
/// Connections of the victim, and calls per second on each.
const VICTIMS: usize = 4;
const PACE: f64 = 100.0;
/// Time that a crowd runs before the measurement.
const BEFORE: Duration = Duration::from_millis(200);
const SPAN: Duration = Duration::from_secs(1);
/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(5);
/// Longer than any of their calls takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Target for the ratio.
const BOUND: f64 = 2.0;

const VICTIM: &str = "victim";

/// Name, label and handler of each kind. The first is the honest one.
const KINDS: [(&str, &str); 6] = [
    HONEST,
    ("loop", "export default () => { for (;;) {} };"),
    (
        "burn",
        r#"export default () => {
          let value = 1;
          for (let turn = 0; turn < 8e6; turn++) value = (value * 31 + turn) % 1000003;
          return { value };
        };"#,
    ),
    ("heap", "export default () => { const all = []; for (;;) all.push(new Array(10000).fill(all.length)); };"),
    ("deadlock", "export default () => new Promise(() => {});"),
    ("ops", r#"export default async (_, ctx) => { for (;;) await Promise.all(Array.from({ length: 8 }, () => ctx.kv.get("key"))); };"#),
];

/// Measures all crowds of all kinds in turns.
///
/// # Errors
///
/// A victim was not answered with 200.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let settings = [("TOLLHOUSE_REGISTRATION_PRICE_USD", "0"), ("TOLLHOUSE_ADDRESS_CPU_PERCENT", "0"), ("TOLLHOUSE_AUTH_FAILURES", "0")];
    let host = Host::start(options, data.path(), &settings)?;
    let limits = json!({ "cpuMs": 500 });
    publish(&host, &register(&host, "Victim")?, VICTIM, "export default () => ({ ok: 1 });", &limits)?;
    for number in 0..CROWDS[CROWDS.len() - 1] {
        let key = register(&host, &format!("Builder {number}"))?;
        for (kind, source) in KINDS {
            for tool in 0..tools_of(kind) {
                let slug = slug(kind, number, tool);
                // Each source is unique, because a copy of another builder's source would need a
                // review.
                publish(&host, &key, &slug, &format!("export const own = \"{slug}\"; {source}"), &limits)?;
            }
        }
    }
    println!(
        "\np99 of a victim, {VICTIMS} connections at {PACE} calls/s each, beside so many, and how that is to as many honest neighbours'\n"
    );
    println!("{:<12}{}", "", CROWDS.map(|crowd| format!("{crowd:>12}      ")).concat());
    let mut cells = KINDS.map(|_| CROWDS.map(|_| (Vec::new(), 0)));
    for turn in 0..=options.seconds {
        for (at, crowd) in CROWDS.into_iter().enumerate() {
            for ((kind, _), row) in KINDS.into_iter().zip(&mut cells) {
                let (taken, calls) = measure_during(&host, kind, crowd)?;
                if turn > 0 {
                    row[at].0.extend(taken);
                    row[at].1 += calls;
                }
            }
        }
    }
    let p99s = cells.map(|row| row.map(|(taken, calls)| (Figures::of(taken, SPAN).quantile(0.99).as_secs_f64() * 1e3, calls)));
    let mut over = 0;
    for ((kind, _), row) in KINDS.into_iter().zip(p99s) {
        let cells = row.iter().zip(p99s[0]).map(|((p99, _), (honest, _))| {
            let ratio = p99 / honest;
            over += usize::from(ratio > BOUND);
            format!("{p99:>8.1} ms {ratio:>5.2}{}", if ratio > BOUND { " !" } else { "  " })
        });
        let cells: String = cells.collect();
        println!("{kind:<12}{cells}   {:?} calls", row.map(|(_, calls)| calls));
    }
    println!("\n{over} of {} above {BOUND}", (KINDS.len() - 1) * CROWDS.len());
    host.stop()
}

fn tools_of(kind: &str) -> usize {
    if kind == HONEST.0 { 1 } else { TOOLS }
}

fn slug(kind: &str, number: usize, tool: usize) -> String {
    format!("{kind}-{number}-{tool}")
}

/// Returns the durations of the victim's calls during the calls of a crowd, and the number of those
/// calls.
fn measure_during(host: &Host, kind: &'static str, crowd: usize) -> Result<(Vec<Duration>, usize), Failure> {
    let (address, ending) = (host.address(), Arc::new(AtomicBool::new(false)));
    let crowd: Vec<_> = (0..crowd)
        .map(|number| {
            let ending = Arc::clone(&ending);
            thread::spawn(move || call_on(address, kind, number, &ending))
        })
        .collect();
    thread::sleep(BEFORE);
    let victims = vec![Request::post(&format!("/tools/{VICTIM}"), INPUT); VICTIMS];
    let figures = load::run_paced(address, &victims, PACE, SPAN);
    ending.store(true, Ordering::Relaxed);
    let calls = crowd.into_iter().map(|caller| caller.join().unwrap_or_default()).sum();
    Ok((figures?.into_parts().0, calls))
}

/// Calls until the end. Returns the number of calls that were not refused.
fn call_on(address: SocketAddr, kind: &str, number: usize, ending: &AtomicBool) -> usize {
    let requests: Vec<_> = (0..tools_of(kind)).map(|tool| Request::post(&format!("/tools/{}", slug(kind, number, tool)), INPUT)).collect();
    // Limits on an attacker's address must not apply to the honest neighbor.
    let own = Ipv4Addr::new(127, 0, if kind == HONEST.0 { 3 } else { 1 }, u8::try_from(number + 1).unwrap_or(u8::MAX));
    let (mut served, mut client, mut tool) = (0, None, 0);
    while !ending.load(Ordering::Relaxed) {
        let connected = client.take().map_or_else(|| Client::connect_from(own, address, TIMEOUT), Ok);
        let request = connected.and_then(|mut connected| Ok((connected.ask(&requests[tool % requests.len()])?, connected)));
        let is_refused = request.as_ref().map_or(true, |(status, _)| matches!(status, 429 | 503));
        client = request.ok().map(|(_, connected)| connected);
        if is_refused {
            tool += 1;
            thread::sleep(PAUSE);
        } else {
            served += 1;
        }
    }
    served
}
