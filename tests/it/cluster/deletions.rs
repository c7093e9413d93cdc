//! Deletions of endpoints with many files during paid calls. They delay nobody, and no host is
//! fenced.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ASKED, Cluster, TAKEN_UP_WITHIN, percentile};
use crate::harness::{Host, Payer, eventually, js, rounds_requested, s3::S3};

/// Number of files of a deleted endpoint, and of such endpoints; the second values are for the long
/// form, which [`ASKED`] selects.
const FILES: [usize; 2] = [150, 1_000];
const DELETIONS: [usize; 2] = [2, 5];

/// Duration of each request to the bucket.
const SLOW: Duration = Duration::from_millis(50);

/// Maximum extra time of a payment during deletions: for all payments in the long form (`cargo xtask cluster`), which
/// has the machine for itself, and for 19 of 20 in the short form, which runs beside other tests.
const DELAYED_AT_MOST: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(200)];

/// Number of files that one call writes.
const WRITES: usize = 50;

/// Writes files.
const FILL: &str = "export default async ({ input: { from, to } }, ctx) => {
    for (let n = from; n < to; n++) await ctx.files.write(`file-${n}`, 'content');
    return {};
};";

/// Publishes an endpoint, and lets it write this many files.
async fn filled(host: &Host, slug: &str, files: usize) {
    let mut tool = js(slug, 0.0, FILL);
    tool["capabilities"] = json!({ "files": true });
    tool["limits"] = json!({ "files": files });
    host.publish(&tool).await;
    for from in (0..files).step_by(WRITES) {
        host.call(slug, &json!({ "from": from, "to": (from + WRITES).min(files) })).await.is(200);
    }
}

/// Pays for calls on a host, one after the other, while `goes_on`. Returns the duration of each.
async fn pays(host: &Host, payer: &Payer, challenge: &Value, goes_on: &AtomicBool) -> Vec<Duration> {
    let mut elapsed = vec![];
    while goes_on.load(Ordering::SeqCst) {
        let payment = payer.pay(challenge);
        let started = Instant::now();
        host.call_paid("paid", &json!({}), &payment).await.is(200);
        elapsed.push(started.elapsed());
    }
    elapsed
}

/// Checks that a host is always ready, while `goes_on`.
async fn is_ready(host: &Host, goes_on: &AtomicBool) {
    while goes_on.load(Ordering::SeqCst) {
        host.get("/health/ready").await.is(200);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_with_many_files_are_deleted_and_no_host_is_fenced_or_payment_delayed() {
    let long = usize::from(rounds_requested(ASKED).is_some());
    let (files, deletions) = (FILES[long], DELETIONS[long]);
    let s3 = S3::start().await;
    let cluster = Cluster::of(Host::builder().with_objects_in(&s3), 2).await;
    let [first, second] = &cluster.hosts[..] else { panic!("two hosts") };
    first.publish(&js("paid", 0.001, "export default () => ({});")).await;
    for n in 0..deletions {
        filled(first, &format!("full-{n}"), files).await;
    }
    assert_eq!(s3.objects().len(), files * deletions);
    let payers = join_all((0..2).map(|_| Payer::funded(first, 10.0))).await;
    let challenge = first.challenge("paid").await;
    let goes_on = AtomicBool::new(true);
    let alone = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        goes_on.store(false, Ordering::SeqCst);
    };
    let paying = async || tokio::join!(pays(first, &payers[0], &challenge, &goes_on), pays(second, &payers[1], &challenge, &goes_on));
    let ((), before) = tokio::join!(alone, paying());
    s3.takes(SLOW);
    goes_on.store(true, Ordering::SeqCst);
    let deleting = async {
        let mut elapsed = vec![];
        for n in 0..deletions {
            let started = Instant::now();
            let deleted = second.manage(Method::DELETE, &format!("/ai/endpoints/full-{n}"), &Value::Null).await.is(200).json();
            elapsed.push(started.elapsed());
            // The answer may have been lost. Every host gives the same answer to a repetition.
            assert_eq!(first.manage(Method::DELETE, &format!("/ai/endpoints/full-{n}"), &Value::Null).await.is(200).json(), deleted);
        }
        eventually("all objects are gone", TAKEN_UP_WITHIN, async || s3.objects().is_empty().then_some(())).await;
        goes_on.store(false, Ordering::SeqCst);
        elapsed
    };
    let (deleted, alongside, ..) = tokio::join!(deleting, paying(), is_ready(first, &goes_on), is_ready(second, &goes_on));
    let max = |elapsed: &(Vec<Duration>, Vec<Duration>), of| percentile(elapsed.0.iter().chain(&elapsed.1).copied(), of);
    let (alone, delayed) = (max(&before, 100), max(&alongside, 100));
    println!(
        "{deletions} endpoints with {files} files, {} ms per request: deleted in {:?} at most; {} payments took {:?} (p50), {delayed:?} (most) \
         beside them, and {:?}, {alone:?} without",
        SLOW.as_millis(),
        deleted.iter().max().unwrap(),
        alongside.0.len() + alongside.1.len(),
        max(&alongside, 50),
        max(&before, 50),
    );
    assert!(alongside.0.len() > 1 && alongside.1.len() > 1, "both hosts took payments");
    let delayed = if long == 1 { delayed } else { max(&alongside, 95) };
    assert!(delayed <= alone + DELAYED_AT_MOST[long], "a payment took {delayed:?}, and {alone:?} without");
    cluster.none_is_open(TAKEN_UP_WITHIN).await;
}
