//! Measures the effect of one address on others, on a host with 10,000 endpoints: a victim's calls
//! per second and p99 during each attack, relative to those without, in turns.
//! An attacker uses all that one address may by default, over eight connections, or holds connections open.
//! Prints whether two aims are met: a p99 below twice that without the attack, and at most 300 MB.

mod attack;
mod bounded;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use self::attack::{Attack, JS_VICTIM, Met, PACE, TIMEOUT, VICTIM, publish_with};
use crate::{
    Failure, Options,
    client::{Client, Request, socket_from_elsewhere},
    host::{ADMIN_TOKEN, Host, compact_store, public_limits},
    http2::{self, Flood, HeldRequest},
    load::{self, Figures, INPUT},
    mcp, schemas,
};

pub(crate) const ENDPOINTS: usize = 10_000;
/// Number of an attacker's connections.
const ATTACKERS: usize = 8;
/// Concurrent calls of the victims, half over HTTP and half over MCP.
const VICTIMS: usize = 8;
/// Calls per second of each victim of a handler. All have the same address, which is limited to its
/// share of a busy machine.
const JS_PACE: f64 = 100.0;
/// Requests to `/health/live` per second.
const LOOKS: f64 = 50.0;
/// How long the victims call in a turn. The second is for the short form, which only checks that each row works.
const SPAN: Duration = Duration::from_secs(1);
const SHORT_SPAN: Duration = Duration::from_millis(200);
/// Number of endpoints in the short form.
const SHORT_ENDPOINTS: usize = 100;
/// The host's promises during an attack from one address: maximum slowdown factor, and maximum memory in megabytes.
const MAX_SLOWER: f64 = 2.0;
const MAX_MB: u64 = 300;

/// Maximum time that an attacker waits for an answer to a call that runs to its end.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let tools = data.path().join("tools");
    let endpoints = if options.short { SHORT_ENDPOINTS } else { ENDPOINTS };
    write_tools(&tools, endpoints)?;
    let tools = tools.to_string_lossy().into_owned();
    let started = Instant::now();
    // The attacker's pace replaces the limit of requests per second, because the victims have the same address.
    let limits = public_limits(options)?;
    let limits = limits.iter().map(|(name, max)| (*name, max.as_str()));
    let settings: Vec<_> = [("TOLLHOUSE_TOOLS", tools.as_str()), ("TOLLHOUSE_AUTH_FAILURES", "0")].into_iter().chain(limits).collect();
    Host::start(options, data.path(), &settings)?.stop()?;
    // Renewing a tree that grew by thousands of tools at once takes memory of its own.
    compact_store(options, data.path())?;
    let host = Host::start(options, data.path(), &settings)?;
    println!("{endpoints} endpoints published in {:.0} s, the host holds {} MB", started.elapsed().as_secs_f64(), host.memory_mb()?);
    println!("{VICTIMS} victims over HTTP and MCP; the attacker asks {PACE} times a second over {ATTACKERS} connections\n");
    println!("{:<44}{:>18}{:>20}{:>17}{:>8}  {:<19} met", "", "victims' calls/s", "p99", "/health/live p99", "MB", "aims");
    for (what, attack) in attacks(&host)? {
        measure_during(&host, VICTIM, &what, Arc::new(attack), options)?;
    }
    for (what, attack) in over_http2()?.into_iter().chain(over_mcp(&host)?).chain(bounded::attacks(&host)?) {
        measure_during(&host, VICTIM, &what, Arc::new(attack), options)?;
    }
    for (what, attack) in hogs(&host)? {
        measure_during(&host, JS_VICTIM, &what, Arc::new(attack), options)?;
    }
    let (refused, published) = schemas::publish(&host)?;
    println!(
        "\nof {} schemas made to be slow, {} were refused when they were published: {}",
        schemas::COUNT,
        refused.len(),
        refused.join(", ")
    );
    for (what, requests) in published {
        measure_during(&host, VICTIM, &format!("calls of a tool with {what}"), Arc::new(Attack::Asks(requests, PACE)), options)?;
    }
    host.stop()?;
    lock_out(options)
}

