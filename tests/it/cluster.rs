//! Hosts that share a database act as one host. An answered change is effective on all of them. A
//! payment buys one run on all of them together. Any of them, or the database, may be killed or
//! frozen.

mod changes;
mod deletions;
mod held;
mod objects;
mod rolling;
mod rounds;
mod standby;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{
    Answer, Facilitator, Host, HostBuilder, Payer, Payment, SettleMode, balancer::Balancer, eventually, js, micros, postgres::Postgres,
    rounds_requested, tollhouse,
};

/// Price of a call, in micro-dollars.
const PRICE: u64 = 1_000;

/// Maximum time until others take over the work of a host: its lease and their next check, on a
/// busy machine.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(60);

/// The variable that selects the long form and the number of kills. `cargo xtask cluster` sets it,
/// on an otherwise idle machine.
const ASKED: &str = "TOLLHOUSE_CLUSTER_ROUNDS";

/// Counts its runs. The first one is slow.
const FIRST_WAITS: &str = "export default async (req, ctx) => {
    const runs = 1 + (await ctx.kv.get('runs') ?? 0);
    await ctx.kv.set('runs', runs);
    if (runs === 1) await new Promise((done) => setTimeout(done, 3_000));
    return { runs };
};";

/// The tool `pay`. Every answer differs, and some are larger than a row can be. It writes a file,
/// and reads one.
const PAY: &str = "export default async ({ input: { n, file, large, read } }, ctx) => {
    if (read) return { text: await ctx.files.readText(read) };
    const id = crypto.randomUUID();
    if (file) await ctx.files.write(file, id);
    return { n, id, text: file ? await ctx.files.readText(file) : large ? id.repeat(2_000) : '' };
};";

/// Number of files that each payer writes with the tool `pay`, again and again. Together the payers
/// write as many as a tool may have.
const FILES: usize = 16;

/// Hosts of one database, which outlives them.
struct Cluster {
    hosts: Vec<Host>,
    server: Postgres,
}

/// An answered payment for the tool `pay`.
struct Paid {
    payment: Payment,
    input: Value,
    answer: Answer,
}

/// Payers that go through a load balancer.
struct Callers {
    owner: String,
    payers: Vec<Payer>,
    /// Initial balance of each, in micro-dollars.
    funds: u64,
    challenge: Value,
    balancer: Balancer,
}

impl Cluster {
    async fn start(count: usize) -> Self {
        Self::of(Host::builder(), count).await
    }

    async fn of(how: HostBuilder, count: usize) -> Self {
        let server = Postgres::start();
        Self::on(&server.url(), how, count, server).await
    }

    /// Starts hosts that reach their database at this address.
    async fn on(url: &str, how: HostBuilder, count: usize, server: Postgres) -> Self {
        let how = how.env("TOLLHOUSE_STORE", url).env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
        let mut hosts = vec![how.start().await];
        while hosts.len() < count {
            hosts.push(hosts[0].second().await);
        }
        Self { hosts, server }
    }

    /// Lets a new builder publish the tool [`pay`](PAY). Returns the builder's key.
    async fn sells(&self) -> String {
        let (_, owner) = self.hosts[0].register("Owner").await;
        self.hosts[0].as_builder(&owner, Method::POST, "/ai/endpoints/create", &js("pay", 0.001, PAY)).await.is(200);
        self.hosts[0].change("pay", &json!({ "capabilities": { "kv": true, "logs": true, "files": true } })).await;
        owner
    }

    /// Starts a load balancer before the hosts. Creates this many payers for the tool `pay`, each
    /// with this balance in micro-dollars.
    async fn behind_a_balancer(&self, payers: usize, funds: u64) -> Callers {
        let owner = self.sells().await;
        let payers = join_all((0..payers).map(|_| Payer::funded(&self.hosts[0], funds as f64 / 1e6))).await;
        let challenge = self.hosts[0].challenge("pay").await;
        let urls: Vec<&str> = self.hosts.iter().map(|host| host.url.as_str()).collect();
        Callers { owner, payers, funds, challenge, balancer: Balancer::start(&urls) }
    }

    /// Checks that every host agrees with the callers about their payments and balances, and that
    /// the tool had this many other payments. Also checks the files that the callers wrote.
    async fn agrees_with(&self, callers: &Callers, paid: &[Vec<&Paid>], others: u64) {
        self.agrees(&callers.owner, &paid.concat(), others).await;
        self.reads(&callers.owner, &paid.concat()).await;
        for host in &self.hosts {
            for (payer, paid) in callers.payers.iter().zip(paid) {
                assert_eq!(host.balance(&payer.address).await, callers.funds - paid.len() as u64 * PRICE);
            }
        }
    }

