//! Soak test: free calls at full rate for a long time during attacks. Memory, disk, descriptors and
//! processes must stay flat once retention has begun.
//!
//! The host has short retention, so that soon as much is removed as is added. A builder's
//! JavaScript tool and the built-in echo are called in turn, and every answer is checked. They
//! cause receipts, events, call records, metrics and sales. Meanwhile another builder's tools are
//! attacked from many addresses. Times are not judged.

mod attack;
mod samples;
mod verdict;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Failure, Options,
    client::{Client, Request},
    host::Host,
    hostile::{publish, register},
    load::INPUT,
};

use self::{
    attack::AttackCounts,
    samples::{Sample, SampleRow},
    verdict::RunScale,
};

/// Connections, each with one call at a time.
const CONNECTIONS: usize = 4;
/// Rows of the table.
const ROWS: u64 = 30;
/// Measurements per row.
const LOOKS: u64 = 4;
/// Maximum time for which ended processes may remain after the last one has ended.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the soak test for the time in the options.
///
/// # Errors
///
/// A call was answered wrong; memory, disk or descriptors grew; a process was not reaped.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let scale = RunScale::of(options.seconds);
    let data = tempfile::tempdir()?;
    let (receipts, others) = (scale.receipts.to_string(), scale.others.to_string());
    let settings = [
        ("TOLLHOUSE_FREE_RECEIPTS_KEPT", receipts.as_str()),
        ("TOLLHOUSE_CALLS_KEPT", &others),
        ("TOLLHOUSE_EVENTS_KEPT", &others),
        ("TOLLHOUSE_REGISTRATION_PRICE_USD", "0"),
        // All honest calls come from one address, and need more than one address's share.
        ("TOLLHOUSE_ADDRESS_CPU_PERCENT", "0"),
        // Small enough that the journal has dropped its first segments when the first receipts are
        // removed.
        ("TOLLHOUSE_STORE_JOURNAL_BYTES", "16777216"),
        ("TOLLHOUSE_STORE_SEGMENT_BYTES", "4194304"),
    ];
    let host = Host::start(options, data.path(), &settings)?;
    let honest = register(&host, "Soak")?;
    publish(&host, &honest, "soak-echo", "export default async (req) => req.input;", &json!({}))?;
    let attack = AttackCounts::publish(&host)?;
    println!("{} s of free calls, {CONNECTIONS} at once; receipts kept: {receipts}, calls and events: {others}", options.seconds);
    println!("beside them {} attackers with {} kinds of attack\n", scale.attackers, attack.kinds());
    println!("{}", SampleRow::HEAD);
    let rows = watch(&host, data.path(), options.seconds, &attack, scale.attackers)?;
    println!("\nthe attackers were answered: {}", attack.met());
    await_the_dead(&host)?;
    host.stop()?;
    verdict::judge(&rows, &scale)
}

/// Calls and measures until the time is over. Prints each row when it is complete.
fn watch(host: &Host, data: &Path, seconds: u64, attack: &AttackCounts, attackers: usize) -> Result<Vec<SampleRow>, Failure> {
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let address = host.address();
    let callers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
            thread::spawn(move || {
                let tools = ["/tools/receipt-echo-free", "/tools/soak-echo"].map(|path| (path, Request::post(path, INPUT)));
                let mut client = Client::connect(address).map_err(|reason| reason.to_string())?;
                for (path, tool) in tools.iter().cycle() {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    client.expect_ok(tool).map_err(|reason| reason.to_string())?;
                    if *path == "/tools/soak-echo" && client.body() != INPUT.as_bytes() {
                        return Err(format!("{path} answered {}", String::from_utf8_lossy(client.body())));
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    let started = Instant::now();
    let checked = thread::scope(|scope| {
        for number in 0..attackers {
            let over = &over;
            scope.spawn(move || attack.go_on(address, number, over));
        }
        let checked = rows(host, data, seconds, || (started.elapsed(), calls.load(Ordering::Relaxed), attack.count()));
        over.store(true, Ordering::Relaxed);
        checked
    });
    for caller in callers {
        caller.join().map_err(|_| "a connection's thread broke")??;
    }
    checked
}

fn rows(host: &Host, data: &Path, seconds: u64, done: impl Fn() -> (Duration, u64, u64)) -> Result<Vec<SampleRow>, Failure> {
    let pause = Duration::from_secs(seconds) / u32::try_from(ROWS * LOOKS)?;
    let mut rows = vec![SampleRow::default()];
    let mut before = Sample::default();
    for _ in 0..ROWS {
        let mut looks = vec![];
        for _ in 0..LOOKS {
            thread::sleep(pause);
            let look = Sample::at(host.id(), data, &before)?;
            before.clone_from(&look);
            looks.push(look);
        }
        let (elapsed, calls, attacks) = done();
        let row = SampleRow { seconds: elapsed.as_secs_f64(), calls, attacks, receipts: free_receipts(host)?, ..SampleRow::of(&looks) };
        println!("{}", row.line(rows.last().copied().unwrap_or_default()));
        rows.push(row);
    }
    Ok(rows.split_off(1))
}

/// Waits until the host has reaped all ended processes.
fn await_the_dead(host: &Host) -> Result<(), Failure> {
    let started = Instant::now();
    while !samples::dead(host.id())?.is_empty() {
        if started.elapsed() > TIMEOUT {
            return Err("the host has not waited for processes that have ended".into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn free_receipts(host: &Host) -> Result<u64, Failure> {
    let mut client = Client::connect(host.address())?;
    client.expect_ok(&Request::get("/health"))?;
    let health: Value = serde_json::from_slice(client.body())?;
    health["stored"]["freeReceipts"]["count"].as_u64().ok_or_else(|| "`/health` does not say how many free receipts there are".into())
}