/// Measures how long the right admin token is refused after many wrong bearer tokens from the same
/// address.
fn lock_out(options: &Options) -> Result<(), Failure> {
    const WRONG: usize = 3_700;
    let data = tempfile::tempdir()?;
    let host = Host::start(options, data.path(), &[])?;
    let wrong = Request::get("/ai/builders/me").with("authorization", "Bearer x");
    let right = Request::get("/ai/admin/builders").with("x-admin-token", ADMIN_TOKEN);
    let started = Instant::now();
    let (mut client, mut met) = (Client::connect(host.address())?, Met::new());
    for _ in 0..WRONG {
        // The host closes a connection after many refusals.
        match client.ask(&wrong) {
            Ok(status) => *met.entry(status).or_default() += 1,
            Err(_) => client = Client::connect(host.address())?,
        }
    }
    let elapsed = started.elapsed();
    client = Client::connect(host.address())?;
    let status = client.ask(&right)?;
    let wait = client.header("retry-after").unwrap_or("0");
    println!(
        "\n{WRONG} wrong bearer tokens in {elapsed:.1?}, answered {met:?}: the right admin token is answered {status}, retry-after {wait} s"
    );
    host.stop()
}

/// Writes tools with fixed answers, each with its own texts.
pub(crate) fn write_tools(folder: &Path, count: usize) -> Result<(), Failure> {
    let verbs = ["convert", "count", "find", "sort", "check", "translate", "shorten", "rank", "price", "plan"];
    let objects = ["invoices", "images", "flights", "recipes", "contracts", "songs", "graphs", "addresses", "tickets", "meters"];
    for n in 0..count {
        let (verb, object) = (verbs[n % verbs.len()], objects[n / verbs.len() % objects.len()]);
        let tool = json!({
            "slug": format!("{verb}-{object}-{n:05}"),
            "title": format!("{verb} {object}, number {n}"),
            "description": format!("Takes {object} and will {verb} them by rule {n}. Answers a list with what was found, and why."),
            "priceUsd": if n % 2 == 0 { 0.0 } else { 0.01 },
            "handlerType": "static_json",
            "tags": [verb, object, format!("rule-{}", n % 97)],
            "inputSchema": { "type": "object" },
        });
        let position = folder.join(format!("{n:05}"));
        fs::create_dir_all(&position)?;
        fs::write(position.join("tool.json"), tool.to_string())?;
        fs::write(position.join("response.json"), r#"{"found":[]}"#)?;
    }
    let own = json!({ "slug": VICTIM, "title": "Echo", "priceUsd": 0, "handlerType": "receipt_echo", "inputSchema": { "type": "object" } });
    let position = folder.join("victim");
    fs::create_dir_all(&position)?;
    Ok(fs::write(position.join("tool.json"), own.to_string())?)
}

/// Returns calls that keep workers busy for longer than the measurement, for victims that are
/// handlers too.
fn hogs(host: &Host) -> Result<Vec<(String, Attack)>, Failure> {
    const COMPUTES: &str = "export default () => {
        let value = 1;
        for (let turn = 0; turn < 2e8; turn++) value = (value * 31 + turn) % 1000003;
        return { value };
    };";
    const SLEEPS: &str = "export default () => new Promise((done) => setTimeout(() => done({}), 1500));";
    publish(host, JS_VICTIM, "export default () => ({ ok: 1 });")?;
    let calls = |name: &str, source: &str, tools: usize, each: usize| {
        let slugs: Vec<_> = (0..tools).map(|n| format!("{name}-{n}")).collect();
        for slug in &slugs {
            publish(host, slug, source)?;
        }
        let requests = slugs.iter().flat_map(|slug| vec![Request::post(&format!("/tools/{slug}"), INPUT); each]);
        Ok::<_, Failure>(Attack::Calls(requests.collect()))
    };
    Ok(vec![
        ("nothing, the victims being handlers".to_owned(), Attack::Calls(vec![])),
        ("16 calls of a handler that computes".to_owned(), calls("computes-alone", COMPUTES, 1, 16)?),
        ("16 calls of 4 handlers that compute".to_owned(), calls("computes", COMPUTES, 4, 4)?),
        ("64 calls of a handler that computes".to_owned(), calls("computes-much", COMPUTES, 1, 64)?),
        ("320 calls of 8 handlers that sleep".to_owned(), calls("sleeps", SLEEPS, 8, 40)?),
    ])
}

