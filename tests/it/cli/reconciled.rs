//! `tollhouse reconcile`: compares the payments on the chain with those in the ledger.

use serde_json::json;

use super::harness::Shell;
use crate::harness::{Chain, Host, PAY_TO, Payer, chain::GAS_KEY, js};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

#[tokio::test]
async fn transfers_that_no_receipt_names_and_receipts_without_a_transfer_are_listed() {
    let chain = Chain::start().await;
    let how = Host::builder().env("TOLLHOUSE_FACILITATOR", "evm").env("TOLLHOUSE_RPC_URL", &chain.url);
    let host = how.env("TOLLHOUSE_GAS_KEY", GAS_KEY).env("TOLLHOUSE_PAY_TO", PAY_TO).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let (admin, payer) = (Shell::admin(&host), Payer::new());
    chain.mint(&payer.address, 1_000_000).await;
    let challenge = host.challenge("echo").await;
    for _ in 0..2 {
        host.call_paid("echo", &json!({}), &payer.pay(&challenge)).await.is(200);
    }
    let told = admin.json(&["reconcile", "--since", "1h"]).await;
    assert_eq!((&told["transfers"], &told["receipts"], &told["agrees"]), (&json!(2), &json!(2), &json!(true)), "{told}");
    // A direct transfer to the address, without the host.
    chain.mint(PAY_TO, 77).await;
    let ran = admin.run(&["reconcile", "--network", "base-sepolia", "--json"]).await.is(1);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&told["unknown"][0]["amount"], &told["unknown"][1], &told["agrees"]),
        (&json!("77"), &json!(null), &json!(false)),
        "{told}"
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

#[tokio::test]
async fn without_a_node_there_is_nothing_to_compare() {
    let host = Host::start().await;
    let ran = Shell::admin(&host).run(&["reconcile"]).await.is(1);
    assert!(ran.stderr.contains("TOLLHOUSE_RPC_URL"), "{ran:?}");
}
