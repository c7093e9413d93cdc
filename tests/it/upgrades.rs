//! Data of the previous release can be opened completely by this one. Data of a later release are
//! refused.
//!
//! `fixtures/data` contains the data folder of a host that has sold, stored, sealed and logged
//! something, together with its answers. `TOLLHOUSE_DATA_KEPT=record` creates it again with the
//! tested binary. Do that once for each release, before it is published. Without it, the tests use
//! data of the tested binary itself.

use std::{fs, path::PathBuf, process::Command};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tollhouse::store::{
    Batch, Direction, Durability, KeyRange, Space, Store as _, Write,
    sled::{SledConfig, SledStore},
};

use crate::harness::{Host, HostBuilder, Payer, js, tollhouse};

/// Stores, writes and logs, and has a secret.
const TOOL: &str = "export default async (req, ctx) => {
    const { set, guess } = req.input;
    if (set) { await ctx.kv.set('kept', set); await ctx.files.write('kept.txt', `the content: ${set}`); ctx.log.info('kept', { set }); }
    return { kept: await ctx.kv.get('kept'), file: await ctx.files.readText('kept.txt'), same: ctx.env.API_KEY === guess };
};";
const SECRET: &str = "sealed by a release before";

fn fixture_data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/data/0.1.0.tar.xz")
}

/// Retention times are set to forever, because the data are from a fixed day.
fn how() -> HostBuilder {
    let days = ["TOLLHOUSE_LOG_DAYS", "TOLLHOUSE_EVENT_DAYS", "TOLLHOUSE_CALL_DAYS", "TOLLHOUSE_METRIC_DAYS", "TOLLHOUSE_AUDIT_DAYS"];
    let how = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").env("TOLLHOUSE_FREE_RECEIPT_DAYS", 36_500);
    days.into_iter().fold(how, |how, name| how.env(name, 36_500))
}

/// Returns the host's answers about its stored data.
async fn answers(host: &Host, receipts: &[String], credit: &str) -> Value {
    let of = async |path: String| host.manage(Method::GET, &path, &Value::Null).await.is(200).json();
    let mut reported = Vec::new();
    for id in receipts {
        reported.push(host.receipt(id).await);
    }
    let balance = host.send(host.request(Method::GET, "/ai/credits").header("x-developer-credit", credit)).await.is(200).json();
    let endpoint = of("/ai/endpoints/kept".to_owned()).await;
    let logs = of("/ai/endpoints/kept/logs?limit=10".to_owned()).await;
    let ledger = of("/ai/admin/ledger".to_owned()).await;
    json!({
        "receipts": reported,
        "balanceUsd": balance["balanceUsd"],
        "endpoint": { "id": endpoint["endpoint"]["id"], "version": endpoint["endpoint"]["version"], "price": endpoint["endpoint"]["priceUsd"] },
        "logs": logs["logs"].as_array().map(|lines| lines.iter().map(|line| line["message"].clone()).collect::<Vec<_>>()),
        "ledger": ledger["accounts"],
    })
}

/// Creates the data, with the host's answers. Returns the folder with both.
async fn produce() -> TempDir {
    let mut host = how().start().await;
    let mut tool = js("kept", 0.01, TOOL);
    tool["capabilities"] = json!({ "kv": true, "files": true, "logs": true });
    host.publish(&tool).await;
    let secret = json!({ "name": "API_KEY", "value": SECRET, "visibility": "env" });
    host.manage(Method::POST, "/ai/endpoints/kept/secrets", &secret).await.is(200);
    host.register("Someone").await;
    let payer = Payer::funded(&host, 1.0).await;
    let paid = host.call_paid("kept", &json!({ "set": "of the release" }), &payer.pay(&host.challenge("kept").await)).await.is(200);
    let credit = host.mint(1.0).await;
    let spent = host.call_credit("kept", &json!({ "guess": SECRET }), &credit).await.is(200);
    let receipts = vec![paid.receipt_id(), spent.receipt_id()];
    host.restart().await;
    let body = json!({ "receipts": receipts, "credit": credit, "answers": answers(&host, &receipts, &credit).await });
    host.kill9();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kept.json"), body.to_string()).unwrap();
    assert!(Command::new("cp").arg("-a").arg(host.folder().join("data")).arg(folder.path()).status().unwrap().success());
    folder
}

/// Packs newly created data for the next release.
async fn record() {
    let folder = produce().await;
    fs::create_dir_all(fixture_data().parent().unwrap()).unwrap();
    let packed =
        Command::new("tar").args(["--xz", "-cf"]).arg(fixture_data()).arg("-C").arg(folder.path()).args(["data", "kept.json"]).status();
    assert!(packed.unwrap().success());
}

/// Returns a folder with the recorded data, and the recorded answers.
async fn recorded() -> (TempDir, Value) {
    let folder = if fixture_data().exists() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Command::new("tar").arg("-xf").arg(fixture_data()).arg("-C").arg(folder.path()).status().unwrap().success());
        folder
    } else {
        produce().await
    };
    let reported = serde_json::from_slice(&fs::read(folder.path().join("kept.json")).unwrap()).unwrap();
    (folder, reported)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_the_release_before_open_with_all_that_was_there() {
    if std::env::var_os("TOLLHOUSE_DATA_KEPT").is_some_and(|request| request == "record") {
        record().await;
    }
    let (folder, reported) = recorded().await;
    let data = folder.path().join("data");
    let check = |data: &std::path::Path| tollhouse().args(["store", "check", "--data"]).arg(data).output().unwrap();
    let checked = check(&data);
    assert!(checked.status.success(), "{checked:?}");
    let mut host = how().start_in(folder).await;
    let credit = reported["credit"].as_str().unwrap();
    let receipts: Vec<_> = reported["receipts"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(answers(&host, &receipts, credit).await, reported["answers"]);
    // The host continues to work: it reads stored values, opens the secret, and charges calls.
    let spent = host.call_credit("kept", &json!({ "guess": SECRET }), credit).await.is(200);
    let expected = json!({ "kept": "of the release", "file": "the content: of the release", "same": true });
    assert_eq!(spent.json(), expected);
    let payer = Payer::funded(&host, 1.0).await;
    host.call_paid("kept", &json!({ "set": "of this one" }), &payer.pay(&host.challenge("kept").await)).await.is(200);
    host.restart().await;
    assert_eq!(host.receipt(&spent.receipt_id()).await["kind"], "credit");
    host.kill9();
    let checked = check(&host.folder().join("data"));
    assert!(checked.status.success(), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_a_later_release_are_refused_in_a_clear_sentence_and_stay_as_they_are() {
    let (folder, _) = recorded().await;
    let store = SledStore::open(folder.path().join("data/store"), SledConfig::default()).unwrap();
    let rows = store.scan(Space::Meta, KeyRange::prefix(b"formats-written"), 1, Direction::Forward).await.unwrap();
    let (key, value) = rows.into_iter().next().unwrap();
    let later: Vec<_> =
        value.iter().flat_map(|byte| if byte.is_ascii_digit() { b"99" } else { std::slice::from_ref(byte) }).copied().collect();
    let put = Write { space: Space::Meta, key, value: Some(later) };
    store.apply(Batch::of(vec![], vec![put]), Durability::Durable).await.unwrap();
    drop(store);
    let answer = how().fails_in(folder).await;
    assert!(answer.contains("this version reads formats up to") && answer.contains("start a later version"), "{answer}");
}
