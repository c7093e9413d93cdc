//! `tollhouse reconcile`: compares the payments on the chain with those in the ledger.

use serde_json::json;
use tollhouse::store::{
    Batch, Direction, Durability, KeyRange, Space, Store as _, Write,
    sled::{SledConfig, SledStore},
};

use super::harness::Shell;
use crate::harness::{Chain, Host, PAY_TO, Payer, chain::evm, js};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

#[tokio::test]
async fn transfers_that_no_receipt_names_and_receipts_without_a_transfer_are_listed() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let (admin, payer) = (Shell::admin(&host), Payer::new());
    chain.mint(&payer.address, 1_000_000).await;
    let challenge = host.challenge("echo").await;
    for _ in 0..2 {
        host.call_paid("echo", &json!({}), &payer.pay(&challenge)).await.is(200);
    }
    let answer = admin.json(&["reconcile", "--since", "1h"]).await;
    assert_eq!((&answer["transfers"], &answer["receipts"], &answer["agrees"]), (&json!(2), &json!(2), &json!(true)), "{answer}");
    // A direct transfer to the address, without the host.
    chain.mint(PAY_TO, 77).await;
    let ran = admin.run(&["reconcile", "--network", "base-sepolia", "--json"]).await.is(1);
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&answer["unknown"][0]["amount"], &answer["unknown"][1], &answer["agrees"]),
        (&json!("77"), &json!(null), &json!(false)),
        "{answer}"
    );
    // A reorganization of the chain removes a payment.
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let receipt = host.call_paid("echo", &json!({}), &payer.pay(&challenge)).await.is(200).receipt_id();
    chain.rpc("evm_revert", json!([snapshot])).await;
    chain.rpc("anvil_mine", json!(["0x2", "0x3c"])).await;
    let ran = admin.run(&["reconcile"]).await.is(1);
    assert!(ran.stdout.contains("missing") && ran.stdout.contains(&receipt) && ran.stdout.contains("unknown"), "{ran:?}");
    admin.run(&["reconcile", "--network", "solana"]).await.is(1);
}

/// In a store from before transactions were recorded, two receipts can name one transaction, because a facilitator
/// named it twice.
#[tokio::test]
async fn a_transaction_that_two_receipts_of_an_older_store_name_is_listed_with_both() {
    let chain = Chain::start().await;
    let mut host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, 1_000_000).await;
    let challenge = host.challenge("echo").await;
    let mut paid = vec![];
    for _ in 0..2 {
        let receipt = host.call_paid("echo", &json!({}), &payer.pay(&challenge)).await.is(200).receipt_id();
        paid.push((host.receipt(&receipt).await["transaction"].as_str().unwrap().to_owned(), receipt));
    }
    host.kill9();
    let store = SledStore::open(host.folder().join("data/store"), SledConfig::default()).unwrap();
    let rows = store.scan(Space::Receipts, KeyRange::all(), 1_000, Direction::Forward).await.unwrap();
    let (from, to) = (&paid[1].0, &paid[0].0);
    let raw = |transaction: &str| hex::decode(transaction.trim_start_matches("0x")).unwrap();
    let mut written = 0;
    for row in rows {
        // The row holds the hash as text or as bytes.
        for (from, to) in [(from.clone().into_bytes(), to.clone().into_bytes()), (raw(from), raw(to))] {
            let Some(at) = row.1.windows(from.len()).position(|part| part == from) else { continue };
            let mut changed = row.1.to_vec();
            changed[at..at + to.len()].copy_from_slice(&to);
            let write = Write::put(Space::Receipts, row.0.clone(), changed);
            store.apply(Batch::of(vec![], vec![write]), Durability::Durable).await.unwrap();
            written += 1;
        }
    }
    assert_eq!(written, 1, "the receipt names the transaction of the first one");
    drop(store);
    host.restart().await;
    let admin = Shell::admin(&host);
    let ran = admin.run(&["reconcile", "--since", "1h", "--json"]).await.is(1);
    let reported: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let mut both = [&paid[0].1, &paid[1].1];
    both.sort_unstable();
    let doubled = &reported["doubled"][0];
    assert_eq!(
        (&doubled["transaction"], &doubled["receiptIds"], &doubled["transfers"]),
        (&json!(paid[0].0), &json!(both), &json!(1)),
        "{reported}"
    );
    let shown = admin.run(&["reconcile"]).await.is(1).stdout;
    assert!(shown.contains("doubled") && both.iter().all(|receipt| shown.contains(receipt.as_str())), "{shown}");
}

#[tokio::test]
async fn without_a_node_there_is_nothing_to_compare() {
    let host = Host::start().await;
    let ran = Shell::admin(&host).run(&["reconcile"]).await.is(1);
    assert!(ran.stderr.contains("TOLLHOUSE_RPC_URL"), "{ran:?}");
}
