//! Measures how many endpoints fit on a machine: memory of a warm endpoint, time of the first call
//! of a version with a spare, and a host with 10,000 endpoints on 2 GB of which one in a hundred is
//! called.
//!
//! Memory is as the system counts it: private memory is what only the process has written to. The
//! proportional share also includes its part of shared memory: the program's file, and pages that a
//! worker shares with its zygote.

use std::{
    fs,
    thread::{self, sleep},
    time::{Duration, Instant},
};

use crate::{
    Failure, Options, call,
    client::{Client, Request},
    host::Host,
    load::{Figures, INPUT, latencies},
    victims::{self, ENDPOINTS},
};

/// Number of endpoints of the large host that are called at the same time.
const HOT: usize = 100;
/// Interval at which the set of called endpoints changes.
const TURNS: usize = 3;
const CONNECTIONS: usize = 16;
/// Numbers of calls of one endpoint after which it is measured.
const CALLS: [usize; 4] = [1, 100, 1_000, 5_000];
/// Time until an idle worker has collected its garbage.
const REST: Duration = Duration::from_secs(3);
/// The host's own defaults on a machine with 2 GB.
const SETTINGS: [(&str, &str); 2] = [("TOLLHOUSE_SANDBOX_MEMORY", "1073741824"), ("TOLLHOUSE_SANDBOX_PROCESSES", "128")];
const GIB_KB: u64 = 1 << 20;

/// Memory of processes, in KB.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    own: u64,
    share: u64,
}

/// Prints the results.
///
/// # Errors
///
/// An answer that is not 200, or memory that the system does not report.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    for (what, zygote) in [("workers forked from a zygote", "true"), ("workers started separately", "false")] {
        println!("{what}");
        one(options, zygote)?;
    }
    many(options)
}

/// Measures one endpoint, and the first calls of others.
fn one(options: &Options, zygote: &str) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let host = Host::start(options, data.path(), &[("TOLLHOUSE_SANDBOX_ZYGOTE", zygote)])?;
    call::publish_cold(&host)?;
    println!("  first call of a version, with a spare{}", latencies(&call::cold(&host)?));
    host.stop()?;

    let settings = [("TOLLHOUSE_SANDBOX_ZYGOTE", zygote), ("TOLLHOUSE_SANDBOX_SPARES", "0"), ("TOLLHOUSE_SANDBOX_PIPELINE", "0")];
    let host = Host::start(options, data.path(), &settings)?;
    let mut client = Client::connect(host.address())?;
    let call = Request::post("/tools/bench-cold-00", INPUT);
    // A second endpoint, because memory that two processes share is not private.
    client.expect_ok(&Request::post("/tools/bench-cold-01", INPUT))?;
    let known = workers(&host)?;
    let mut calls = 0;
    for checked_at in CALLS {
        while calls < checked_at {
            client.expect_ok(&call)?;
            client.expect_ok(&Request::post("/tools/bench-cold-01", INPUT))?;
            calls += 1;
        }
        println!("  own memory of a worker after {calls:>5} calls of JSON {:>8} KB", own_of_new(&host, &known)?);
    }
    sleep(REST);
    println!("  and when it has had nothing to do for a while    {:>8} KB\n", own_of_new(&host, &known)?);
    host.stop()
}

/// Returns the largest private memory of workers that are not `known`.
fn own_of_new(host: &Host, known: &[u32]) -> Result<u64, Failure> {
    let new = workers(host)?.into_iter().filter(|pid| !known.contains(pid)).map(|pid| memory(pid).map(|memory| memory.own));
    new.collect::<Result<Vec<_>, _>>()?.into_iter().max().ok_or_else(|| "no worker".into())
}

