//! Hosts that start at the same moment, and a host with a wrong clock.

use std::{path::Path, sync::Arc, time::Duration};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tollhouse::{
    app::App,
    base::{
        clock::{Clock, Timestamp},
        error_chain::full_message,
    },
    store::{Batch, Direction, Durability, KeyRange, Space, Store, Write, memory::MemoryStore},
};

use super::{BASE_URL, serve, settings, settings_with};
use crate::harness::{Host, PAY_TO, eventually, js};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Creates folders with the keys that all hosts of a store share, and with different admin tokens.
async fn folders() -> [tempfile::TempDir; 2] {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let store = Arc::new(MemoryStore::shared(Clock::default()));
    let app = App::start_on(store, &settings(folders[0].path()), BASE_URL.to_owned()).await.unwrap();
    app.shutdown(Duration::ZERO).await;
    for key in ["receipt-key.pem", "master-key"] {
        std::fs::copy(folders[0].path().join(key), folders[1].path().join(key)).unwrap();
    }
    folders
}

async fn start(store: Arc<MemoryStore>, data: &Path) -> Result<Arc<App>, String> {
    App::start_on(store, &settings(data), BASE_URL.to_owned()).await.map_err(|error| full_message(&error))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_begin_at_one_moment_do_not_serve_with_an_admin_token_each() {
    let [one, other] = folders().await;
    for round in 0..12 {
        let store = Arc::new(MemoryStore::shared(Clock::default()));
        let both = tokio::join!(start(Arc::clone(&store), one.path()), start(Arc::clone(&store), other.path()));
        let both = [both.0, both.1];
        for started in &both {
            if let Err(reason) = started {
                assert!(reason.contains("admin token"), "{reason}");
            }
        }
        let serve: Vec<_> = both.iter().flatten().collect();
        assert!(serve.len() < 2, "round {round}: both serve");
        for app in serve {
            app.shutdown(Duration::from_secs(5)).await;
        }
        // The next host has the store to itself.
        let app = start(store, other.path()).await.unwrap();
        app.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_begin_together_with_another_admin_token_than_the_last_had_all_serve() {
    let [one, other] = folders().await;
    for round in 0..4 {
        let store = Arc::new(MemoryStore::shared(Clock::default()));
        start(Arc::clone(&store), other.path()).await.unwrap().shutdown(Duration::from_secs(5)).await;
        let both = tokio::join!(start(Arc::clone(&store), one.path()), start(Arc::clone(&store), one.path()));
        let both = [both.0, both.1];
        let serving: Vec<_> = both.iter().flatten().collect();
        assert_eq!(serving.len(), 2, "round {round}: {:?}", both.iter().filter_map(|started| started.as_ref().err()).collect::<Vec<_>>());
        for app in serving {
            app.shutdown(Duration::from_secs(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_clock_is_a_day_ahead_removes_nothing_for_its_age() {
    let done = async |store: &MemoryStore| {
        let rows = store.scan(Space::Meta, KeyRange::all(), usize::MAX, Direction::Forward).await.unwrap();
        ["jobs/payments", "jobs/free-receipts", "jobs/audit"].map(|job| rows.iter().any(|(key, _)| key == job.as_bytes()))
    };
    let [one, _] = folders().await;
    let behind = Timestamp(Clock::default().now().0 - DAY_MS - 1);
    let apart = Arc::new(MemoryStore::shared(Clock::fixed(behind)));
    let app = start(Arc::clone(&apart), one.path()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(done(&apart).await, [false; 3]);
    app.shutdown(Duration::from_secs(5)).await;
    let right = Arc::new(MemoryStore::shared(Clock::default()));
    let app = start(Arc::clone(&right), one.path()).await.unwrap();
    eventually("the jobs are done", Duration::from_secs(30), async || (done(&right).await == [true; 3]).then_some(())).await;
    app.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_with_a_wrong_clock_takes_no_calls_and_uses_the_stores_time() {
    let behind = Timestamp(Clock::default().now().0 - DAY_MS - 1);
    let data = tempfile::tempdir().unwrap();
    for (clock, is_right) in [(Clock::fixed(behind), false), (Clock::default(), true)] {
        let (app, url) = serve(Arc::new(MemoryStore::shared(clock.clone())), data.path()).await;
        let client = Client::builder().no_proxy().build().unwrap();
        let admin = std::fs::read_to_string(data.path().join("admin-token")).unwrap().trim().to_owned();
        let manage = |path: &str, body: Value| {
            Host::try_send(client.request(Method::POST, format!("{url}{path}")).header("x-admin-token", &admin).json(&body))
        };
        manage("/ai/endpoints/create", js("free", 0.0, "export default () => ({});")).await.unwrap().is(200);
        let minted = manage("/ai/credits", json!({ "amountUsd": 1 })).await.unwrap().is(200).json();
        let credit = minted["credit"].as_str().unwrap();
        let midnight = || json!(Timestamp((clock.now().0 / DAY_MS + 1) * DAY_MS));
        let before = midnight();
        let request = client.request(Method::GET, format!("{url}/ai/credits")).header("x-developer-credit", credit);
        let reported = Host::try_send(request).await.unwrap().is(200).json()["today"]["resetsAt"].clone();
        assert!([before, midnight()].contains(&reported), "days are the store's: {reported}");
        let call = Host::try_send(client.request(Method::POST, format!("{url}/tools/free")).json(&json!({}))).await.unwrap();
        let register = client.request(Method::POST, format!("{url}/ai/builders/register")).json(&json!({ "name": "Toolsmith" }));
        let register = Host::try_send(register.header("x-developer-credit", credit)).await.unwrap();
        let ready = Host::try_send(client.request(Method::GET, format!("{url}/health/ready"))).await.unwrap();
        if is_right {
            call.is(200);
            register.is(200);
            ready.is(200);
        } else {
            call.fails(503, "not_ready", "host");
            register.fails(503, "not_ready", "host");
            ready.is(503);
        }
        app.shutdown(Duration::from_secs(5)).await;
    }
}

/// Settings of a host that does not take play money. Its default network is a test network.
const FACILITATOR: [&str; 6] = ["--facilitator", "http", "--facilitator-url", "http://127.0.0.1:9", "--pay-to", PAY_TO];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_with_play_money_is_refused_by_a_host_for_real_money() {
    let data = tempfile::tempdir().unwrap();
    let real = settings_with(data.path(), &[&FACILITATOR[..], &["--network", "base"]].concat());
    for store in [MemoryStore::shared(Clock::default()), MemoryStore::new()] {
        let store = Arc::new(store);
        let app = start(Arc::clone(&store), data.path()).await.unwrap();
        if store.is_shared() {
            let beside = App::start_on(Arc::clone(&store) as _, &real, BASE_URL.to_owned()).await;
            assert!(full_message(&beside.unwrap_err()).contains("the store is for play money"));
        }
        app.shutdown(Duration::from_secs(5)).await;

        // Without money, the store is for any kind.
        let app = App::start_on(Arc::clone(&store) as _, &real, BASE_URL.to_owned()).await.unwrap();
        app.shutdown(Duration::from_secs(5)).await;
        let (app, url) = serve(Arc::clone(&store) as _, data.path()).await;
        let admin = std::fs::read_to_string(data.path().join("admin-token")).unwrap().trim().to_owned();
        let client = Client::builder().no_proxy().build().unwrap();
        let minting = client.request(Method::POST, format!("{url}/ai/credits")).header("x-admin-token", &admin);
        Host::try_send(minting.json(&json!({ "amountUsd": 1 }))).await.unwrap().is(200);
        app.shutdown(Duration::from_secs(5)).await;

        let refused = App::start_on(Arc::clone(&store) as _, &real, BASE_URL.to_owned()).await;
        let refused = full_message(&refused.unwrap_err());
        assert!(refused.contains("the store is for play money, and this host takes real money"), "{refused}");
        start(store, data.path()).await.unwrap().shutdown(Duration::from_secs(5)).await;
    }
}

/// Regression test: builders were paid in USDC for what a store had sold for tokens of a test network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_of_a_test_network_is_refused_by_a_host_for_real_money() {
    let data = tempfile::tempdir().unwrap();
    let on = |network: &str| settings_with(data.path(), &[&FACILITATOR[..], &["--network", network]].concat());
    let store = Arc::new(MemoryStore::new());
    let start_on = async |network: &str| {
        let started = App::start_on(Arc::clone(&store) as _, &on(network), BASE_URL.to_owned()).await;
        started.map_err(|error| full_message(&error))
    };
    start_on("base-sepolia").await.unwrap().shutdown(Duration::from_secs(5)).await;
    // A credit stands for the money of a sale, which needs a chain.
    let mut batch = Batch::new();
    batch.writes.push(Write { space: Space::Credits, key: b"crd_1".to_vec(), value: Some(vec![0]) });
    batch.commit(&*store, Durability::Durable).await.unwrap();
    let refused = start_on("base").await.unwrap_err();
    assert!(refused.contains("the store is for tokens of a test network, and this host takes real money"), "{refused}");
    let refused = start(Arc::clone(&store), data.path()).await.unwrap_err();
    assert!(refused.contains("and this host takes play money") && refused.contains("`TOLLHOUSE_NETWORK` to a test network"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_with_another_recipient_than_a_live_host_does_not_start() {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::shared(Clock::default()));
    let other = settings_with(data.path(), &["--pay-to", PAY_TO]);
    let start_other = || App::start_on(Arc::clone(&store) as _, &other, BASE_URL.to_owned());
    let app = start(Arc::clone(&store), data.path()).await.unwrap();
    let refused = full_message(&start_other().await.unwrap_err());
    let both = ["`payTo` of eip155:84532", PAY_TO, "0x70110E5e70110e5E70110E5E70110E5e70110E5e"].map(str::to_lowercase);
    assert!(both.iter().all(|named| refused.to_lowercase().contains(named)), "{refused}");
    // A host with the same settings starts, and its settings count after the first one has ended.
    let same = start(Arc::clone(&store), data.path()).await.unwrap();
    app.shutdown(Duration::from_secs(5)).await;
    start_other().await.unwrap_err();
    same.shutdown(Duration::from_secs(5)).await;
    // Once all hosts are stopped, the setting can change.
    let app = start_other().await.unwrap();
    let refused = start(Arc::clone(&store), data.path()).await.unwrap_err();
    assert!(refused.contains("`payTo`"), "{refused}");
    app.shutdown(Duration::from_secs(5)).await;
}
