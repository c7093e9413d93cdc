//! Runs every `fixtures/hostile/*/cases.jsonc` on one host, and meanwhile checks that a harmless
//! tool answers correctly.
//!
//! A new case needs no Rust. The expected result of a case is compared with the actual one: code,
//! fault, the answer of the harmless tool, and that nothing was charged. At the end the host must
//! use as much as before: memory within a bound, no additional process and no additional
//! descriptor.

mod control;
mod server;

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tollhouse_protocol::Limits;

use self::control::Control;
use crate::{
    fixtures::{draft, folders, jsonc, wrong},
    harness::{Answer, Host, eventually},
    revenue::tool,
    shares,
};

/// If set, the number of runs of all fixtures, one after the other, each within its limit plus
/// [`GRACE`].
const ROUNDS: &str = "TOLLHOUSE_HOSTILE_ROUNDS";

/// If set, the sandbox tier.
const TIER: &str = "TOLLHOUSE_HOSTILE_TIER";

/// Number of concurrent folders when times are not checked. Many of them wait for a limit.
const LANES: usize = 2;

/// Number of spare workers, which exist before and after.
const SPARES: usize = 2;

/// Maximum time by which a call may end after its limit, on an otherwise idle machine.
const GRACE: Duration = Duration::from_millis(500);

/// The same on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Wall time limit for fixtures that set none, when times are not checked. It is long, so that
/// other limits end them.
const WALL_MS: u64 = 60_000;

/// Maximum memory of the host beyond its initial memory: the bytes in flight, and the host's own
/// data. Memory of workers does not count.
const RESIDENT: u64 = 320 << 20;

/// Price of each fixture, so that charges can be checked.
const PRICE_USD: f64 = 0.01;
const PRICE_MICROS: u64 = 10_000;

/// The environment of all fixtures.
struct Scene {
    host: Host,
    /// The address that replaces `{{server}}` in fixtures.
    server: String,
    control: Control,
    strict: bool,
    ran: AtomicU64,
    /// The longest time by which a case exceeded its limit, and the name of that case.
    latest: Mutex<(Duration, String)>,
    failures: Mutex<Vec<String>>,
}

/// A running fixture.
struct Fixture<'a> {
    name: String,
    draft: &'a Value,
    created: Answer,
    creating: Duration,
    /// Makes its calls.
    client: Client,
    credit: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_handlers_end_as_their_cases_say() {
    #[expect(clippy::disallowed_methods, reason = "how the long form asks for more")]
    let [rounds, tier] = [ROUNDS, TIER].map(|name| std::env::var(name).ok());
    let rounds = rounds.map(|rounds| rounds.parse::<usize>().unwrap());
    let server = server::start().await;
    // Other tests cover the share of one address. Here each attack may use everything.
    let how = tier.iter().fold(Host::builder(), |how, tier| how.flag("--sandbox-tier", tier));
    let how = how.flag("--guard-allow", &server).flag("--address-cpu-percent", 0).flag("--sandbox-spares", SPARES).flag("--log", "warn");
    let host = how.start().await;
    let control = Control::publish(&host).await;
    let fixture = Scene {
        host,
        server,
        control,
        strict: rounds.is_some(),
        ran: AtomicU64::default(),
        latest: Mutex::default(),
        failures: Mutex::default(),
    };
    fixture.control.answers(&fixture.host).await;
    // A tier in use keeps spares and a zygote. `WebAssembly` has a tier of its own.
    fixture.host.publish(&uses_wasm()).await;
    fixture.host.call("uses-wasm", &json!({})).await.is(200);
    let tiers = if tier.as_deref() == Some("jitless") { 1 } else { 2 };
    eventually("the spares of each tier are ready", TIMEOUT, async || {
        (fixture.host.get("/health").await.json()["sandbox"]["spares"] == tiers * SPARES).then_some(())
    })
    .await;
    let before = HeldResources::by(&fixture.host);
    let peak = AtomicU64::default();
    for _ in 0..rounds.unwrap_or(1) {
        tokio::select! {
            () = fixture.run_all() => {}
            () = watch(&fixture.host, &peak) => unreachable!("it goes on"),
        }
    }
    let (failures, latest) = (fixture.failures.into_inner().unwrap(), fixture.latest.into_inner().unwrap());
    let ran = fixture.ran.into_inner();
    println!("{} ms beyond its limit took {} at most", latest.0.as_millis(), latest.1);
    assert!(failures.is_empty(), "{} of {ran} cases:\n{}", failures.len(), failures.join("\n"));
    let max = peak.into_inner();
    let memory = format!("the host held {} MiB before, {} at most", before.resident >> 20, max >> 20);
    println!("{ran} cases, {} answers of the control; {memory}", fixture.control.asked());
    assert!(max < before.resident + RESIDENT, "{memory}");
    let host = fixture.host;
    // A used worker ends after a minute without work.
    eventually("no process and no descriptor is left", Duration::from_secs(180), async || {
        let now = HeldResources::by(&host);
        (now.processes <= before.processes && now.descriptors <= before.descriptors + 2).then_some(())
    })
    .await;
}

