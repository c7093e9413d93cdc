//! Reorganizations of the chain: reported in health, the ledger, the log, an event and next to the
//! receipt.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Chain, Host, PAY_TO, Payer, chain::evm, eventually, js, permit::publish_meter, postgres::Postgres, tollhouse};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";
const FUNDS: u64 = 1_000_000;
const LONG: Duration = Duration::from_secs(120);

/// Makes a payment that is settled in the newest block. Returns the receipt id, the transaction and
/// the payer.
async fn settled(chain: &Chain, host: &Host) -> (String, String, String) {
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let answer = host.call_paid("echo", &json!({}), &payment).await.is(200);
    let receipt = host.receipt(&answer.receipt_id()).await;
    (answer.receipt_id(), receipt["transaction"].as_str().unwrap().to_owned(), payer.address)
}

async fn state(host: &Host, receipt: &str) -> Option<Value> {
    let answer = host.get(&format!("/ai/receipts/{receipt}")).await.is(200).json();
    answer.get("settlement").cloned()
}

/// Returns the number of stored payment rows, including watched settlements.
async fn payments(host: &Host) -> u64 {
    host.get("/health").await.is(200).json()["stored"]["payments"]["count"].as_u64().unwrap()
}

/// Reverts the chain to `snapshot`, and waits until the host reports it for a receipt.
async fn taken_back(chain: &Chain, snapshot: &Value, host: &Host, receipt: &str) -> Value {
    chain.rpc("evm_revert", json!([snapshot])).await;
    let answer = eventually("it is noticed", LONG, async || state(host, receipt).await).await;
    assert_eq!((&answer["state"], chain.balance(PAY_TO).await), (&json!("reorganized"), 0));
    answer
}

async fn admin(host: &Host, path: &str) -> Value {
    host.manage(reqwest::Method::GET, path, &Value::Null).await.is(200).json()
}

#[tokio::test]
async fn a_reorganized_settlement_is_reported_everywhere_until_it_returns() {
    let chain = Chain::start().await;
    let mut host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let (receipt, transaction, payer) = settled(&chain, &host).await;
    let raw = chain.rpc("eth_getRawTransactionByHash", json!([transaction])).await;
    assert_eq!((state(&host, &receipt).await, chain.balance(PAY_TO).await), (None, 10_000));
    assert_eq!(admin(&host, "/ai/admin/ledger").await["agrees"], true);
    chain.rpc("evm_revert", json!([snapshot])).await;
    let answer = eventually("it is noticed", LONG, async || state(&host, &receipt).await).await;
    assert_eq!((&answer["state"], &answer["transaction"]), (&json!("reorganized"), &json!(transaction)));
    assert_eq!(host.get("/health").await.is(200).json()["reorganizedSettlements"], 1);
    let ledger = admin(&host, "/ai/admin/ledger").await;
    assert_eq!((&ledger["agrees"], &ledger["reorganized"][0]["receiptId"]), (&json!(false), &json!(receipt)));
    assert!(host.log().contains("a reorganization of the chain undid a settlement"), "{}", host.log());
    assert_eq!(chain.balance(PAY_TO).await, 0);
    host.kill9();
    let checked = tollhouse().args(["ledger", "check", "--data"]).arg(host.folder().join("data")).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && text.contains(&receipt) && text.contains("is no longer in a block"), "{checked:?}");
    host.restart().await;
    assert!(state(&host, &receipt).await.is_some());
    // The payer has money on the new chain, and the transaction is in a block again.
    chain.mint(&payer, FUNDS).await;
    chain.rpc("eth_sendRawTransaction", json!([raw])).await;
    eventually("it is back", LONG, async || state(&host, &receipt).await.is_none().then_some(())).await;
    assert_eq!(admin(&host, "/ai/admin/ledger").await["agrees"], true);
}