    /// Checks that every host gives the same answers to these payments, that the builder's revenue
    /// has them and this many others, and that no payment is open.
    async fn agrees(&self, owner: &str, paid: &[&Paid], others: u64) {
        let mut receipts: Vec<_> = paid.iter().map(|paid| paid.answer.receipt_id()).collect();
        receipts.sort_unstable();
        receipts.dedup();
        assert_eq!(receipts.len(), paid.len(), "a receipt for each");
        let large = paid.iter().filter(|paid| paid.input["large"] == true).flat_map(|paid| self.hosts.iter().map(move |host| (host, paid)));
        for (host, Paid { payment, input, answer }) in self.hosts.iter().cycle().zip(paid).chain(large) {
            let again = host.call_paid("pay", input, payment).await.is(200);
            assert_eq!((&again.body, again.receipt_id()), (&answer.body, answer.receipt_id()));
            assert_eq!(host.receipt(&answer.receipt_id()).await["receiptId"], answer.receipt_id());
        }
        let all = paid.len() as u64 + others;
        for host in &self.hosts {
            let revenue = host.as_builder(owner, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json();
            let totals = &revenue["totals"];
            assert_eq!((totals["paidCalls"].as_u64(), micros(&totals["grossUsd"])), (Some(all), all * PRICE));
        }
        self.none_is_open(TAKEN_UP_WITHIN).await;
    }

    /// Checks that every host reads the last acknowledged content of each file. Nobody may write
    /// meanwhile.
    async fn reads(&self, owner: &str, paid: &[&Paid]) {
        let mut files = BTreeMap::new();
        for Paid { input, answer, .. } in paid.iter().filter(|paid| paid.input["file"].is_string()) {
            let answer = answer.json();
            assert_eq!(answer["text"], answer["id"], "it reads its own writes");
            files.insert(input["file"].to_string(), (&input["file"], answer["id"].clone()));
        }
        for host in &self.hosts {
            for (file, id) in files.values() {
                let read = host.as_builder(owner, Method::POST, "/tools/pay", &json!({ "read": file })).await.is(200).json();
                assert_eq!(read["text"], *id, "{file}");
            }
        }
        let large = paid.iter().filter(|paid| paid.input["large"] == true).count();
        println!("{} files and {large} large answers are the same at every host", files.len());
    }

    /// Waits until no host has an open payment. A host that found a payment open on another host
    /// checks it again some seconds later.
    async fn none_is_open(&self, within: Duration) {
        for host in &self.hosts {
            let open = async || (host.get("/health").await.is(200).json()["openSettlements"] == 0).then_some(());
            eventually("no payment is open", within, open).await;
        }
    }

    /// Returns every host with the others.
    fn each(&self) -> impl Iterator<Item = (&Host, impl Iterator<Item = &Host>)> {
        let alongside = |at| self.hosts.iter().enumerate().filter(move |(other, _)| *other != at).map(|(_, host)| host);
        self.hosts.iter().enumerate().map(move |(at, host)| (host, alongside(at)))
    }
}

/// Returns the `n`th input of a payer. Some inputs write a file, and some have a large answer.
fn nth_input(payer: usize, n: usize) -> Value {
    let mut input = json!({ "n": n });
    if n % 8 == 3 {
        input["file"] = json!(format!("{payer}/{}", n / 8 % FILES));
    }
    if n % 32 == 5 {
        input["large"] = json!(true);
    }
    input
}

/// Returns a percentile.
fn percentile(elapsed: impl IntoIterator<Item = Duration>, of: usize) -> Duration {
    let mut elapsed: Vec<_> = elapsed.into_iter().collect();
    elapsed.sort_unstable();
    elapsed.get(elapsed.len().saturating_sub(1) * of / 100).copied().unwrap_or_default()
}

/// Sends a payment in the background. The host may break off the connection.
fn sent(host: &Host, slug: &str, payment: &Payment) -> JoinHandle<reqwest::Result<Answer>> {
    tokio::spawn(Host::try_send(host.paid_request(slug, &json!({}), payment)))
}

/// Waits until a host reports this state for a payment.
async fn stands(host: &Host, payment: &Payment, state: &str) {
    let id = payment.id();
    eventually(&format!("{id} is {state}"), TAKEN_UP_WITHIN, async || {
        host.payment(&id).await.filter(|payment| payment["state"] == state).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_answered_by_one_host_applies_at_all_hosts() {
    let cluster = Cluster::start(3).await;
    cluster.hosts[0].publish(&js("shared", 0.0, "export default () => ({});")).await;
    for (revision, (host, others)) in cluster.each().enumerate() {
        let policy = |host: &Host, revision: usize| {
            let set = host.request(Method::PUT, "/ai/admin/policy").header("x-admin-token", &host.admin);
            set.header("if-match", format!("\"{revision}\"")).json(&json!({ "maxEndpointsPerBuilder": 3 + revision }))
        };
        host.send(policy(host, revision)).await.is(200);
        for other in others {
            other.send(policy(other, revision)).await.is(412);
            assert_eq!(
                other.manage(Method::GET, "/ai/admin/policy", &Value::Null).await.is(200).has("etag"),
                format!("\"{}\"", revision + 1)
            );
        }
    }
    cluster.hosts[0].manage(Method::DELETE, "/ai/endpoints/shared", &Value::Null).await.is(200);
    for other in &cluster.hosts {
        other.call("shared", &json!({})).await.fails(404, "unknown_endpoint", "caller");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_authorization_that_all_hosts_are_shown_at_once_buys_one_run() {
    let rounds = if rounds_requested(ASKED).is_some() { 1_000 } else { 30 };
    let cluster = Cluster::start(3).await;
    let first = &cluster.hosts[0];
    let source = "export default async (req, ctx) => {
        const runs = 1 + (await ctx.kv.get('runs') ?? 0);
        await ctx.kv.set('runs', runs);
        return { runs };
    };";
    first.publish(&js("twins", 0.001, source)).await;
    let payer = Payer::funded(first, 1.0).await;
    let challenge = first.challenge("twins").await;
    for (round, over_mcp) in (1..=rounds).zip(cluster.hosts.iter().cycle()) {
        let (payment, input) = (payer.pay(&challenge), json!({}));
        let http = join_all(cluster.hosts.iter().map(|host| host.call_paid("twins", &input, &payment)));
        let mcp = over_mcp.mcp();
        let mcp = mcp.call("twins", input.clone(), json!({ "x402/payment": payment.payload }));
        let (answers, result) = tokio::join!(http, mcp);
        let listed: Vec<_> = answers.iter().map(|answer| (answer.status, &answer.body, answer.receipt_id())).collect();
        assert_eq!((listed[0].0, answers[0].json()["runs"].as_u64()), (200, Some(round)));
        assert!(listed.iter().all(|one| *one == listed[0]), "{listed:?}");
        let receipt = &result["_meta"]["tollhouse/receipt"]["receiptId"];
        assert_eq!((&result["structuredContent"]["runs"], receipt), (&json!(round), &json!(listed[0].2)), "{result}");
    }
    for host in &cluster.hosts {
        assert_eq!(host.balance(&payer.address).await, 1_000_000 - rounds * PRICE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_of_a_killed_host_are_released_by_the_others() {
    let mut cluster = Cluster::start(2).await;
    cluster.hosts[0].publish(&js("slow", 0.001, FIRST_WAITS)).await;
    let payer = Payer::funded(&cluster.hosts[0], 1.0).await;
    let payment = payer.pay(&cluster.hosts[0].challenge("slow").await);
    let running = sent(&cluster.hosts[0], "slow", &payment);
    stands(&cluster.hosts[1], &payment, "reserved").await;
    cluster.hosts[0].kill9();
    assert!(running.await.unwrap().is_err(), "its connection breaks");
    let remaining = &cluster.hosts[1];
    stands(remaining, &payment, "released").await;
    remaining.call_paid("slow", &json!({}), &payment).await.is(200);
    assert_eq!(remaining.balance(&payer.address).await, 1_000_000 - PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlements_of_a_killed_host_are_resolved_by_the_others() {
    let facilitator = Facilitator::start(SettleMode::Hangs).await;
    let mut cluster = Cluster::of(Host::builder().settled_by(&facilitator.url), 2).await;
    cluster.hosts[0].publish(&js("paid", 0.001, "export default () => ({ at: crypto.randomUUID() });")).await;
    let payment = Payer::new().pay(&cluster.hosts[0].challenge("paid").await);
    let running = sent(&cluster.hosts[0], "paid", &payment);
    eventually("the facilitator is asked", TAKEN_UP_WITHIN, async || (facilitator.asked() > 0).then_some(())).await;
    cluster.hosts[0].kill9();
    assert!(running.await.unwrap().is_err(), "its connection breaks");
    facilitator.set_mode(SettleMode::Well);
    let remaining = &cluster.hosts[1];
    stands(remaining, &payment, "settled").await;
    let answers = [remaining.call_paid("paid", &json!({}), &payment).await, remaining.call_paid("paid", &json!({}), &payment).await];
    assert_eq!(answers[0].clone().is(200).body, answers[1].clone().is(200).body);
    assert_eq!(remaining.payment(&payment.id()).await.unwrap()["receiptId"], answers[0].receipt_id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_host_sells_nothing_from_stale_state() {
    let cluster = Cluster::start(2).await;
    let [awake, still] = &cluster.hosts[..] else { unreachable!("there are two") };
    awake.publish(&js("shared", 0.0, "export default () => ({});")).await;
    awake.publish(&js("slow", 0.001, FIRST_WAITS)).await;
    let payer = Payer::funded(awake, 1.0).await;
    let payment = payer.pay(&awake.challenge("slow").await);
    still.call("shared", &json!({})).await.is(200);
    let running = sent(still, "slow", &payment);
    stands(awake, &payment, "reserved").await;
    still.freeze();
    // These calls wait in the listen queue, and are the first that the host sees when it continues.
    let waiting = (0..20).map(|_| tokio::spawn(Host::try_send(still.request(Method::POST, "/tools/shared").json(&json!({})))));
    let waiting: Vec<_> = waiting.collect();
    // Answered when the frozen host is fenced.
    awake.change("shared", &json!({ "status": "paused" })).await;
    stands(awake, &payment, "released").await;
    still.wake();
    for answer in join_all(waiting).await {
        let answer = answer.unwrap().unwrap();
        assert!([409, 503].contains(&answer.status), "sold though it was paused: {answer:?}");
    }
    eventually("it has the change", TAKEN_UP_WITHIN, async || (still.call("shared", &json!({})).await.status == 409).then_some(())).await;
    let late = running.await.unwrap().unwrap();
    assert_ne!(late.status, 200, "its payment was given back: {late:?}");
    assert_eq!(awake.balance(&payer.address).await, 1_000_000);
    // The host is fenced until it has read all changes, so it knows first that the tool is paused.
    let paid = async || (still.call_paid("slow", &json!({}), &payment).await.status == 200).then_some(());
    eventually("it takes calls again", TAKEN_UP_WITHIN, paid).await;
    assert_eq!(awake.balance(&payer.address).await, 1_000_000 - PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_kills_neither_lose_nor_double_payments() {
    const PAYERS: usize = 4;
    const EACH: usize = 12;
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.sells().await;
    let payer = Payer::funded(&cluster.hosts[0], 1.0).await;
    let challenge = cluster.hosts[0].challenge("pay").await;

    // Each payment is sent to one host after the other, until one answers it.
    let (hosts, server) = (&cluster.hosts, &mut cluster.server);
    let paying = join_all((0..PAYERS).map(async |lane| {
        let mut paid = Vec::new();
        for n in 0..EACH {
            let (payment, input) = (payer.pay(&challenge), json!({ "n": n, "lane": lane }));
            let mut turns = (0_usize..).map(|turn| &hosts[(lane + n + turn) % hosts.len()]);
            let answer = eventually("a payment is answered", Duration::from_secs(120), || {
                let request = Host::try_send(turns.next().unwrap().paid_request("pay", &input, &payment));
                async { request.await.ok().filter(|answer| answer.status == 200) }
            })
            .await;
            paid.push(Paid { payment, input, answer });
        }
        paid
    }));
    let killing = async {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.kill9();
            server.run();
        }
    };
    let (paid, ()) = tokio::join!(paying, killing);

    let paid: Vec<_> = paid.iter().flatten().collect();
    let all = (PAYERS * EACH) as u64;
    assert_eq!(paid.len() as u64, all);
    cluster.agrees(&owner, &paid, 0).await;
    for host in &cluster.hosts {
        assert_eq!(host.balance(&payer.address).await, 1_000_000 - all * PRICE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_report_each_other() {
    let mut cluster = Cluster::start(2).await;
    let describe = async |host: &Host| host.get("/health").await.is(200).json()["replicas"].as_array().unwrap().clone();
    let ids = |all: &[Value]| all.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    let (first, second) = (describe(&cluster.hosts[0]).await, describe(&cluster.hosts[1]).await);
    assert_eq!((ids(&first), first.len()), (ids(&second), 2));
    for all in [&first, &second] {
        assert_eq!(all.iter().filter(|one| one["own"] == true).count(), 1);
        assert!(all.iter().all(|one| one["lives"] == true && one["version"] == env!("CARGO_PKG_VERSION")), "{all:?}");
    }
    cluster.hosts[0].kill9();
    let alive = async |host: &Host| describe(host).await.into_iter().filter(|one| one["lives"] == true).collect::<Vec<_>>();
    eventually("the other's lease is over", TAKEN_UP_WITHIN, async || (alive(&cluster.hosts[1]).await.len() == 1).then_some(())).await;
    assert_eq!(alive(&cluster.hosts[1]).await[0]["own"], true);
}

/// Keys that every host gets, because each has its own folder.
const RECEIPT_KEY: &str =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\n-----END PRIVATE KEY-----\n";
const MASTER_KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";
const ADMIN_TOKEN: &str = "a-token-of-all-hosts";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_start_at_once_with_keys_that_are_given_ship_the_catalog_once() {
    let (server, keys) = (Postgres::start(), tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| {
        let path = keys.path().join(name);
        fs::write(&path, format!("{}\n", text.trim())).unwrap();
        path.display().to_string()
    };
    let how = Host::builder().with_catalogue().env("TOLLHOUSE_STORE", server.url()).env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    let how =
        how.env("TOLLHOUSE_RECEIPT_KEY_FILE", file("receipts", RECEIPT_KEY)).env("TOLLHOUSE_MASTER_KEY_FILE", file("master", MASTER_KEY));
    let how = how.env("TOLLHOUSE_ADMIN_TOKEN_FILE", file("admin", ADMIN_TOKEN));
    let (one, other) = tokio::join!(how.clone().start(), how.start());
    let shipped = |host: &Host| host.log().matches("published the built-in tools").count();
    assert_eq!(shipped(&one) + shipped(&other), 1, "one of them has");
    let slugs = async |host: &Host| {
        let listed = host.get("/ai/endpoints?limit=200").await.is(200).json();
        listed["endpoints"].as_array().unwrap().iter().map(|one| one["slug"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let (first, second) = (slugs(&one).await, slugs(&other).await);
    assert!(!first.is_empty() && first == second, "{first:?}\n{second:?}");
    let jwks = async |host: &Host| host.get("/.well-known/jwks.json").await.is(200).json();
    assert_eq!(jwks(&one).await, jwks(&other).await);
    other.manage(Method::GET, "/ai/admin/policy", &Value::Null).await.is(200);
    for name in ["receipt-key.pem", "master-key", "admin-token"] {
        assert!(!one.folder().join("data").join(name).exists(), "{name} was made though it was given");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_with_other_keys_than_the_others_does_not_start_and_says_which() {
    let cluster = Cluster::start(1).await;
    let (theirs, ours) = (cluster.hosts[0].folder().join("data"), tempfile::tempdir().unwrap());
    let refused = |envs: Vec<(&'static str, &'static str)>| how_it_ends(&cluster.server, ours.path(), envs);
    assert!(refused(vec![]).contains("has the admin token"));
    let token = "an-admin-token-that-is-none-of-theirs";
    let message = refused(vec![("TOLLHOUSE_ADMIN_TOKEN", token)]);
    assert!(
        message.contains("has the admin token") && message.contains("once all hosts are stopped") && !message.contains(token),
        "{message}"
    );
    fs::copy(theirs.join("admin-token"), ours.path().join("admin-token")).unwrap();
    assert!(refused(vec![]).contains("has the receipt key"));
    assert!(refused(vec![("TOLLHOUSE_RECEIPT_KEY", RECEIPT_KEY)]).contains("has the receipt key"));
    fs::copy(theirs.join("receipt-key.pem"), ours.path().join("receipt-key.pem")).unwrap();
    assert!(refused(vec![]).contains("has the master key"));
    let message = refused(vec![("TOLLHOUSE_MASTER_KEY", MASTER_KEY)]);
    assert!(
        message.contains("has the master key") && message.contains("TOLLHOUSE_MASTER_KEY") && !message.contains(MASTER_KEY),
        "{message}"
    );
    let rotated = cluster.hosts[0].manage(Method::POST, "/ai/admin/secrets/rotate", &Value::Null).await;
    let refused = rotated.fails(409, "master_key_given", "caller")["message"].as_str().unwrap().to_owned();
    // Every host decrypts with the new key before one encrypts with it.
    let steps = ["`TOLLHOUSE_MASTER_KEY_FILE`", "`OLD,NEW`", "`NEW,OLD`", "rotate"].map(|step| refused.find(step));
    assert!(steps.is_sorted() && steps[0].is_some(), "{refused}");
}

/// Returns the output of a host that fails to start with this data folder.
fn how_it_ends(server: &Postgres, data: &Path, envs: Vec<(&'static str, &'static str)>) -> String {
    let mut command = tollhouse();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).env("TOLLHOUSE_STORE", server.url()).envs(envs);
    let ended = command.output().unwrap();
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}
