//! Bytes in flight between the host and its workers are bounded, whatever handlers request at once.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{Host, eventually, js};

const MIB: u64 = 1 << 20;

/// Fills its store with 200 values of 255 KiB, or lists them in 32 concurrent requests.
const LISTER: &str = r#"
export default async ({ input }, ctx) => {
  if (input.from !== undefined) {
    const value = "v".repeat(255 * 1024);
    for (let n = input.from; n < input.from + 50; n++) await ctx.kv.set("k" + n, value);
    return 0;
  }
  const lists = Array.from({ length: 32 }, () => ctx.kv.list({ limit: 1000 }).then((page) => page.entries.length));
  return (await Promise.all(lists)).reduce((sum, entries) => sum + entries, 0);
};"#;

/// Regression: one call with 32 concurrent lists took the host from 77 MB to 2.3 GB, of which 1.7
/// GB stayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_lists_hold_at_most_the_set_bytes() {
    const CALLS: u64 = 12;
    const SET: u64 = 16 * MIB;
    let host = Host::builder().flag("--sandbox-bytes", SET).flag("--sandbox-running", 2 * CALLS).start().await;
    let mut tool = js("lister", 0.0, LISTER);
    tool["limits"] = json!({
        "kvValueBytes": 256 << 10, "kvBytes": 256 * MIB, "opsInFlight": 32, "cpuMs": 10_000, "wallMs": 120_000,
    });
    host.publish(&tool).await;
    for from in [0, 50, 100, 150] {
        host.call("lister", &json!({ "from": from })).await.is(200);
    }
    // Memory for the store's cache does not belong to the calls.
    assert_eq!(host.call("lister", &json!({})).await.is(200).json(), 32 * 4);
    let before = host.resident();
    let (peak, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let watches = async {
        while !is_over.load(Ordering::Relaxed) {
            peak.fetch_max(host.resident(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let nothing = json!({});
    let calls = async {
        for answer in join_all((0..CALLS).map(|_| host.call("lister", &nothing))).await {
            assert_eq!(answer.is(200).json(), 32 * 4);
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(watches, calls);
    // Each page exists twice: in the form of the store and in that of the worker.
    let bound = 2 * (SET + CALLS * 4 * MIB);
    let max = peak.load(Ordering::Relaxed);
    println!("{} MiB before, {} at most, {} after", before / MIB, max / MIB, host.resident() / MIB);
    assert!(max < before + bound, "{} MiB before, {} at most", before / MIB, max / MIB);
    // There are no further requests. Memory that is only released by the next call would stay
    // forever.
    let stored = before + 16 * MIB;
    eventually("all of it is given back", Duration::from_secs(60), async || (host.resident() < stored).then_some(())).await;
    println!("{} MiB are kept", host.resident() / MIB);
}

/// The setting is compiled in, for every build. The allocator itself reports it.
#[tokio::test]
async fn freed_memory_is_returned_within_a_second() {
    let host = Host::builder().env("_RJEM_MALLOC_CONF", "confirm_conf:true").start().await;
    let message = host.log();
    assert!(message.contains("background_thread:true,dirty_decay_ms:1000"), "{message}");
}
