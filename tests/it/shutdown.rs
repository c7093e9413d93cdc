//! A host that is told to end: what was begun is brought to its end, whether somebody waits for it or not.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, eventually, js, stream::Stream};

const PATIENCE: Duration = Duration::from_secs(20);

/// Tells the host to end, waits until it has, and starts it again on the same data.
async fn end_and_restart(host: &mut Host) {
    host.terminate();
    ended(host).await;
    host.restart().await;
}

async fn ended(host: &Host) {
    eventually("the host has ended", PATIENCE, || async { (!host.lives()).then_some(()) }).await;
}

async fn last_of_the_trail(host: &Host) -> Value {
    host.manage(Method::GET, "/ai/admin/audit?limit=1", &json!({})).await.is(200).json()["entries"][0].clone()
}

#[tokio::test]
async fn lines_of_the_last_call_are_in_its_log_after_a_restart() {
    let mut host = Host::start().await;
    host.publish(&js("last-words", 0.0, "export default (req, ctx) => { ctx.log.info(`words ${req.input.n}`); return {}; };")).await;
    for n in 0..5 {
        host.call("last-words", &json!({ "n": n })).await.is(200);
        end_and_restart(&mut host).await;
        let log = host.manage(Method::GET, "/ai/endpoints/last-words/logs?limit=1", &json!({})).await.is(200).json();
        assert_eq!(log["logs"][0]["message"], format!("words {n}"));
    }
}

#[tokio::test]
async fn an_upload_whose_sender_has_hung_up_is_published_before_the_host_ends() {
    let mut host = Host::start().await;
    let slow = "let sum = 0; for (let n = 0; n < 75_000_000; n++) sum += n; export default () => ({ sum });";
    let mut upload = js("slow-to-load", 0.0, slow);
    upload["limits"] = json!({ "loadCpuMs": 2_000, "loadWallMs": 10_000 });
    let request = host.request(Method::POST, "/ai/endpoints/create").header("x-admin-token", &host.admin).json(&upload);
    // It is in the trail from when it was begun.
    let uploading = tokio::spawn(request.send());
    let begun = |last: &Value| last["path"] == "/ai/endpoints/create" && last["outcome"].is_null();
    eventually("the upload is begun", PATIENCE, || async { begun(&last_of_the_trail(&host).await).then_some(()) }).await;
    uploading.abort();
    _ = uploading.await;
    assert!(begun(&last_of_the_trail(&host).await), "the upload was over before the host was told to end");
    end_and_restart(&mut host).await;
    assert_eq!(last_of_the_trail(&host).await["outcome"]["status"], 200);
    assert_eq!(host.get("/ai/endpoints/slow-to-load").await.is(200).json()["endpoint"]["slug"], "slow-to-load");
}

#[tokio::test]
async fn those_who_follow_are_let_go_as_soon_as_the_host_is_told_to_end() {
    let host = Host::start().await;
    host.publish(&js("silent", 0.0, "export default () => ({});")).await;
    let follow = host.request(Method::GET, "/ai/endpoints/silent/logs").header("x-admin-token", &host.admin);
    let mut stream = Stream::open(follow).await;
    let told = Instant::now();
    host.terminate();
    while stream.next().await.is_some() {}
    assert!(told.elapsed() < Duration::from_millis(400), "{:?}", told.elapsed());
    ended(&host).await;
}
