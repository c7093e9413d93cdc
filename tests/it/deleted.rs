//! The host is killed at random moments during the deletion of a tool. After the restart nothing is
//! left of the tool, and a repeated deletion succeeds.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    crash::ASKED,
    harness::{Host, eventually, js, random, rounds_requested, s3::S3, tollhouse},
};

/// Number of kills during deletions, if [`ASKED`] sets none.
const ROUNDS: usize = 4;
/// Maximum time from a deletion to the kill.
const MAX_MS: u64 = 300;
/// Duration of each request to the bucket.
const SLOW: Duration = Duration::from_millis(50);
/// Maximum time for the rest of a deletion. A host checks for unfinished deletions every ten
/// seconds.
const FINISHED_WITHIN: Duration = Duration::from_secs(60);

const KEEPS: &str = "export default async (req, ctx) => {
    for (let n = 0; n < 30; n++) {
        await ctx.kv.set(`key ${n}`, n);
        await ctx.files.write(`file-${n}`, 'content');
    }
    return {};
};";

/// Returns the number of rows of a kind in the store.
async fn rows(host: &Host, kind: &str) -> u64 {
    let answer = host.get("/metrics").await.is(200);
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let name = format!("tollhouse_store_rows{{kind=\"{kind}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("no {name}"));
    line.parse::<f64>().unwrap() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_whose_deletion_is_cut_off_by_a_kill_leaves_nothing_behind() {
    let mut random = random();
    let s3 = S3::start().await;
    let mut host = Host::builder().with_objects_in(&s3).start().await;
    let mut tool = js("keeps", 0.0, KEEPS);
    tool["capabilities"] = json!({ "kv": true, "files": true });
    for round in 1..=rounds_requested(ASKED).unwrap_or(ROUNDS) {
        s3.takes(Duration::ZERO);
        host.publish(&tool).await;
        host.manage(Method::POST, "/ai/endpoints/keeps/secrets", &json!({ "name": "KEY", "value": "four" })).await.is(200);
        host.call("keeps", &json!({})).await.is(200);
        s3.takes(SLOW);
        let request = host.request(Method::DELETE, "/ai/endpoints/keeps").header("x-admin-token", &host.admin);
        let deleting = tokio::spawn(Host::try_send(request));
        tokio::time::sleep(Duration::from_millis(random.u64(..MAX_MS))).await;
        host.kill9();
        let answered = deleting.await.unwrap().is_ok();
        host.restart().await;
        let is_there = host.get("/ai/endpoints/keeps").await.status == 200;
        assert!(!(answered && is_there), "an answered deletion is permanent");
        println!("round {round}: answered {answered}, is there {is_there}, {} objects", s3.objects().len());
        let again = host.manage(Method::DELETE, "/ai/endpoints/keeps", &Value::Null).await.is(200).json();
        assert_eq!((&again["deleted"], &again["slug"]), (&json!(true), &json!("keeps")));
        // Markers that forbid further writes for a deleted endpoint stay for an hour.
        let marks = round as u64;
        eventually("nothing of it is left", FINISHED_WITHIN, async || {
            let remaining = (rows(&host, "kv").await, rows(&host, "files").await, rows(&host, "secrets").await, s3.objects().len());
            (remaining == (marks, marks, 0, 0)).then_some(())
        })
        .await;
    }
    host.kill9();
    let checked = tollhouse().args(["store", "check", "--data"]).arg(host.folder().join("data")).output().unwrap();
    // The check runs without the bucket, because no object is left to read.
    assert!(checked.status.success(), "{checked:?}");
}