fn publish(host: &Host, slug: &str, source: &str) -> Result<(), Failure> {
    publish_with(host, slug, source, &json!({ "cpuMs": 10_000 }))
}

fn attacks(host: &Host) -> Result<Vec<(String, Attack)>, Failure> {
    let list = |query: &str| mcp::request(&format!("/ai/mcp{query}"), "tools/list", json!({}));
    let names: Vec<_> = (0..4_500).map(|n| format!("{n:013}")).collect();
    let narrowed = list(&format!("?tools={}", names.join(",")));
    let search = |query: &str| {
        mcp::request("/ai/mcp", "tools/call", json!({ "name": "search_tools", "arguments": { "query": query, "limit": 50 } }))
    };
    let words = (0..60).map(|n| ["convert", "rule", "find", "a", "list"][n % 5]).collect::<Vec<_>>().join(" ");
    let change = |n: usize| {
        let body = json!({ "description": format!("Changed {n} times.") });
        Request::patch("/ai/endpoints/count-images-00011", &body.to_string()).with("x-admin-token", ADMIN_TOKEN)
    };
    let slow_body = format!(
        "POST /ai/endpoints/create HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 4194304\r\n\r\n{}",
        host.address(),
        "[".repeat(4 << 20 >> 1)
    );
    let asks = |requests| Attack::Asks(requests, PACE);
    Ok(vec![
        ("nothing".to_owned(), Attack::Asks(vec![], PACE)),
        ("GET /health/live, as a measure".to_owned(), asks(vec![Request::get("/health/live")])),
        ("the list of endpoints".to_owned(), asks(vec![Request::get("/ai/endpoints")])),
        (
            "the same, its longest pages".to_owned(),
            asks(vec![Request::get("/ai/endpoints?limit=200"), Request::get("/ai/endpoints?form=older")]),
        ),
        ("the same, searched".to_owned(), asks(vec![Request::get("/ai/endpoints?limit=200&q=convert%20invoices%20by%20rule")])),
        ("tools/list".to_owned(), asks(vec![list("")])),
        ("tools/list with 63 kB of ?tools=".to_owned(), asks(vec![narrowed])),
        ("search_tools".to_owned(), asks(vec![search("rule"), search("convert invoices"), search(&words[..200])])),
        ("bodies of 256 KiB, many keys or numbers".to_owned(), asks(bodies())),
        ("4 changes a second".to_owned(), Attack::Asks((0..100).map(change).collect(), 4.0)),
        ("60 half-sent bodies of 4 MiB".to_owned(), Attack::Holds(60, slow_body.into_bytes())),
        ("500 half-sent heads".to_owned(), Attack::Holds(500, b"GET /ai/endpoints HTTP/1.1\r\nhost: a\r\nx-slow: ".to_vec())),
        ("500 idle connections".to_owned(), Attack::Holds(500, vec![])),
    ])
}

/// Returns attacks over HTTP/2: frames that belong to no request, and answers that are not read.
fn over_http2() -> Result<Vec<(String, Attack)>, Failure> {
    Ok(vec![
        ("frames to a server that closes, as a measure".to_owned(), Attack::FloodsElsewhere(4, closing_server()?)),
        ("PING ACKs over 1 connection".to_owned(), Attack::Floods(1, Flood::Pongs)),
        ("PING ACKs over 4 connections".to_owned(), Attack::Floods(4, Flood::Pongs)),
        ("SETTINGS over 4 connections".to_owned(), Attack::Floods(4, Flood::Settings)),
        ("long lists that nobody takes".to_owned(), Attack::Hoards(HeldRequest::Get("/ai/endpoints?form=older"))),
    ])
}

