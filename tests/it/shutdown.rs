//! Shutdown of a host: started work is completed, whether somebody waits for it or not.

use std::{process::Stdio, time::Duration};

use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Host, eventually, js, signal, stream::Stream, tollhouse};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Shuts the host down, waits for its end, and starts it again on the same data.
async fn end_and_restart(host: &mut Host) {
    host.terminate();
    ended(host).await;
    host.restart().await;
}

async fn ended(host: &Host) {
    eventually("the host has ended", TIMEOUT, || async { (!host.lives()).then_some(()) }).await;
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
    // The audit trail has the upload as soon as it has begun.
    let uploading = tokio::spawn(request.send());
    let started = |last: &Value| last["path"] == "/ai/endpoints/create" && last["outcome"].is_null();
    eventually("the upload has begun", TIMEOUT, || async { started(&last_of_the_trail(&host).await).then_some(()) }).await;
    uploading.abort();
    _ = uploading.await;
    assert!(started(&last_of_the_trail(&host).await), "the upload ended before the host was asked to stop");
    end_and_restart(&mut host).await;
    assert_eq!(last_of_the_trail(&host).await["outcome"]["status"], 200);
    assert_eq!(host.get("/ai/endpoints/slow-to-load").await.is(200).json()["endpoint"]["slug"], "slow-to-load");
}

#[tokio::test]
async fn streams_end_as_soon_as_the_host_is_asked_to_stop() {
    let host = Host::start().await;
    host.publish(&js("silent", 0.0, "export default () => new Promise((done) => setTimeout(() => done({}), 3_000));")).await;
    let follow = host.request(Method::GET, "/ai/endpoints/silent/logs").header("x-admin-token", &host.admin);
    let mut stream = Stream::open(follow).await;
    let call = tokio::spawn(Host::try_send(host.request(Method::POST, "/tools/silent").json(&json!({}))));
    host.wait_for_calls(1).await;
    host.terminate();
    while stream.next().await.is_some() {}
    assert!(!call.is_finished(), "the stream ends before the calls do");
    assert_eq!(call.await.unwrap().unwrap().status, 200);
    assert!(stream.retry.is_some_and(|wait| wait <= 1_000), "{:?}", stream.retry);
    ended(&host).await;
}

#[tokio::test]
async fn a_host_with_others_is_not_ready_for_a_while_before_it_takes_no_calls() {
    let host = Host::builder().env("TOLLHOUSE_SHUTDOWN_DELAY_MS", 600_000).start().await;
    host.publish(&js("goes-on", 0.0, "export default () => ({});")).await;
    let mut stream = Stream::open(host.request(Method::GET, "/ai/endpoints/goes-on/logs").header("x-admin-token", &host.admin)).await;
    host.get("/health/ready").await.is(200);
    host.terminate();
    eventually("it is not ready", TIMEOUT, || async { (host.get("/health/ready").await.status == 503).then_some(()) }).await;
    let refused = host.get("/health/ready").await.json();
    assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&json!("busy"), &json!("The host is shutting down")));
    // Also over a new connection.
    reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("{}/tools/goes-on", host.url))
        .send()
        .await
        .unwrap()
        .error_for_status()
        .unwrap();
    host.publish(&js("late", 0.0, "export default () => ({});")).await;
    assert_eq!(stream.retry, None);
    // After a second signal the host does not wait anymore.
    host.terminate();
    while stream.next().await.is_some() {}
    ended(&host).await;
}

#[tokio::test]
async fn a_host_that_is_asked_to_stop_while_it_starts_ends() {
    let data = tempfile::tempdir().unwrap();
    for waits in (0..800).step_by(80) {
        let mut command = tollhouse();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path().join("data"));
        let mut host = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(waits)).await;
        signal(i32::try_from(host.id()).unwrap(), Signal::TERM);
        let what = format!("the host has ended, stopped after {waits} ms");
        eventually(&what, TIMEOUT, || std::future::ready(host.try_wait().unwrap())).await;
    }
}