/// Measures many endpoints of which few are called.
fn many(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let tools = data.path().join("tools");
    victims::write_tools(&tools, ENDPOINTS)?;
    let tools = tools.to_string_lossy().into_owned();
    let started = Instant::now();
    let [max_memory, most_processes] = SETTINGS;
    let host = Host::start(options, data.path(), &[("TOLLHOUSE_TOOLS", &tools), max_memory, most_processes])?;
    for number in 0..TURNS * HOT {
        call::publish(&host, &name(number), &format!("// version {number}"))?;
    }
    println!("{ENDPOINTS} endpoints published in {:.0} s, the host holds {} MB", started.elapsed().as_secs_f64(), host.memory_mb()?);
    println!(
        "{:<10}{:>10}{:>12}{:>11}{:>11}{:>10}{:>14}{:>16}",
        "hot", "not 200", "calls/s", "p50", "p99", "workers", "their MB", "endpoints/GB"
    );
    for turn in 0..TURNS {
        let names: Vec<_> = (turn * HOT..(turn + 1) * HOT).map(name).collect();
        // Includes evicting the previous endpoints, and the first calls of these.
        run(&host, &names, Duration::from_secs(2))?;
        let (figures, failed) = run(&host, &names, Duration::from_secs(options.seconds))?;
        let workers = workers(&host)?;
        let memory = workers.iter().map(|pid| memory(*pid)).collect::<Result<Vec<_>, _>>()?;
        let shares: u64 = memory.iter().map(|memory| memory.share).sum();
        println!(
            "{:<10}{failed:>10}{:>12.0}{}{:>10}{:>14}{:>16}",
            format!("{HOT}, {}", turn + 1),
            figures.per_second(),
            latencies(&figures),
            workers.len(),
            shares / 1_000,
            GIB_KB * workers.len() as u64 / shares.max(1),
        );
    }
    println!("the host holds {} MB", host.memory_mb()?);
    host.stop()
}

fn name(number: usize) -> String {
    format!("bench-hot-{number:05}")
}

/// Calls all of these in turn. Returns the times, and the number of answers other than 200.
fn run(host: &Host, names: &[String], span: Duration) -> Result<(Figures, usize), Failure> {
    let started = Instant::now();
    let parts = in_parallel(|part| {
        let (mut client, mut taken, mut failed) = (Client::connect(host.address())?, Vec::new(), 0);
        for name in names.iter().cycle().skip(part * names.len() / CONNECTIONS) {
            let request = Instant::now();
            if started.elapsed() >= span {
                break;
            }
            match client.ask(&Request::post(&format!("/tools/{name}"), INPUT))? {
                200 => taken.push(request.elapsed()),
                _ => failed += 1,
            }
        }
        Ok((taken, failed))
    })?;
    let failed = parts.iter().map(|(_, failed)| failed).sum();
    Ok((Figures::of(parts.into_iter().flat_map(|(taken, _)| taken).collect(), started.elapsed()), failed))
}

/// Runs parts concurrently.
fn in_parallel<T: Send>(work: impl Fn(usize) -> Result<T, Failure> + Sync) -> Result<Vec<T>, Failure> {
    thread::scope(|scope| {
        let parts: Vec<_> = (0..CONNECTIONS)
            .map(|part| {
                scope.spawn({
                    let work = &work;
                    move || work(part).map_err(|reason| reason.to_string())
                })
            })
            .collect();
        parts.into_iter().map(|part| Ok(part.join().map_err(|_| "a connection's thread broke")??)).collect()
    })
}

/// Returns the host's child processes that are workers, without zygotes.
fn workers(host: &Host) -> Result<Vec<u32>, Failure> {
    let parent = format!(" {} ", host.id());
    let is_worker = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(tollhouse-worke)") && stat.rsplit_once(") ").is_some_and(|(_, fields)| fields[1..].starts_with(&parent))
    };
    Ok(fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(is_worker).collect())
}

fn memory(pid: u32) -> Result<Memory, Failure> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).map_err(|error| format!("a worker's memory is root's to see: {error}"))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse().ok());
    field("Private_Dirty:").zip(field("Pss:")).map(|(own, share)| Memory { own, share }).ok_or_else(|| "the system does not tell".into())
}
