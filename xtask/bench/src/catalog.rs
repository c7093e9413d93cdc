//! Measures the cost of a host by the number of endpoints, from a hundred to a million.
//!
//! One endpoint of each kind is published over HTTP. Then copies of its rows, with other names, ids
//! and words of the same length, are written directly to the store, because only the full size
//! needs them.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tollhouse::store::{
    Batch, Direction, Durability, KeyRange, Space, Store, Write,
    sled::{SledConfig, SledStore},
};

use crate::{
    Failure, Options, call,
    client::Request,
    host::Host,
    load::{self, Figures, INPUT, Subject, latencies},
};

const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

/// Placeholders in the rows to copy. They have the same length as their replacements.
const SLUG: &str = "bulk-wwwwwwww-0000000";
const WORDS: [&str; 4] = ["wordonex", "wordtwox", "wordthre", "wordfour"];
const TAGS: [&str; 2] = ["tagoneyy", "tagtwoyy"];

/// Number of different words of each kind.
const VOCABULARY: u64 = 20_000;
const DISTINCT_TAGS: u64 = 300;

/// Number of endpoints whose rows are written at once.
const AT_ONCE: usize = 500;
/// Number of timed changes, lists and searches.
const TIMES: usize = 40;
const CONNECTIONS: usize = 16;

/// By then, freed memory has been returned to the system.
const GIVEN_BACK: Duration = Duration::from_secs(5);

/// Tables with the history of an endpoint, which is not copied.
const PAST: [Space; 3] = [Space::Events, Space::Audit, Space::Logs];

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let host = Host::start(options, data.path(), &[])?;
    call::publish(&host, "bench-echo", "")?;
    let id = publish(&host)?;
    host.stop()?;
    let rows = rows(data.path(), &id)?;
    println!(
        "{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>24}{:>24}{:>24}{:>24}{:>10}{:>8}",
        "endpoints",
        "first",
        "start",
        "MB",
        "searched",
        "MB most",
        "MB then",
        "called",
        "disk MB",
        "a change   p50 p99",
        "a page",
        "by tag",
        "a search",
        "calls/s",
        "ratio"
    );
    // All measurements are relative to a small host that runs next to it, because the machine's
    // speed varies.
    let fewest = tempfile::tempdir()?;
    let alongside = Host::start(options, fewest.path(), &[])?;
    call::publish(&alongside, "bench-echo", "")?;
    publish(&alongside)?;
    alongside.stop()?;
    fill(fewest.path(), &rows, &id, 0..SIZES[0])?;
    let alongside = Host::start(options, fewest.path(), &[])?;
    let mut there = 0;
    for size in SIZES {
        fill(data.path(), &rows, &id, there..size)?;
        there = size;
        one(options, data.path(), size, &alongside)?;
    }
    alongside.stop()
}

/// Publishes the endpoint whose rows are copied, and returns its id.
fn publish(host: &Host) -> Result<String, Failure> {
    let [one, two, three, four] = WORDS;
    let body = json!({
        "slug": SLUG, "title": format!("{one} {two} for {three}"),
        "description": format!("Takes a {one} and reports the {four} of it: the {two} of a {three}, as of today, with where each comes from and how sure it is. Asks no other service, and keeps nothing of what it was asked."),
        "tags": TAGS, "priceUsd": 0.01, "handlerType": "js_request_response",
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string", "maxLength": 2000 }, "limit": { "type": "integer", "minimum": 1, "maximum": 50 } }, "required": ["text"] },
        "outputSchema": { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] },
        "handler": { "language": "js", "source": "export default async (req) => ({ text: String(req.input.text) });" },
    });
    let (status, answer) = host.admin(Request::post("/ai/endpoints/create", &body.to_string()))?;
    if status != 200 {
        return Err(format!("the endpoint was not published: {status} {answer}").into());
    }
    answer["endpoint"]["id"].as_str().map(str::to_owned).ok_or_else(|| "it has no id".into())
}

type Rows = Vec<(Space, Vec<u8>, Vec<u8>)>;

/// Reads the rows of an endpoint.
fn rows(data: &Path, id: &str) -> Result<Rows, Failure> {
    runtime()?.block_on(async {
        let store = SledStore::open(data.join("store"), SledConfig::default())?;
        let mut rows = Rows::new();
        for space in Space::ALL.into_iter().filter(|space| !PAST.contains(space)) {
            let mut after = KeyRange::all();
            loop {
                let page = store.scan(space, after.clone(), 500, Direction::Forward).await?;
                let Some((last, _)) = page.last() else { break };
                after = after.after(last);
                let names = |bytes: &[u8]| [SLUG.as_bytes(), id.as_bytes(), &packed(id)].iter().any(|name| holds(bytes, name));
                rows.extend(page.into_iter().filter(|(key, value)| names(key) || names(value)).map(|(key, value)| (space, key, value)));
            }
        }
        Ok(rows)
    })
}

/// Returns an id as 16 bytes.
fn packed(id: &str) -> [u8; 16] {
    id.split_once('_').and_then(|(_, id)| ulid::Ulid::from_string(id).ok()).map_or([0; 16], |id| id.to_bytes())
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|some| some == what)
}

/// Writes the rows for these numbers.
fn fill(data: &Path, rows: &Rows, id: &str, numbers: std::ops::Range<usize>) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let store = SledStore::open(data.join("store"), SledConfig::default())?;
        let mut random = fastrand::Rng::with_seed(numbers.start as u64);
        let numbers: Vec<_> = numbers.collect();
        for some in numbers.chunks(AT_ONCE) {
            let mut writes = Vec::new();
            for number in some {
                let new = names(id, *number, &mut random);
                for (space, key, value) in rows {
                    writes.push(Write::put(*space, renamed(key, &new), renamed(value, &new)));
                }
            }
            store.apply(Batch::of(Vec::new(), writes), Durability::Buffered).await?;
        }
        Ok(())
    })
}