/// Anybody can send an authorization to the token contract.
#[tokio::test]
async fn a_reorganized_payment_that_somebody_else_sends_is_settled_again() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let receipt = host.call_paid("echo", &json!({}), &payment).await.is(200).receipt_id();
    let first = host.receipt(&receipt).await["transaction"].clone();
    let sent = chain.rpc("eth_getTransactionByHash", json!([first])).await;
    chain.rpc("evm_revert", json!([snapshot])).await;
    let stranger = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
    chain.send(json!({ "from": stranger, "to": sent["to"], "data": sent["input"] })).await;
    chain.rpc("anvil_mine", json!(["0x5"])).await;
    let answer = eventually("it is settled again", LONG, async || {
        state(&host, &receipt).await.filter(|settlement| settlement["state"] == "settled")
    })
    .await;
    assert_eq!((&answer["former"], chain.balance(PAY_TO).await), (&json!([first]), 10_000));
    assert_ne!(answer["transaction"], first);
    assert_eq!(host.get("/health").await.is(200).json()["reorganizedSettlements"], 0);
    assert_eq!(admin(&host, "/ai/admin/ledger").await["agrees"], true);
    let reconciled = admin(&host, "/ai/admin/reconciliation").await;
    assert_eq!(reconciled["agrees"], true, "{reconciled}");
}

/// The payer still has the money on the new chain.
#[tokio::test]
async fn a_reorganized_payment_that_is_unused_is_sent_again() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let receipt = host.call_paid("echo", &json!({}), &payment).await.is(200).receipt_id();
    taken_back(&chain, &snapshot, &host, &receipt).await;
    eventually("it is sent again", LONG, async || (chain.balance(PAY_TO).await == 10_000).then_some(())).await;
    // The transaction is another one, or the same if it has the same nonce and fees.
    eventually("it is settled again", LONG, async || {
        state(&host, &receipt).await.is_none_or(|settlement| settlement["state"] == "settled").then_some(())
    })
    .await;
    assert_eq!(admin(&host, "/ai/admin/ledger").await["agrees"], true);
}

/// Regression test: a host without other hosts on its store filled one missing nonce in 30 seconds, so that it settled
/// nothing for minutes.
#[tokio::test]
async fn new_payer_is_settled_soon_after_a_reorganization_dropped_eight_payments() {
    let chain = Chain::ticking().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    for _ in 0..8 {
        let payment = payer.pay(&host.challenge("echo").await);
        host.call_paid("echo", &json!({}), &payment).await.is(200);
    }
    assert_eq!(chain.balance(PAY_TO).await, 80_000);
    chain.rpc("evm_revert", json!([snapshot])).await;
    assert_eq!(chain.balance(PAY_TO).await, 0);
    let newcomer = Payer::new();
    chain.mint(&newcomer.address, FUNDS).await;
    let payment = newcomer.pay(&host.challenge("echo").await);
    let started = Instant::now();
    host.call_paid("echo", &json!({}), &payment).await.is(200);
    let elapsed = started.elapsed();
    // If it waited for the nonces of the dropped transactions, it would take until the host gives them up.
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    assert!(host.log().contains("a missing nonce is filled"), "{}", host.log());
    assert_eq!(chain.balance(&newcomer.address).await, FUNDS - 10_000);
}

#[tokio::test]
async fn a_block_that_is_replaced_by_another_of_its_height_is_noticed() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let (receipt, transaction, _) = settled(&chain, &host).await;
    chain.rpc("anvil_reorg", json!([1, []])).await;
    let mined = chain.rpc("eth_getTransactionReceipt", json!([transaction])).await;
    if !mined.is_null() {
        // The new block contains the transaction, so nothing is reported. That block is watched until it is safe.
        for _ in 0..3 {
            assert_eq!(state(&host, &receipt).await, None);
            assert_eq!(admin(&host, "/ai/admin/ledger").await["agrees"], true);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let before = payments(&host).await;
        chain.rpc("anvil_mine", json!(["0x5"])).await;
        eventually("its row goes", LONG, async || (payments(&host).await < before).then_some(())).await;
        assert_eq!((state(&host, &receipt).await, admin(&host, "/ai/admin/ledger").await["agrees"].clone()), (None, json!(true)));
        return;
    }
    let answer = eventually("it is noticed", LONG, async || state(&host, &receipt).await).await;
    assert_eq!(answer["state"], "reorganized");
}

#[tokio::test]
async fn a_settlement_whose_block_is_safe_is_watched_no_more() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let (receipt, ..) = settled(&chain, &host).await;
    chain.rpc("anvil_mine", json!(["0x5"])).await;
    let before = payments(&host).await;
    eventually("its row goes", LONG, async || (payments(&host).await < before).then_some(())).await;
    assert_eq!(state(&host, &receipt).await, None);
}

