//! A change that one host has answered is effective on the others, for new calls and for the next
//! op of running calls. Also measures the time until the answer, including the case that a host is
//! frozen.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::get};
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::{ASKED, Cluster, TAKEN_UP_WITHIN, percentile};
use crate::harness::{Answer, Host, eventually, js, rounds_requested};

/// Number of times that each host makes all changes and reverts them; the second value is for the
/// long form, which [`ASKED`] selects.
const TURNS: [usize; 2] = [1, 34];
/// Number of times that a host is frozen.
const STOPS: [usize; 2] = [1, 20];
/// Maximum time for 99 of 100 changes. Checked in the long form only, on an otherwise idle machine.
const ANSWERED_WITHIN: Duration = Duration::from_millis(250);
/// Maximum time for any change while a host is frozen.
const WAITS_AT_MOST: Duration = Duration::from_secs(3);
/// Number of calls of each kind that wait in the listen queue of a frozen host. They are the first
/// that it sees when it continues.
const WAITING: usize = 5;

/// Length of the secret before its first change.
const LENGTH: usize = 8;

/// Makes an op, waits, and makes it again.
const READS: &str = "export default async ({ input }, ctx) => {
    const read = () => ctx.kv.get('a').then(() => 'done', (error) => error.code);
    const first = await read();
    if (input.gate) await ctx.httpGetJson(input.gate).catch(() => null);
    return { first, then: await read(), key: ctx.env.KEY?.length ?? 0 };
};";

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The granted capabilities of a tool, by an admin.
    Grant,
    /// The status of a tool, by its builder.
    Status,
    /// The decision about a tool, by an admin.
    Review,
    /// A secret of a tool.
    Secret,
    /// The key of a builder.
    Key,
}

/// A builder and a tool, with one kind of change that is made again and again.
struct Subject {
    kind: Kind,
    slug: &'static str,
    key: String,
    /// The previous key.
    old: String,
    changes: usize,
}

impl Subject {
    async fn all(host: &Host) -> Vec<Self> {
        let kinds = [
            (Kind::Grant, "granted"),
            (Kind::Status, "switched"),
            (Kind::Review, "reviewed"),
            (Kind::Secret, "sealed"),
            (Kind::Key, "keyed"),
        ];
        join_all(kinds.map(|(kind, slug)| Self::new(kind, slug, host))).await
    }

