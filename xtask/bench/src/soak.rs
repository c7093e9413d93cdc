//! A soak: free calls at full rate for a long time, and whether memory and disk stay as they are once retention has begun.
//!
//! The host keeps little, so that what goes soon is as much as what comes. A builder's JavaScript tool and the host's own
//! echo are called in turns: receipts, events, records and metrics of calls, sales. Each row of the table is the largest
//! of what was seen in its time. Judged are the rows behind the first turn of retention, by the lowest in each half of them: what
//! leaks raises the floor, and what the store's file takes while the disk is slow it gives back. No clock decides.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
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
    load::INPUT,
};

/// Connections, each with one call under way.
const CONNECTIONS: usize = 4;
/// Rows of the table.
const ROWS: u64 = 30;
/// Looks that a row is made of.
const LOOKS: u64 = 4;
/// Runs shorter than this, in seconds, keep less and tolerate more: the store has not found its size by then. Without retention
/// the folder would double in either.
const LONG: u64 = 300;

/// What a run keeps, and how much its floor may rise.
struct Scale {
    /// Receipts of free calls, of which there are most.
    receipts: u64,
    others: u64,
    /// Percent of the floor.
    tolerance: f64,
}

/// What was seen of the host.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    seconds: f64,
    calls: u64,
    rss: f64,
    disk: f64,
    receipts: u64,
}

/// Runs the soak for as long as the options say.
///
/// # Errors
///
/// A call that was not answered with 200; memory or disk that grew.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let long = options.seconds >= LONG;
    let scale = if long {
        Scale { receipts: 50_000, others: 10_000, tolerance: 15.0 }
    } else {
        Scale { receipts: 5_000, others: 1_000, tolerance: 50.0 }
    };
    let data = tempfile::tempdir()?;
    let (receipts, others) = (scale.receipts.to_string(), scale.others.to_string());
    let settings = [
        ("TOLLHOUSE_FREE_RECEIPTS_KEPT", receipts.as_str()),
        ("TOLLHOUSE_CALLS_KEPT", &others),
        ("TOLLHOUSE_EVENTS_KEPT", &others),
        ("TOLLHOUSE_REGISTRATION_PRICE_USD", "0"),
        // So that the journal has let go of its first segments by the time that the first receipts go.
        ("TOLLHOUSE_STORE_JOURNAL_BYTES", "16777216"),
        ("TOLLHOUSE_STORE_SEGMENT_BYTES", "4194304"),
    ];
    let host = Host::start(options, data.path(), &settings)?;
    publish(&host)?;
    println!("{} s of free calls, {CONNECTIONS} at once; receipts kept: {receipts}, calls and events: {others}\n", options.seconds);
    println!("{:>8}{:>12}{:>10}{:>10}{:>10}{:>14}", "s", "calls", "calls/s", "RSS MB", "disk MB", "free receipts");
    let rows = watch(&host, data.path(), options.seconds)?;
    host.stop()?;
    judge(&rows, &scale)
}

