//! Real money as far as one machine goes: stock payers, the stock facilitator, and a chain with the dollar token.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::{
    clients::pays_with,
    harness::{Chain, Host, HostBuilder, PAY_TO, Payer, chain::clients, eventually, js},
};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

/// What payers have at first, and what a call costs, in micro-dollars.
const FUNDS: u64 = 1_000_000;
const PRICE: u64 = 10_000;

/// The stock payers: their program, and the network as they name it.
fn payers() -> [(PathBuf, &'static str, &'static str); 4] {
    let python = clients().join("venv/bin/python");
    [
        ("node".into(), "pay.mjs", "eip155:84532"),
        ("node".into(), "pay-v1.mjs", "base-sepolia"),
        (python.clone(), "pay.py", "eip155:84532"),
        (python, "pay-requests.py", "eip155:84532"),
    ]
}

/// Every stock payer pays for one call; what each pays is what the host's owner gets.
async fn every_payer_pays(chain: &Chain, how: HostBuilder) {
    let host = how.start().await;
    host.publish(&js("shout", 0.01, ECHO)).await;
    for (n, (program, script, network)) in payers().into_iter().enumerate() {
        let payer = Payer::new();
        chain.mint(&payer.address, FUNDS).await;
        let before = chain.balance(PAY_TO).await;
        let done = pays_with(&program, script, &host, Some(&payer)).await;
        assert_eq!((&done["status"], &done["body"]), (&json!(200), &json!({ "echo": { "text": "hello" } })), "{script}: {done}");
        let settlement = &done["settlement"];
        assert_eq!((&settlement["success"], &settlement["network"]), (&json!(true), &json!(network)), "{script}: {done}");
        assert_eq!((chain.balance(&payer.address).await, chain.balance(PAY_TO).await), (FUNDS - PRICE, before + PRICE), "{script}");
        let receipt = host.receipt(done["receiptId"].as_str().unwrap()).await;
        assert_eq!((&receipt["transaction"], &receipt["simulated"]), (&settlement["transaction"], &json!(false)), "{script}");
        let mined = chain.rpc("eth_getTransactionReceipt", json!([settlement["transaction"]])).await;
        assert_eq!(mined["status"], "0x1", "{script}");
        assert_eq!(chain.balance(PAY_TO).await, PRICE * (n as u64 + 1));
    }
}

/// Eight different payments of one payer's that arrive together are eight answers.
async fn eight_at_once_are_served(chain: &Chain, how: HostBuilder) {
    let host = how.start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let challenge = host.challenge("echo").await;
    let calls = (0..8).map(|n| {
        let payment = payer.pay(&challenge);
        let request = host.paid_request("echo", &json!({ "n": n }), &payment);
        async { Host::try_send(request).await.unwrap() }
    });
    let answers = futures_util::future::join_all(calls).await;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200; 8], "{}", host.log());
    assert_eq!((chain.balance(&payer.address).await, chain.balance(PAY_TO).await), (FUNDS - 8 * PRICE, 8 * PRICE));
    let mut transactions = vec![];
    for answer in &answers {
        transactions.push(host.receipt(&answer.receipt_id()).await["transaction"].as_str().unwrap().to_owned());
    }
    transactions.sort();
    transactions.dedup();
    assert_eq!(transactions.len(), 8, "each has its own");
}

fn stock(facilitator: &str, chain: &Chain) -> HostBuilder {
    Host::builder().settled_by(facilitator).env("TOLLHOUSE_RPC_URL", &chain.url)
}

#[tokio::test]
async fn every_stock_payer_pays_on_a_chain_through_the_stock_facilitator() {
    let chain = Chain::start().await;
    let facilitator = chain.stock_facilitator().await;
    every_payer_pays(&chain, stock(&facilitator.url, &chain)).await;
}

/// The facilitator has one signer, and gave several payments the same nonce of it: three of eight were served.
#[tokio::test]
async fn eight_different_payments_at_once_are_served_through_the_stock_facilitator() {
    let chain = Chain::start().await;
    let facilitator = chain.stock_facilitator().await;
    eight_at_once_are_served(&chain, stock(&facilitator.url, &chain)).await;
}

/// The facilitator moved the money and was not heard: the chain is asked, and the payer served.
#[tokio::test]
async fn a_settlement_that_nobody_heard_of_is_found_on_the_chain() {
    let chain = Chain::start().await;
    let facilitator = crate::harness::Facilitator::start(crate::harness::Settles::Unanswered).await;
    let host = stock(&facilitator.url, &chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let payment = payer.pay(&host.challenge("echo").await);
    host.call_paid("echo", &json!({}), &payment).await.is(502);
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "settling");
    let stock = chain.stock_facilitator().await;
    let question = json!({ "x402Version": 2, "paymentPayload": payment.payload, "paymentRequirements": payment.payload["accepted"] });
    let settled: Value = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("{}/settle", stock.url))
        .json(&question)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(settled["success"], true, "{settled}");
    // What is to stay has a block upon it.
    chain.rpc("anvil_mine", json!(["0x3"])).await;
    let state = eventually("it is found", Duration::from_secs(60), async || {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
    })
    .await;
    assert_eq!(state["transaction"], settled["transaction"]);
    host.call_paid("echo", &json!({}), &payment).await.is(200);
    assert_eq!(chain.balance(PAY_TO).await, PRICE);
}