    async fn new(kind: Kind, slug: &'static str, host: &Host) -> Self {
        let (_, key) = host.register(slug).await;
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js(slug, 0.0, READS)).await.is(200);
        let all = json!({ "kv": true, "logs": true, "httpGetJson": true });
        host.change(slug, &json!({ "capabilities": all, "allowedHosts": ["127.0.0.1"], "limits": { "wallMs": 60_000 } })).await;
        Self { kind, slug, old: key.clone(), key, changes: 0 }
    }

    /// Returns whether the last change removed something that the next one restores.
    fn is_taken(&self) -> bool {
        !self.changes.is_multiple_of(2)
    }

    /// Returns whether running calls notice the change.
    fn reaches_what_runs(&self) -> bool {
        matches!(self.kind, Kind::Grant | Kind::Review)
    }

    /// Makes the next change on a host. Returns its name, and the time until the answer.
    async fn change(&mut self, host: &Host) -> (&'static str, Duration) {
        self.changes += 1;
        let at = format!("/ai/endpoints/{}", self.slug);
        // An approval must name the revision that it is about.
        let revision = match self.kind {
            Kind::Grant => host.manage(Method::GET, &at, &Value::Null).await.is(200).json()["endpoint"]["revision"].as_u64(),
            Kind::Status | Kind::Review | Kind::Secret | Kind::Key => None,
        };
        let if_match = revision.map_or("*".to_owned(), |revision| format!("\"{revision}\""));
        let judge = |verdict: Value| {
            let query = host.request(Method::POST, &format!("/ai/admin/reviews/{}", self.slug)).header("if-match", &if_match);
            query.header("x-admin-token", &host.admin).json(&verdict)
        };
        let own = |method: Method, path: &str, body: &Value| host.request(method, path).header("x-builder-key", &self.key).json(body);
        let (name, request) = match (self.kind, self.is_taken()) {
            (Kind::Grant, true) => ("revoke", judge(json!({ "decision": "revoke", "capabilities": { "kv": true } }))),
            (Kind::Grant, false) => ("give back", judge(json!({ "decision": "approve", "capabilities": { "kv": true } }))),
            (Kind::Status, true) => ("pause", own(Method::PATCH, &at, &json!({ "status": "paused" }))),
            (Kind::Status, false) => ("resume", own(Method::PATCH, &at, &json!({ "status": "active" }))),
            (Kind::Review, true) => ("take down", judge(json!({ "decision": "takedown" }))),
            (Kind::Review, false) => ("restore", judge(json!({ "decision": "restore" }))),
            (Kind::Secret, _) => {
                let secret = json!({ "name": "KEY", "value": "k".repeat(LENGTH + self.changes) });
                ("change a secret", own(Method::POST, &format!("{at}/secrets"), &secret))
            }
            (Kind::Key, _) => ("rotate a key", own(Method::POST, "/ai/builders/keys", &Value::Null)),
        };
        let started = Instant::now();
        let answer = Answer::read(request.send().await.unwrap()).await.unwrap();
        let elapsed = started.elapsed();
        let answer = answer.is(200).json();
        if self.kind == Kind::Key {
            let next = answer["builderKey"].as_str().unwrap().to_owned();
            self.old = std::mem::replace(&mut self.key, next);
        }
        (name, elapsed)
    }

    /// Returns the state that hosts must show now.
    fn expected(&self) -> String {
        match (self.kind, self.is_taken()) {
            (Kind::Grant, true) => "not_granted".to_owned(),
            (Kind::Status | Kind::Review, true) => "endpoint_paused".to_owned(),
            (Kind::Grant | Kind::Status | Kind::Review, false) => "done".to_owned(),
            (Kind::Secret, _) => (LENGTH + self.changes).to_string(),
            (Kind::Key, _) => "unauthorized".to_owned(),
        }
    }

    /// Returns a request that shows the state: a call of the tool, or one that needs the key.
    fn asks(&self, host: &Host, key: &str) -> RequestBuilder {
        match self.kind {
            Kind::Key => host.request(Method::GET, "/ai/builders/me").header("x-builder-key", key),
            _ => host.request(Method::POST, &format!("/tools/{}", self.slug)).json(&json!({})),
        }
    }

    /// Returns the state that an answer shows.
    fn value_in(&self, answer: &Answer) -> String {
        let body = answer.json();
        match self.kind {
            _ if answer.status != 200 => body["error"]["code"].as_str().unwrap().to_owned(),
            Kind::Secret => body["key"].to_string(),
            Kind::Key => "opened".to_owned(),
            Kind::Grant | Kind::Status | Kind::Review => body["then"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns the state on a host. For a rotated key, also checks that the new one works.
    async fn at(&self, host: &Host) -> String {
        if self.kind == Kind::Key {
            host.send(self.asks(host, &self.key)).await.is(200);
        }
        self.value_in(&host.send(self.asks(host, &self.old)).await)
    }

    /// Starts calls on these hosts. They have made their first op, and wait for the gate before the
    /// second.
    async fn running(&self, gate: &Gate, hosts: &[&Host]) -> Vec<JoinHandle<Answer>> {
        let before = gate.requested.load(Ordering::SeqCst);
        let started = hosts.iter().map(|host| {
            let call = host.request(Method::POST, &format!("/tools/{}", self.slug)).json(&json!({ "gate": gate.url }));
            tokio::spawn(async move { Host::try_send(call).await.unwrap() })
        });
        let started: Vec<_> = started.collect();
        let all = before + hosts.len();
        eventually("calls wait", TAKEN_UP_WITHIN, async || (gate.requested.load(Ordering::SeqCst) == all).then_some(())).await;
        started
    }
}

/// A server that answers only after it is opened.
struct Gate {
    address: String,
    url: String,
    requested: Arc<AtomicUsize>,
    /// Number of requests to answer.
    open: watch::Sender<usize>,
}

impl Gate {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (request, open) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(0));
        let (counted, opened) = (Arc::clone(&request), open.subscribe());
        let waits = get(move || {
            let (number, mut opened) = (counted.fetch_add(1, Ordering::SeqCst), opened.clone());
            async move {
                opened.wait_for(|open| number < *open).await.unwrap();
                Json(1)
            }
        });
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", waits)).await });
        Self { url: format!("http://{address}/"), address, requested: request, open }
    }

    /// Answers the requests so far.
    fn open(&self) {
        self.open.send_replace(self.requested.load(Ordering::SeqCst));
    }

    /// Starts hosts of one database whose tools may call this server.
    async fn cluster(&self, hosts: usize) -> Cluster {
        Cluster::of(Host::builder().flag("--guard-allow", &self.address).env("TOLLHOUSE_AUTH_FAILURES", 0), hosts).await
    }
}

