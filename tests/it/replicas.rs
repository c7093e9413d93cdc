//! Two hosts of one store, in one process. A change that one has answered is effective on the
//! other, a payment buys one run on both together, and a host that cannot read the other's changes
//! sells nothing.

mod credits;
mod feeds;
mod rates;
mod receipts;
mod schedules;
mod starts;
mod tasks;
mod upfront;

use std::{path::Path, sync::Arc, time::Duration};

use clap::{Args as _, Command, FromArgMatches as _};
use futures_util::future::join_all;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollhouse::{
    app::App,
    base::clock::Clock,
    config::{Flags, Settings},
    store::{Store, faulty::FaultyStore, memory::MemoryStore},
};

use crate::harness::{Answer, Host, Payer, eventually, js, micros};

/// The public address of both, as behind a load balancer.
const BASE_URL: &str = "http://tools.example";

/// Maximum time until a change is effective everywhere, while all hosts are connected: each checks
/// ten times a second.
const RECEIVED_WITHIN: Duration = Duration::from_secs(2);

/// Number of wrong credentials that an address may try per minute.
const AUTH_FAILURES: usize = 6;

/// Hosts of one store.
struct Hosts {
    client: Client,
    urls: [String; 2],
    /// The store as the second host sees it.
    store: Arc<FaultyStore<MemoryStore>>,
    admin: String,
    apps: [Arc<App>; 2],
    _data: tempfile::TempDir,
}

impl Hosts {
    async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryStore::shared(Clock::default()));
        let store = Arc::new(FaultyStore::sharing(Arc::clone(&memory)));
        // Both read their keys from the same folder.
        let (first, one) = serve(memory, data.path()).await;
        let (second, other) = serve(Arc::clone(&store) as _, data.path()).await;
        let admin = std::fs::read_to_string(data.path().join("admin-token")).unwrap().trim().to_owned();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { client, urls: [one, other], store, admin, apps: [first, second], _data: data }
    }

    fn request(&self, at: usize, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.urls[at]))
    }

    async fn manage(&self, at: usize, method: Method, path: &str, body: &Value) -> Answer {
        Host::try_send(self.request(at, method, path).header("x-admin-token", &self.admin).json(body)).await.unwrap()
    }

    async fn call(&self, at: usize, slug: &str) -> Answer {
        Host::try_send(self.request(at, Method::POST, &format!("/tools/{slug}")).json(&json!({}))).await.unwrap()
    }

    async fn end(self) {
        for app in &self.apps {
            app.shutdown(Duration::from_secs(5)).await;
        }
    }
}

/// Starts a host of this store, which runs until it is ended.
async fn serve(store: Arc<dyn Store>, data: &Path) -> (Arc<App>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = App::start_on(store, &settings(data), BASE_URL.to_owned()).await.unwrap();
    let serving = Arc::clone(&app);
    tokio::spawn(async move { serving.serve(listener).await });
    (app, url)
}

fn settings(data: &Path) -> Settings {
    settings_with(data, &[])
}

fn settings_with(data: &Path, more: &[&str]) -> Settings {
    let tools = data.join("no-tools");
    std::fs::create_dir_all(&tools).unwrap();
    let words = ["serve", "--data", data.to_str().unwrap(), "--tools", tools.to_str().unwrap(), "--sandbox-spares", "0"];
    let failures = AUTH_FAILURES.to_string();
    let words = words.into_iter().chain(["--auth-failures", &failures]).chain(more.iter().copied());
    let given = Flags::augment_args(Command::new("serve")).get_matches_from(words);
    Flags::from_arg_matches(&given).unwrap().resolve().unwrap()
}

#[tokio::test]
async fn answered_change_applies_at_the_other_host() {
    let hosts = Hosts::start().await;
    let path = |slug: &str| format!("/ai/endpoints/{slug}");
    let source = "export default (req, ctx) => ({ key: ctx.env.KEY?.length ?? 0 });";
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("shared", 0.0, source)).await.is(200);
    assert_eq!(hosts.call(1, "shared").await.is(200).json()["key"], 0);
    hosts.manage(0, Method::POST, &format!("{}/secrets", path("shared")), &json!({ "name": "KEY", "value": "four" })).await.is(200);
    assert_eq!(hosts.call(1, "shared").await.is(200).json()["key"], 4);
    // Regardless of which host is called and which has made the changes.
    for (at, other) in [(0, 1), (1, 0), (0, 1)] {
        hosts.manage(at, Method::PATCH, &path("shared"), &json!({ "status": "paused" })).await.is(200);
        hosts.call(other, "shared").await.fails(409, "endpoint_paused", "tool");
        hosts.manage(other, Method::PATCH, &path("shared"), &json!({ "status": "active" })).await.is(200);
        hosts.call(at, "shared").await.is(200);
    }
    let policy = json!({ "maxEndpointsPerBuilder": 3 });
    let set = hosts.request(1, Method::PUT, "/ai/admin/policy").header("x-admin-token", &hosts.admin).header("if-match", "\"0\"");
    Host::try_send(set.json(&policy)).await.unwrap().is(200);
    let stale = hosts.request(0, Method::PUT, "/ai/admin/policy").header("x-admin-token", &hosts.admin).header("if-match", "\"0\"");
    Host::try_send(stale.json(&policy)).await.unwrap().is(412);
    hosts.manage(0, Method::DELETE, &path("shared"), &Value::Null).await.is(200);
    hosts.call(1, "shared").await.fails(404, "unknown_endpoint", "caller");
    hosts.end().await;
}

