//! The store's index has become much larger than its rows. A new one replaces it while the host
//! runs.

use std::{cell::RefCell, time::Duration};

use serde_json::{Value, json};

use crate::harness::{Host, eventually, js};

/// Maximum time on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn another_index_takes_the_place_of_one_that_is_too_large_while_calls_continue() {
    let mut host = Host::builder().flag("--store-tree-bytes", 0).start().await;
    // The stored data stay small, although much is written.
    let source = "export default async (req, ctx) => {
        const { n } = req.input;
        await ctx.kv.set(`n ${n}`, 'x'.repeat(30_000));
        await ctx.kv.delete(`n ${n - 1}`);
        return { n };
    };";
    host.publish(&js("keeps", 0.001, source)).await;
    let credit = host.mint(100.0).await;
    let store = host.folder().join("data/store");
    let receipts = RefCell::new(vec![]);
    eventually("another index is in force", TIMEOUT, async || {
        let n = receipts.borrow().len();
        let receipt = host.call_credit("keeps", &json!({ "n": n }), &credit).await.is(200).receipt_id();
        receipts.borrow_mut().push(receipt);
        (!store.join("db").exists() && store.join("tree-in-force").exists()).then_some(())
    })
    .await;
    let receipts = receipts.into_inner();
    assert_eq!(host.get("/health").await.is(200).json()["stored"]["renewalFails"], Value::Null);
    for restarted in [false, true] {
        for receipt in &receipts {
            assert_eq!(host.receipt(receipt).await["kind"], "credit", "restarted: {restarted}");
        }
        if !restarted {
            host.restart().await;
        }
    }
}