/// Returns a free tool with `WebAssembly`, if the engine has it.
fn uses_wasm() -> Value {
    let mut tool = tool("uses-wasm", 0.0, "export default () => typeof WebAssembly;");
    tool["capabilities"] = json!({ "wasm": true });
    tool
}

/// The resources that a host uses.
struct HeldResources {
    resident: u64,
    processes: usize,
    descriptors: usize,
}

impl HeldResources {
    fn by(host: &Host) -> Self {
        Self { resident: host.resident(), processes: host.descendants().len(), descriptors: host.descriptors() }
    }
}

/// Measures the host's memory in an endless loop.
async fn watch(host: &Host, peak: &AtomicU64) {
    loop {
        peak.fetch_max(host.resident(), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Scene {
    async fn run_all(&self) {
        let lanes = if self.strict { 1 } else { LANES };
        let remaining = Mutex::new(folders("hostile").into_iter());
        let next = || remaining.lock().unwrap().next();
        join_all((0..lanes).map(async |lane| {
            let client = shares::at(u8::try_from(2 + lane).unwrap());
            while let Some(folder) = next() {
                self.run(&folder, client.clone()).await;
            }
        }))
        .await;
    }

    /// Publishes the tool in a folder, calls it according to its cases, and deletes it.
    async fn run(&self, folder: &Path, client: Client) {
        let mut draft = self.filled(draft(folder));
        draft["priceUsd"] = json!(PRICE_USD);
        if !self.strict && draft["limits"]["wallMs"].is_null() {
            draft["limits"]["wallMs"] = json!(WALL_MS);
        }
        let (created, creating) = self.publish(&draft).await;
        let slug = draft["slug"].as_str().unwrap();
        self.keep_secrets(folder, slug).await;
        let (name, credit) = (folder.file_name().unwrap().to_string_lossy().into_owned(), self.host.mint(1.0).await);
        let fixture = Fixture { name, draft: &draft, created, creating, client, credit };
        for case in self.filled(jsonc(&folder.join("cases.jsonc"))).as_array().unwrap() {
            let answer = fixture.meets(case, self).await;
            self.ran.fetch_add(1, Ordering::Relaxed);
            self.failures.lock().unwrap().extend(answer);
            self.control.answers(&self.host).await;
        }
        self.host.manage(Method::DELETE, &format!("/ai/endpoints/{slug}"), &json!({})).await;
    }

    /// Returns the result of the publication and its duration. If the owner must wait, because
    /// loading was stopped too often, tries again.
    async fn publish(&self, draft: &Value) -> (Answer, Duration) {
        loop {
            let started = Instant::now();
            let created = self.host.manage(Method::POST, "/ai/endpoints/create", draft).await;
            let creating = started.elapsed();
            match created.header("retry-after").filter(|_| created.status == 503) {
                Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds.parse().unwrap())).await,
                None => return (created, creating),
            }
        }
    }

    /// Sets the secrets in `secrets.json`, if it exists.
    async fn keep_secrets(&self, folder: &Path, slug: &str) {
        let file = folder.join("secrets.json");
        let secrets = if file.is_file() { self.filled(jsonc(&file)) } else { json!({}) };
        for (name, value) in secrets.as_object().unwrap() {
            let mut secret = if value.is_object() { value.clone() } else { json!({ "value": value }) };
            secret["name"] = json!(name);
            self.host.manage(Method::POST, &format!("/ai/endpoints/{slug}/secrets"), &secret).await.is(200);
        }
    }

    fn filled(&self, value: Value) -> Value {
        serde_json::from_str(&value.to_string().replace("{{server}}", &self.server)).unwrap()
    }
}

impl Fixture<'_> {
    /// Returns a complaint if a case ended wrongly.
    async fn meets(&self, case: &Value, fixture: &Scene) -> Option<String> {
        if case["breaks"] == true {
            return self.breaks_off(case, &fixture.host).await;
        }
        let before = fixture.host.credit_balance(&self.credit).await;
        let (reply, elapsed) =
            if self.created.status == 200 { self.called(case, &fixture.host).await } else { (self.created.clone(), self.creating) };
        let charged = before - fixture.host.credit_balance(&self.credit).await;
        let wrong = wrong(&patient(case, fixture.strict), &reply)
            .or_else(|| wrongly_charged(&reply, charged))
            .or_else(|| self.is_late(case, elapsed, fixture))?;
        let text: String = String::from_utf8_lossy(&reply.body).chars().take(400).collect();
        Some(format!("{}: {}: {wrong}\n    {} {text}", self.name, case["name"], reply.status))
    }

    async fn called(&self, case: &Value, host: &Host) -> (Answer, Duration) {
        let request = self.request(case, host);
        let started = Instant::now();
        (host.send(request).await, started.elapsed())
    }

    fn request(&self, case: &Value, host: &Host) -> RequestBuilder {
        let text = case["inputText"].as_str().map_or_else(|| case["input"].to_string(), str::to_owned);
        let request = self.client.post(format!("{}/tools/{}", host.url, self.draft["slug"].as_str().unwrap()));
        request.header("x-developer-credit", &self.credit).header("content-type", "application/json").body(text)
    }

    /// Returns a complaint unless the answer begins, is charged before that, and is broken off.
    async fn breaks_off(&self, case: &Value, host: &Host) -> Option<String> {
        let before = host.credit_balance(&self.credit).await;
        let mut answer = self.request(case, host).send().await.unwrap();
        let charged = before - host.credit_balance(&self.credit).await;
        let is_broken = loop {
            match answer.chunk().await {
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let status = answer.status();
        let is_right = status == 200 && is_broken && charged == PRICE_MICROS;
        let complaint = || format!("{}: {}: status {status}, {charged} were taken, broken off: {is_broken}", self.name, case["name"]);
        (!is_right).then(complaint)
    }

    /// Returns a complaint if a case ended later than its limits permit: those of the endpoint, and
    /// its own.
    fn is_late(&self, case: &Value, elapsed: Duration, fixture: &Scene) -> Option<String> {
        let limit = |name: &str, default: u64| Duration::from_millis(self.draft["limits"][name].as_u64().unwrap_or(default));
        let defaults = Limits::default();
        let by_limit = match case.get("error") {
            _ if self.created.status != 200 => limit("loadWallMs", defaults.load_wall_ms),
            // On a busy machine, a call may use its whole wall time before it reaches its processor
            // time.
            Some(error) if fixture.strict && error["code"] == "cpu_time_exceeded" => limit("cpuMs", defaults.cpu_ms),
            _ => limit("wallMs", defaults.wall_ms),
        };
        let own = case["within_ms"].as_u64().map_or(Duration::MAX, Duration::from_millis);
        let mut latest = fixture.latest.lock().unwrap();
        if elapsed.saturating_sub(by_limit) > latest.0 {
            *latest = (elapsed - by_limit, format!("{}: {}", self.name, case["name"]));
        }
        let max = if fixture.strict { own.min(by_limit + GRACE) } else { by_limit + TIMEOUT };
        (elapsed > max).then(|| format!("took {} ms of {}", elapsed.as_millis(), max.as_millis()))
    }
}

/// Returns the case with the results that a busy machine permits: a call that gets little processor
/// time may reach its wall time limit first.
fn patient(case: &Value, strict: bool) -> Value {
    let mut case = case.clone();
    let (cpu, wall) = (json!("cpu_time_exceeded"), json!("wall_time_exceeded"));
    let Some(code) = case.pointer_mut("/error/code").filter(|_| !strict) else { return case };
    let codes = code.as_array().cloned().unwrap_or_else(|| vec![code.clone()]);
    if codes.contains(&cpu) {
        *code = json!([codes, vec![wall]].concat());
    }
    case
}

/// Returns a complaint if the wrong amount was charged. A success costs the price, everything else
/// nothing.
fn wrongly_charged(reply: &Answer, charged: u64) -> Option<String> {
    let due = if (200..300).contains(&reply.status) { PRICE_MICROS } else { 0 };
    if charged != due {
        return Some(format!("{charged} were taken and {due} were due"));
    }
    (due == 0 && reply.header("x-receipt-id").is_some()).then(|| "there is a receipt of what nobody paid for".to_owned())
}