/// Starts a server that reads a little and closes. It shows what floods cost on a machine that is both attacker and host.
fn closing_server() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            _ = stream.read(&mut [0; 16 << 10]);
        }
    });
    Ok(address)
}

/// Returns attacks specific to MCP: batches, permanent streams, and calls that outlive their
/// request.
fn over_mcp(host: &Host) -> Result<Vec<(String, Attack)>, Failure> {
    const ANSWERS_MUCH: &str = "export default async () => {
        await new Promise((done) => setTimeout(done, 50));
        return { text: 'x'.repeat(520_000) };
    };";
    publish_with(host, "answers-much", ANSWERS_MUCH, &json!({ "wallMs": 20_000, "outputBytes": 1 << 20 }))?;
    let change = |n: usize| {
        let body = json!({ "description": format!("Changed {n} times since.") });
        Request::patch("/ai/endpoints/count-images-00011", &body.to_string()).with("x-admin-token", ADMIN_TOKEN)
    };
    let changes = Arc::new(Attack::Asks((0..100).map(change).collect(), 4.0));
    let listen = Arc::new(Attack::Holds(1_000, mcp::listen_request().bytes(host.address())));
    Ok(vec![
        ("batches of 20 tools/list, 45 a second".to_owned(), Attack::Asks(vec![mcp::batch_request(20)], 45.0)),
        ("1,000 streams that listen, 4 changes a second".to_owned(), Attack::Together(vec![listen, changes])),
        ("free tasks that answer 520 kB".to_owned(), Attack::Asks(vec![mcp::task_request("answers-much")], PACE)),
    ])
}

/// Returns inputs of the maximum size that are slow to parse, sort and serialize.
fn bodies() -> Vec<Request> {
    const BYTES: usize = 256 << 10;
    let keys: Vec<_> = (0..BYTES / 14).map(|n| format!("\"{:08x}\":0", n.wrapping_mul(2_654_435_761) as u32)).collect();
    let numbers = vec!["1.7976931348623157e308"; BYTES / 24];
    let empty = "[],".repeat(BYTES / 3 - 1);
    let bodies = [format!("{{{}}}", keys.join(",")), format!("[{}]", numbers.join(",")), format!("[{empty}[]]")];
    bodies.iter().map(|body| Request::post(&format!("/tools/{VICTIM}"), &format!("{{\"a\":{body}}}"))).collect()
}

/// Measures the victims with and without the attack, in turns of one second, and prints a line.
fn measure_during(host: &Host, victim: &str, what: &str, attack: Arc<Attack>, options: &Options) -> Result<(), Failure> {
    if !options.only.is_empty() && !options.only.iter().any(|part| what.contains(part)) {
        return Ok(());
    }
    let (mut alone, mut attacked) = (VictimTotals::default(), VictimTotals::default());
    let (mut met, mut max) = (Met::new(), 0);
    let span = if options.short { SHORT_SPAN } else { SPAN };
    for turn in 0..=(if options.short { 1 } else { options.seconds }) {
        let quiet = look(host);
        let figures = victims(host, victim, span)?;
        alone.add(turn, figures, quiet.ended());
        let attackers = Attackers::begin(host.address(), &attack);
        let alongside = look(host);
        let figures = victims(host, victim, span).map_err(|reason| format!("{what}: a victim was not served: {reason}"))?;
        max = max.max(host.memory_mb()?);
        attacked.add(turn, figures, alongside.ended());
        for (status, count) in attackers.end() {
            *met.entry(status).or_default() += count;
        }
    }
    let (alone, attacked) = (alone.figures(), attacked.figures());
    let millis = |figures: &Figures| figures.quantile(0.99).as_secs_f64() * 1e3;
    let has_effect = !matches!(*attack, Attack::Asks(ref requests, _) | Attack::Calls(ref requests) if requests.is_empty());
    if options.short && has_effect && met.values().sum::<usize>() == 0 {
        return Err(format!("{what}: the attack did nothing").into());
    }
    let aims = [(millis(&attacked.0) < MAX_SLOWER * millis(&alone.0), "p99"), (max < MAX_MB, "MB")];
    let missed: Vec<_> = aims.iter().filter(|(is_met, _)| !is_met).map(|(_, aim)| *aim).collect();
    let verdict = if missed.is_empty() { "passed".to_owned() } else { format!("not passed: {}", missed.join(", ")) };
    println!(
        "{what:<44}{:>6.0} → {:>6.0} {:>4.2}{:>7.1} → {:>6.1} ms{:>7.1} → {:>5.1} ms{max:>8}  {verdict:<19} {met:?}",
        alone.0.per_second(),
        attacked.0.per_second(),
        attacked.0.per_second() / alone.0.per_second(),
        millis(&alone.0),
        millis(&attacked.0),
        millis(&alone.1),
        millis(&attacked.1),
    );
    Ok(())
}