#[tokio::test]
async fn one_payment_that_both_hosts_are_shown_at_once_buys_one_run() {
    let hosts = Hosts::start().await;
    let source = "export default async (req, ctx) => {
        const runs = 1 + (await ctx.kv.get('runs') ?? 0);
        await ctx.kv.set('runs', runs);
        return { runs };
    };";
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("twins", 0.25, source)).await.is(200);
    let payer = Payer::new();
    let funds = hosts.request(0, Method::POST, "/dev/faucet").json(&json!({ "address": payer.address, "amountUsd": 5 }));
    Host::try_send(funds).await.unwrap().is(200);
    for round in 1..=8 {
        let challenge = hosts.call(round % 2, "twins").await.is(402).decoded("payment-required");
        let payment = payer.pay(&challenge);
        let send = |at| {
            let request = hosts.request(at, Method::POST, "/tools/twins").header(payment.header, payment.encoded());
            Host::try_send(request.json(&json!({})))
        };
        let (one, other) = tokio::join!(send(0), send(1));
        let (one, other) = (one.unwrap().is(200), other.unwrap().is(200));
        assert_eq!((one.json()["runs"].as_u64(), &one.body), (Some(round as u64), &other.body));
        assert_eq!(one.receipt_id(), other.receipt_id());
    }
    let balance = hosts.request(1, Method::GET, &format!("/dev/faucet?address={}", payer.address));
    assert_eq!(micros(&Host::try_send(balance).await.unwrap().is(200).json()["balanceUsd"]), 3_000_000);
    hosts.end().await;
}

#[tokio::test]
async fn one_registration_has_one_key_whichever_hosts_are_shown_its_payment() {
    let hosts = Hosts::start().await;
    let payer = Payer::new();
    let funds = hosts.request(0, Method::POST, "/dev/faucet").json(&json!({ "address": payer.address, "amountUsd": 5 }));
    Host::try_send(funds).await.unwrap().is(200);
    let (path, body) = ("/ai/builders/register", json!({ "name": "Toolsmith" }));
    let challenge = Host::try_send(hosts.request(0, Method::POST, path).json(&body)).await.unwrap().is(402);
    let payment = payer.pay(&challenge.decoded("payment-required"));
    let shown = |at| Host::try_send(hosts.request(at, Method::POST, path).header(payment.header, payment.encoded()).json(&body));
    let answers = join_all((0..8).map(|n| shown(n % 2))).await;
    let mut answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().is(200).json()).collect();
    answers.push(shown(1).await.unwrap().is(200).json());
    let key = answers[0]["builderKey"].as_str().unwrap();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    for at in [0, 1] {
        Host::try_send(hosts.request(at, Method::GET, "/ai/builders/me").header("x-builder-key", key)).await.unwrap().is(200);
    }
    assert_eq!(shown(0).await.unwrap().is(200).json()["builderKey"], Value::Null, "it was used");
    let builders = hosts.manage(0, Method::GET, "/ai/admin/builders", &Value::Null).await.is(200).json();
    assert_eq!(builders["builders"].as_array().unwrap().len(), 1);
    hosts.end().await;
}

#[tokio::test]
async fn a_host_that_does_not_learn_of_the_other_sells_nothing_until_it_does() {
    let hosts = Hosts::start().await;
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("shared", 0.0, "export default () => ({});")).await.is(200);
    hosts.call(1, "shared").await.is(200);
    hosts.store.fail_reads();
    // The change waits for the other host, but not longer than that host may still sell.
    hosts.manage(0, Method::PATCH, "/ai/endpoints/shared", &json!({ "status": "paused" })).await.is(200);
    hosts.call(1, "shared").await.fails(503, "store_unavailable", "host");
    Host::try_send(hosts.request(1, Method::GET, "/health/ready")).await.unwrap().fails(503, "store_unavailable", "host");
    hosts.store.heal();
    let received = || async {
        let answer = hosts.call(1, "shared").await;
        (answer.status != 503).then_some(answer)
    };
    eventually("it has the change", RECEIVED_WITHIN, received).await.fails(409, "endpoint_paused", "tool");
    Host::try_send(hosts.request(1, Method::GET, "/health/ready")).await.unwrap().is(200);
    hosts.end().await;
}