#[tokio::test]
async fn a_call_is_answered_once_its_settlement_has_the_confirmations_that_are_set() {
    let chain = Chain::start().await;
    let host = evm(&chain).env("TOLLHOUSE_CONFIRMATIONS", "3").start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let call = tokio::spawn(Host::try_send(host.paid_request("echo", &json!({}), &payment)));
    eventually("it is in a block", LONG, async || (chain.balance(PAY_TO).await == 10_000).then_some(())).await;
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "settling");
    assert!(!call.is_finished());
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    call.await.unwrap().unwrap().is(200);
}

#[tokio::test]
async fn reverted_facilitator_settlement_is_noticed_by_the_node() {
    let chain = Chain::start().await;
    let facilitator = chain.stock_facilitator().await;
    let host = Host::builder().settled_by(&facilitator.url).env("TOLLHOUSE_RPC_URL", &chain.url).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let (receipt, transaction, _) = settled(&chain, &host).await;
    assert_eq!((state(&host, &receipt).await, chain.balance(PAY_TO).await), (None, 10_000));
    assert_eq!(taken_back(&chain, &snapshot, &host, &receipt).await["transaction"], transaction);
    assert_eq!(admin(&host, "/ai/admin/ledger").await["reorganized"][0]["receiptId"], receipt);
}

#[tokio::test]
async fn reverted_permit_settlement_is_noticed() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    let challenge = publish_meter(&host).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    chain.approve(&payer.address).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let receipt = host.call_paid("meter", &json!({}), &payer.permit(&challenge)).await.is(200).receipt_id();
    assert_eq!((state(&host, &receipt).await, chain.balance(PAY_TO).await), (None, 12_300));
    taken_back(&chain, &snapshot, &host, &receipt).await;
    assert_eq!(admin(&host, "/ai/admin/ledger").await["reorganized"][0]["receiptId"], receipt);
}

#[tokio::test]
async fn reverted_registration_settlement_is_noticed() {
    const REGISTER: &str = "/ai/builders/register";
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    let (payer, applicant) = (Payer::new(), json!({ "name": "Toolsmith" }));
    chain.mint(&payer.address, 100 * FUNDS).await;
    let challenge = host.post(REGISTER, &applicant).await.is(402).decoded("payment-required");
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let payment = payer.pay(&challenge);
    let request = host.request(reqwest::Method::POST, REGISTER).header(payment.header, payment.encoded()).json(&applicant);
    host.send(request).await.is(200);
    let receipt = eventually("it has a receipt", LONG, async || {
        host.payment(&payment.id()).await.and_then(|payment| payment["receiptId"].as_str().map(str::to_owned))
    })
    .await;
    assert!(state(&host, &receipt).await.is_none() && chain.balance(PAY_TO).await > 0);
    taken_back(&chain, &snapshot, &host, &receipt).await;
    assert_eq!(admin(&host, "/ai/admin/ledger").await["reorganized"][0]["receiptId"], receipt);
}

/// One host of a database watches for all. When it ends, another continues.
#[tokio::test]
async fn settlements_of_all_hosts_are_watched_after_the_first_ended() {
    let (chain, server) = (Chain::start().await, Postgres::start());
    let how = evm(&chain).env("TOLLHOUSE_STORE", server.url()).env("TOLLHOUSE_BASE_URL", "https://tools.example");
    let mut first = how.start().await;
    let second = first.second().await;
    first.publish(&js("echo", 0.01, ECHO)).await;
    let snapshot = chain.rpc("evm_snapshot", json!([])).await;
    let (of_first, ..) = settled(&chain, &first).await;
    let (of_second, ..) = settled(&chain, &second).await;
    assert_eq!((state(&first, &of_second).await, state(&second, &of_first).await), (None, None));
    first.kill9();
    taken_back(&chain, &snapshot, &second, &of_first).await;
    taken_back_too(&second, &of_second).await;
    let ledger = admin(&second, "/ai/admin/ledger").await;
    assert_eq!((&ledger["agrees"], ledger["reorganized"].as_array().unwrap().len()), (&json!(false), 2), "{ledger}");
}

async fn taken_back_too(host: &Host, receipt: &str) {
    let answer = eventually("it is noticed", LONG, async || state(host, receipt).await).await;
    assert_eq!(answer["state"], "reorganized");
}