/// Durations of the victims' calls and the health requests in all turns except the first.
#[derive(Default)]
struct VictimTotals {
    calls: Vec<Duration>,
    looks: Vec<Duration>,
    span: Duration,
}

impl VictimTotals {
    fn add(&mut self, turn: u64, (calls, span): (Vec<Duration>, Duration), looks: Vec<Duration>) {
        if turn > 0 {
            self.calls.extend(calls);
            self.looks.extend(looks);
            self.span += span;
        }
    }

    fn figures(self) -> (Figures, Figures) {
        (Figures::of(self.calls, self.span), Figures::of(self.looks, self.span))
    }
}

/// Lets the victims call for `span`.
fn victims(host: &Host, victim: &str, span: Duration) -> Result<(Vec<Duration>, Duration), Failure> {
    let over_http = Request::post(&format!("/tools/{victim}"), INPUT);
    let requests: Vec<_> =
        (0..VICTIMS).map(|n| if n % 2 == 0 { over_http.clone() } else { mcp::legacy_request("/ai/mcp", victim) }).collect();
    let address = host.address();
    let figures = match victim {
        JS_VICTIM => load::run_paced(address, &requests, JS_PACE, span),
        _ => load::run_each(address, &requests, span),
    };
    figures.map(Figures::into_parts)
}

/// Requests `/health/live` until it is ended.
struct HealthProbe {
    ending: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<Duration>>,
}

fn look(host: &Host) -> HealthProbe {
    let (ending, address) = (Arc::new(AtomicBool::new(false)), host.address());
    let end = Arc::clone(&ending);
    let thread = thread::spawn(move || {
        let (mut taken, mut client) = (vec![], None);
        while !end.load(Ordering::Relaxed) {
            let started = Instant::now();
            let live = client.take().map_or_else(|| Client::connect(address), Ok);
            client = live.and_then(|mut live| live.expect_ok(&Request::get("/health/live")).map(|()| live)).ok();
            // Without an answer, the waiting time counts.
            taken.push(started.elapsed());
            thread::sleep(Duration::from_secs_f64(1.0 / LOOKS));
        }
        taken
    });
    HealthProbe { ending, thread }
}

impl HealthProbe {
    fn ended(self) -> Vec<Duration> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// A running attack.
struct Attackers {
    ending: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Met>>,
}

impl Attackers {
    fn begin(address: SocketAddr, attack: &Arc<Attack>) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let threads = Self::threads(address, attack, &ending);
        Self { ending, threads }
    }