/// Calls and looks until the time is over; prints each row as it is there.
fn watch(host: &Host, data: &Path, seconds: u64) -> Result<Vec<Row>, Failure> {
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let address = host.address();
    let callers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
            thread::spawn(move || {
                let tools = ["/tools/receipt-echo-free", "/tools/soak-echo"].map(|path| Request::post(path, INPUT));
                let mut client = Client::connect(address).map_err(|why| why.to_string())?;
                for tool in tools.iter().cycle() {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    client.expect_ok(tool).map_err(|why| why.to_string())?;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    let began = Instant::now();
    let looked = rows(host, data, seconds, || (began.elapsed(), calls.load(Ordering::Relaxed)));
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.join().map_err(|_| "a connection's thread broke")??;
    }
    looked
}

fn rows(host: &Host, data: &Path, seconds: u64, done: impl Fn() -> (Duration, u64)) -> Result<Vec<Row>, Failure> {
    let pause = Duration::from_secs(seconds) / u32::try_from(ROWS * LOOKS)?;
    let mut rows = vec![Row::default()];
    for _ in 0..ROWS {
        let mut row = Row::default();
        for _ in 0..LOOKS {
            thread::sleep(pause);
            row.rss = row.rss.max(resident(host.id())?);
            row.disk = row.disk.max(taken(data));
        }
        let (elapsed, calls) = done();
        (row.seconds, row.calls, row.receipts) = (elapsed.as_secs_f64(), calls, free_receipts(host)?);
        let before = rows.last().copied().unwrap_or_default();
        let rate = (row.calls - before.calls) as f64 / (row.seconds - before.seconds);
        println!("{:>8.0}{:>12}{rate:>10.0}{:>10.1}{:>10.1}{:>14}", row.seconds, row.calls, row.rss / 1e6, row.disk / 1e6, row.receipts);
        rows.push(row);
    }
    Ok(rows.split_off(1))
}

/// Says whether memory and disk were flat.
fn judge(rows: &[Row], scale: &Scale) -> Result<(), Failure> {
    // Twice as many calls as receipts are kept: each that is there came after one that went.
    let first = rows.iter().position(|row| row.calls >= 2 * scale.receipts).ok_or("too few calls: retention had no turn; take longer")?;
    // The store finds its size while it turns for the first times.
    let judged = &rows[first.max(rows.len() / 3)..];
    if judged.len() < 5 {
        return Err("too few rows behind retention's first turn; take longer".into());
    }
    println!("\nfrom {:.0} s on, the floor may rise by {} %:", judged[0].seconds, scale.tolerance);
    let mut grew = Vec::new();
    for (what, of) in [("RSS", (|row| row.rss) as fn(&Row) -> f64), ("disk", |row| row.disk)] {
        let percent = growth(judged, of);
        println!("  {what:<5} {percent:>+6.1} %");
        if percent > scale.tolerance {
            grew.push(what);
        }
    }
    let most = judged.iter().map(|row| row.receipts).max().unwrap_or_default();
    // What a turn has not come to yet.
    let late = (judged[judged.len() - 1].calls / judged.len() as u64).max(scale.receipts);
    if most > scale.receipts + late {
        return Err(format!("{most} free receipts are there, {} were to be kept", scale.receipts).into());
    }
    if grew.is_empty() { Ok(()) } else { Err(format!("{} grew", grew.join(" and ")).into()) }
}

/// How much higher the floor of the second half of the rows is than that of the first, in percent.
fn growth(rows: &[Row], of: fn(&Row) -> f64) -> f64 {
    let (first, second) = rows.split_at(rows.len() / 2);
    let floor = |half: &[Row]| half.iter().map(of).fold(f64::INFINITY, f64::min);
    (floor(second) / floor(first) - 1.0) * 100.0
}

/// A tool of a builder's: its calls leave events too.
fn publish(host: &Host) -> Result<(), Failure> {
    let mut client = Client::connect(host.address())?;
    client.expect_ok(&Request::post("/ai/builders/register", &json!({ "name": "Soak" }).to_string()))?;
    let registered: Value = serde_json::from_slice(client.body())?;
    let key = registered["builderKey"].as_str().ok_or("no key was given")?;
    let body = json!({
        "slug": "soak-echo",
        "title": "Echo",
        "description": "Answers what it was sent.",
        "priceUsd": 0,
        "handlerType": "js_request_response",
        "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object" },
        "handler": { "source": "export default async (req) => req.input;", "language": "js" },
        "safetyAttestation": { "accepted": true },
    });
    client.expect_ok(&Request::post("/ai/endpoints/create", &body.to_string()).with("x-builder-key", key))
}

fn free_receipts(host: &Host) -> Result<u64, Failure> {
    let mut client = Client::connect(host.address())?;
    client.expect_ok(&Request::get("/health"))?;
    let health: Value = serde_json::from_slice(client.body())?;
    health["stored"]["freeReceipts"]["count"].as_u64().ok_or_else(|| "`/health` does not say how many free receipts there are".into())
}

/// The resident memory of a process, in bytes.
fn resident(process: u32) -> Result<f64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the system does not say what memory the host has")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

/// What a folder takes on the disk, in bytes.
fn taken(path: &Path) -> f64 {
    let Ok(about) = fs::symlink_metadata(path) else { return 0.0 };
    let below = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| taken(&entry.path()));
    about.blocks() as f64 * 512.0 + below.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(disk: impl Fn(u32) -> f64) -> Vec<Row> {
        let row = |n: u32| Row { seconds: n.into(), calls: u64::from(n) * 1_000, rss: 100.0, disk: disk(n), receipts: 1_000 };
        (1..=30).map(row).collect()
    }

    const SCALE: Scale = Scale { receipts: 1_000, others: 10, tolerance: 5.0 };

    #[test]
    fn what_goes_up_and_down_is_flat_and_what_creeps_is_not() {
        assert!(judge(&rows(|n| if n.is_multiple_of(2) { 90.0 } else { 110.0 }), &SCALE).is_ok());
        // It may find its size first.
        assert!(judge(&rows(|n| 100.0 * f64::from(n.min(10))), &SCALE).is_ok());
        let creeps = judge(&rows(|n| 100.0 + f64::from(n)), &SCALE).unwrap_err().to_string();
        assert_eq!(creeps, "disk grew");
    }

    #[test]
    fn receipts_that_do_not_go_are_seen() {
        let mut rows = rows(|_| 1.0);
        rows.iter_mut().for_each(|row| row.receipts = row.calls);
        assert!(judge(&rows, &SCALE).is_err());
    }

    #[test]
    fn a_run_without_a_turn_of_retention_proves_nothing() {
        assert!(judge(&rows(|_| 1.0), &Scale { receipts: 1_000_000, ..SCALE }).is_err());
    }
}