/// The durations of changes, by name.
#[derive(Default)]
struct ChangeTimes(BTreeMap<&'static str, Vec<Duration>>);

impl ChangeTimes {
    fn add(&mut self, (name, elapsed): (&'static str, Duration)) {
        self.0.entry(name).or_default().push(elapsed);
    }

    /// Prints the durations of each kind of change. Returns this percentile of the slowest kind.
    fn print(&self, of: usize) -> Duration {
        let slowest = self.0.iter().map(|(name, elapsed)| {
            let [half, max] = [50, of].map(|of| percentile(elapsed.iter().copied(), of));
            println!("{name}: {} times, answered after {half:?} (p50), {max:?} (p{of})", elapsed.len());
            max
        });
        slowest.max().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answered_change_holds_at_all_hosts_and_for_running_calls() {
    let is_long = rounds_requested(ASKED).is_some();
    let gate = Gate::start().await;
    let cluster = gate.cluster(3).await;
    let mut subjects = Subject::all(&cluster.hosts[0]).await;
    let mut elapsed = ChangeTimes::default();
    for _ in 0..TURNS[usize::from(is_long)] {
        for (host, alongside) in cluster.each() {
            let alongside: Vec<_> = alongside.collect();
            for subject in &mut subjects {
                let running = if subject.reaches_what_runs() { subject.running(&gate, &alongside).await } else { vec![] };
                elapsed.add(subject.change(host).await);
                gate.open();
                hold_at(subject, &alongside).await;
                for answer in join_all(running).await {
                    let body = answer.unwrap().is(200).json();
                    assert_eq!((&body["first"], &body["then"]), (&json!("done"), &json!("not_granted")), "{:?}", subject.kind);
                }
                elapsed.add(subject.change(host).await);
                hold_at(subject, &alongside).await;
            }
        }
    }
    let slowest = elapsed.print(99);
    assert!(!is_long || slowest < ANSWERED_WITHIN, "one in a hundred took {slowest:?}");
}

/// Checks that each of these hosts uses the last change.
async fn hold_at(subject: &Subject, hosts: &[&Host]) {
    let answer = join_all(hosts.iter().map(|host| subject.at(host))).await;
    assert!(answer.iter().all(|answer| *answer == subject.expected()), "{:?}, change {}: {answer:?}", subject.kind, subject.changes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_skips_a_stalled_host_which_serves_nothing_stale_later() {
    let is_long = rounds_requested(ASKED).is_some();
    let gate = Gate::start().await;
    let cluster = gate.cluster(3).await;
    let [host, other, still] = &cluster.hosts[..] else { unreachable!("there are three") };
    let mut subjects = Subject::all(host).await;
    let (mut elapsed, mut fenced) = (ChangeTimes::default(), 0);
    for _ in 0..STOPS[usize::from(is_long)] {
        let mut running = Vec::new();
        for subject in subjects.iter().filter(|subject| subject.reaches_what_runs()) {
            running.extend(subject.running(&gate, &[still]).await);
        }
        still.freeze();
        let waiting = subjects.iter().map(|subject| {
            let asks = (0..WAITING).map(|_| subject.asks(still, &subject.key));
            asks.map(|asks| tokio::spawn(Host::try_send(asks))).collect::<Vec<_>>()
        });
        let waiting: Vec<_> = waiting.collect();
        for changed in join_all(subjects.iter_mut().map(|subject| subject.change(host))).await {
            elapsed.add(changed);
        }
        for subject in &subjects {
            hold_at(subject, &[other]).await;
        }
        gate.open();
        still.wake();
        for (subject, waiting) in subjects.iter().zip(waiting) {
            for answer in join_all(waiting).await {
                let reported = subject.value_in(&answer.unwrap().unwrap());
                fenced += usize::from(reported == "store_unavailable");
                assert!([&*subject.expected(), "store_unavailable"].contains(&&*reported), "{:?} is of before: {reported}", subject.kind);
            }
        }
        for answer in join_all(running).await {
            let answer = answer.unwrap();
            assert!(answer.status != 200 || answer.json()["then"] != "done", "its running work succeeded: {answer:?}");
        }
        // Wait until the host accepts calls again and knows the last change.
        eventually("it has the change", TAKEN_UP_WITHIN, async || (subjects[0].at(still).await == subjects[0].expected()).then_some(()))
            .await;
        for subject in &mut subjects {
            subject.change(host).await;
            hold_at(subject, &[other, still]).await;
        }
    }
    println!("{fenced} calls were refused by the host that had stood still");
    let slowest = elapsed.print(100);
    assert!(!is_long || slowest <= WAITS_AT_MOST, "a change took {slowest:?}");
}