    fn threads(address: SocketAddr, attack: &Arc<Attack>, ending: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<Met>> {
        match **attack {
            Attack::Asks(ref requests, _) if requests.is_empty() => vec![],
            Attack::Asks(_, pace) => (0..ATTACKERS)
                .map(|n| {
                    let (ending, attack) = (Arc::clone(ending), Arc::clone(attack));
                    thread::spawn(move || ask(address, &attack, n, pace, &ending))
                })
                .collect(),
            Attack::Calls(ref requests) => {
                let calls = requests.iter().cloned();
                calls.map(|request| thread::spawn(move || Met::from([(call_once(address, &request), 1)]))).collect()
            }
            Attack::Holds(..) => {
                let (ending, attack) = (Arc::clone(ending), Arc::clone(attack));
                vec![thread::spawn(move || hold(address, &attack, &ending))]
            }
            Attack::Floods(count, kind) => (0..count)
                .map(|_| {
                    let ending = Arc::clone(ending);
                    thread::spawn(move || met(http2::flood(address, kind, &ending)))
                })
                .collect(),
            Attack::FloodsElsewhere(count, server) => Self::threads(server, &Arc::new(Attack::Floods(count, Flood::Unknown)), ending),
            Attack::Hoards(ref query) => {
                let (ending, query) = (Arc::clone(ending), query.clone());
                vec![thread::spawn(move || met(http2::hoard(address, &query, PACE, &ending)))]
            }
            Attack::Moves(ref request, pace) => {
                let (ending, request) = (Arc::clone(ending), request.clone());
                vec![thread::spawn(move || bounded::moves(address, &request, pace, &ending))]
            }
            Attack::Together(ref attacks) => attacks.iter().flat_map(|attack| Self::threads(address, attack, ending)).collect(),
        }
    }

    fn end(self) -> Met {
        self.ending.store(true, Ordering::Relaxed);
        let mut met = Met::new();
        for thread in self.threads {
            for (status, count) in thread.join().unwrap_or_default() {
                *met.entry(status).or_default() += count;
            }
        }
        met
    }
}

/// Returns sent items as 200, and connections that the host closed as 0.
fn met(sent: http2::Sent) -> Met {
    Met::from([(200, sent.items), (0, sent.closed)])
}

/// Runs one connection's share of an attack, in time with the others.
fn ask(address: SocketAddr, attack: &Attack, number: usize, pace: f64, ending: &AtomicBool) -> Met {
    let Attack::Asks(requests, _) = attack else { return Met::new() };
    let (started, mut met, mut client) = (Instant::now(), Met::new(), None);
    for turn in (number..).step_by(ATTACKERS) {
        let due = Duration::from_secs_f64(turn as f64 / pace);
        while started.elapsed() < due && !ending.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_sub(started.elapsed()).min(Duration::from_millis(20)));
        }
        if ending.load(Ordering::Relaxed) {
            break;
        }
        let connected = client.take().map_or_else(|| Client::from_elsewhere(address, TIMEOUT), Ok);
        let status =
            match connected.and_then(|mut connected| connected.ask(&requests[turn % requests.len()]).map(|status| (status, connected))) {
                Ok((status, connected)) => {
                    client = Some(connected);
                    status
                }
                Err(_) => 0,
            };
        *met.entry(status).or_default() += 1;
    }
    met
}

/// Makes one call to its end. Returns the status of its answer, or 0 if there was none.
fn call_once(address: SocketAddr, request: &Request) -> u16 {
    Client::from_elsewhere(address, LONG_TIMEOUT).and_then(|mut client| client.ask(request)).unwrap_or(0)
}

/// Holds connections with a request that never ends.
fn hold(address: SocketAddr, attack: &Attack, ending: &AtomicBool) -> Met {
    let Attack::Holds(count, bytes) = attack else { return Met::new() };
    let held: Vec<_> = (0..*count)
        .filter_map(|_| {
            let mut stream = socket_from_elsewhere(address).ok()?;
            stream.set_write_timeout(Some(Duration::from_millis(100))).ok()?;
            _ = stream.write_all(bytes);
            Some(stream)
        })
        .collect();
    while !ending.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
    Met::from([(0, held.len())])
}