/// Returns the placeholders with their replacements.
fn names(id: &str, number: usize, random: &mut fastrand::Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let new_id = ulid::Ulid::from_parts(1_700_000_000_000 + number as u64, random.u128(..));
    let prefix = id.split_once('_').map_or("", |(prefix, _)| prefix);
    // Some words are in a third of all texts, most in few.
    let mut word = |kinds: u64| {
        let share = random.f64();
        spelt((share * share * share * kinds as f64) as u64)
    };
    let slug = format!("bulk-{}-{number:07}", word(VOCABULARY));
    let mut new = vec![
        (SLUG.as_bytes().to_vec(), slug.into_bytes()),
        (id.as_bytes().to_vec(), format!("{prefix}_{new_id}").into_bytes()),
        (packed(id).to_vec(), new_id.to_bytes().to_vec()),
    ];
    new.extend(WORDS.iter().map(|old| (old.as_bytes().to_vec(), word(VOCABULARY).into_bytes())));
    new.extend(TAGS.iter().map(|old| (old.as_bytes().to_vec(), word(DISTINCT_TAGS).into_bytes())));
    new
}

/// Returns a word of eight letters for a number.
fn spelt(number: u64) -> String {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..8)
        .map(|position| {
            let letters: &[u8] = if position % 2 == 0 { b"bdfgklmnprstvz" } else { b"aeiou" };
            let letter = letters[(mixed % letters.len() as u64) as usize];
            mixed /= letters.len() as u64;
            char::from(letter)
        })
        .collect()
}

fn renamed(bytes: &[u8], names: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut new = bytes.to_vec();
    for (old, name) in names {
        let mut from = 0;
        while let Some(position) = new[from..].windows(old.len()).position(|some| some == &old[..]) {
            new[from + position..from + position + old.len()].copy_from_slice(name);
            from += position + old.len();
        }
    }
    new
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Measures one size, and prints a line of the table.
fn one(options: &Options, data: &Path, size: usize, alongside: &Host) -> Result<(), Failure> {
    // The first start completes the store after the bulk write.
    let started = Instant::now();
    Host::start(options, data, &[])?.stop()?;
    let first = started.elapsed();
    let started = Instant::now();
    let host = Host::start(options, data, &[])?;
    let (start, memory) = (started.elapsed(), host.memory_mb()?);
    let searched = loop {
        let (status, _) = host.admin(Request::get("/ai/endpoints?q=anything"))?;
        if status == 200 {
            break started.elapsed();
        }
        thread::sleep(Duration::from_millis(100));
    };
    thread::sleep(GIVEN_BACK);
    let (max, then) = (host.max_memory_mb()?, host.memory_mb()?);
    let mut random = fastrand::Rng::with_seed(1);
    let changes =
        timed(&host, |turn| Request::patch(&format!("/ai/endpoints/{SLUG}"), &json!({ "title": format!("Title {turn}") }).to_string()))?;
    let cursor = host.admin(Request::get("/ai/endpoints?limit=50"))?.1["nextCursor"].as_str().map(str::to_owned);
    let page = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
    let pages = timed(&host, |_| Request::get(&format!("/ai/endpoints?limit=50{page}")))?;
    let tagged =
        timed(&host, |turn| Request::get(&format!("/ai/endpoints?limit=50&tag={}&price=paid", spelt(turn as u64 % DISTINCT_TAGS))))?;
    let searches = timed(&host, |_| {
        Request::get(&format!("/ai/endpoints?limit=10&q={}%20{}", spelt(random.u64(..9)), spelt(random.u64(..VOCABULARY))))
    })?;
    let subject = |of: &Host| Subject { what: "calls", address: of.address(), request: Request::post("/tools/bench-echo", INPUT) };
    let taken = load::in_turns(&[subject(alongside), subject(&host)], CONNECTIONS, options.seconds)?;
    let (few, calls) = (taken[0].per_second(), taken[1].per_second());
    thread::sleep(GIVEN_BACK);
    let called = host.memory_mb()?;
    let disk = std::process::Command::new("du").arg("-sm").arg(data).output()?;
    let disk = String::from_utf8_lossy(&disk.stdout).split_whitespace().next().unwrap_or_default().to_owned();
    println!(
        "{size:>9}{:>8.2}s{:>8.2}s{memory:>9}{:>8.1}s{max:>9}{then:>9}{called:>9}{disk:>9}{:>24}{:>24}{:>24}{:>24}{calls:>10.0}{:>8.2}",
        first.as_secs_f64(),
        start.as_secs_f64(),
        searched.as_secs_f64(),
        latencies(&changes),
        latencies(&pages),
        latencies(&tagged),
        latencies(&searches),
        calls / few,
    );
    host.stop()
}

/// Times admin requests, one after the other.
fn timed(host: &Host, mut request: impl FnMut(usize) -> Request) -> Result<Figures, Failure> {
    let mut taken = Vec::new();
    for turn in 0..TIMES {
        let request = request(turn);
        let started = Instant::now();
        let (status, answer): (u16, Value) = host.admin(request)?;
        taken.push(started.elapsed());
        if status != 200 {
            return Err(format!("answered {status}: {answer}").into());
        }
    }
    Ok(Figures::of(taken, Duration::from_secs(1)))
}
