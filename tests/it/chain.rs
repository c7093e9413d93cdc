//! Real payments, as far as one machine permits: standard payers, the standard facilitator, and a
//! chain with the USDC token.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::{
    clients::{pays_on, pays_with},
    harness::{
        Chain, Host, HostBuilder, PAY_TO, Payer,
        chain::{ARBITRUM, BASE, CHAIN_PAYER_KEY, GAS_ADDRESS, GAS_KEY, OwnChain, POLYGON, clients, evm, stock},
        eventually, js,
    },
};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

/// The initial funds of payers and the price of a call, in micro-dollars.
const FUNDS: u64 = 1_000_000;
const PRICE: u64 = 10_000;

/// Returns the standard payers: the program and its name for the network.
fn payers() -> [(PathBuf, &'static str, &'static str); 4] {
    let python = clients().join("venv/bin/python");
    [
        ("node".into(), "pay.mjs", "eip155:84532"),
        ("node".into(), "pay-v1.mjs", "base-sepolia"),
        (python.clone(), "pay.py", "eip155:84532"),
        (python, "pay-requests.py", "eip155:84532"),
    ]
}

/// Lets every standard payer pay for a call, and checks that the host's owner gets the money.
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

/// Sends eight different payments of one payer at once, and checks that all are served.
async fn eight_at_once_are_served(chain: &Chain, how: HostBuilder) -> Vec<String> {
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
    transactions
}

#[tokio::test]
async fn every_stock_payer_pays_on_a_chain_through_the_stock_facilitator() {
    let chain = Chain::ticking().await;
    let facilitator = chain.stock_facilitator().await;
    every_payer_pays(&chain, stock(&facilitator.url, &chain)).await;
}

/// Regression: the facilitator has one signer and used the same nonce for several payments. Three
/// of eight were served.
#[tokio::test]
async fn eight_different_payments_at_once_are_served_through_the_stock_facilitator() {
    let chain = Chain::ticking().await;
    let facilitator = chain.stock_facilitator().await;
    eight_at_once_are_served(&chain, stock(&facilitator.url, &chain)).await;
}

/// Without a facilitator the host sends the transactions itself.
#[tokio::test]
async fn every_stock_payer_pays_on_a_chain_without_a_facilitator() {
    let chain = Chain::start().await;
    every_payer_pays(&chain, evm(&chain)).await;
}

#[tokio::test]
async fn eight_different_payments_at_once_are_served_without_a_facilitator() {
    let chain = Chain::start().await;
    eight_at_once_are_served(&chain, evm(&chain)).await;
}

#[tokio::test]
async fn a_newcomer_sees_a_settlement_on_the_chain_of_the_documents() {
    let chain = OwnChain::start().await;
    let [url, gas, key] = ["url", "gasKey", "payerKey"].map(|name| chain.info[name].as_str().unwrap());
    let host = Host::builder().settling_at(url, gas).start().await;
    host.publish(&js("shout", 0.01, ECHO)).await;
    let done = pays_with("node".as_ref(), "pay.mjs", &host, Some(&Payer::of(key.trim_start_matches("0x")))).await;
    assert_eq!((&done["status"], &done["settlement"]["success"]), (&json!(200), &json!(true)), "{done}");
}

/// Regression: each transaction was sent only when the one before was in a block.
#[tokio::test]
async fn settlements_share_a_block() {
    let chain = Chain::with(&["--block-time", "2"]).await;
    let transactions = eight_at_once_are_served(&chain, evm(&chain)).await;
    let mut blocks = std::collections::BTreeSet::new();
    for transaction in transactions {
        blocks.insert(chain.rpc("eth_getTransactionReceipt", json!([transaction])).await["blockNumber"].as_str().unwrap().to_owned());
    }
    assert!(blocks.len() < 8, "each has a block of its own: {blocks:?}");
}

/// A transaction that was sent before the host ended is found afterwards, by the transaction hash
/// in its intent or by the token's event.
#[tokio::test]
async fn a_settlement_that_was_cut_off_while_no_block_came_is_found() {
    let chain = Chain::start().await;
    let mut host = evm(&chain).env("TOLLHOUSE_BASE_URL", "https://tools.example").start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    chain.rpc("evm_setAutomine", json!([false])).await;
    let payments: Vec<_> = {
        let challenge = host.challenge("echo").await;
        (0..3).map(|_| payer.pay(&challenge)).collect()
    };
    let requests: Vec<_> = payments.iter().map(|payment| host.paid_request("echo", &json!({}), payment)).collect();
    let calls: Vec<_> = requests.into_iter().map(|request| tokio::spawn(Host::try_send(request))).collect();
    eventually("all are sent", Duration::from_secs(60), async || {
        let pool = chain.rpc("txpool_status", json!([])).await;
        (pool["pending"] == "0x3").then_some(())
    })
    .await;
    host.restart().await;
    for call in calls {
        assert!(call.await.unwrap().is_err(), "answered without a settlement");
    }
    chain.rpc("evm_setAutomine", json!([true])).await;
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    for payment in &payments {
        eventually("it is found", Duration::from_secs(60), async || {
            host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
        })
        .await;
        host.call_paid("echo", &json!({}), payment).await.is(200);
    }
    assert_eq!((chain.balance(&payer.address).await, chain.balance(PAY_TO).await), (FUNDS - 3 * PRICE, 3 * PRICE));
}

#[tokio::test]
async fn a_wallet_that_is_a_contract_pays() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let (wallet, owner, stranger) = ("0x1234567890123456789012345678901234567890", Payer::of(CHAIN_PAYER_KEY), Payer::new());
    chain.etch(wallet, "OwnedWallet").await;
    chain.mint(wallet, FUNDS).await;
    let challenge = host.challenge("echo").await;
    host.call_paid("echo", &json!({}), &stranger.pay_for(wallet, &challenge)).await.is(402);
    host.call_paid("echo", &json!({}), &owner.pay_for(wallet, &challenge)).await.is(200);
    assert_eq!((chain.balance(wallet).await, chain.balance(PAY_TO).await), (FUNDS - PRICE, PRICE));
}

#[tokio::test]
async fn low_gas_is_reported_and_nobody_pays_for_nothing() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let response = eventually("the gas is looked at", Duration::from_secs(60), async || {
        let response = host.get("/health").await.is(200).json()["facilitator"].clone();
        response["balanceWei"].is_string().then_some(response)
    })
    .await;
    assert_eq!((&response["low"], response["signer"].as_str()), (&json!(false), Some(GAS_ADDRESS)));
    let metrics = String::from_utf8(host.get("/metrics").await.is(200).body.to_vec()).unwrap();
    for gauge in ["tollhouse_gas_balance_wei", "tollhouse_gas_settlements_left"] {
        assert!(metrics.contains(&format!("\n{gauge}{{network=\"eip155:84532\"}} ")), "{gauge}: {metrics}");
    }
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let payment = payer.pay(&host.challenge("echo").await);
    chain.rpc("anvil_setBalance", json!([GAS_ADDRESS, "0x1"])).await;
    host.call_paid("echo", &json!({}), &payment).await.fails(502, "facilitator_unavailable", "host");
    let response = eventually("it is reported", Duration::from_secs(60), async || {
        let response = host.get("/health").await.is(200).json()["facilitator"].clone();
        (response["low"] == true).then_some(response)
    })
    .await;
    assert_eq!(response["settlementsLeft"], 0);
    assert_eq!(chain.balance(&payer.address).await, FUNDS);
    assert!(!host.log().contains(&GAS_KEY[2..]), "the key is in the log");
    // The payment is unspent, and there is gas again.
    chain.rpc("anvil_setBalance", json!([GAS_ADDRESS, "0x56bc75e2d63100000"])).await;
    eventually("it is served", Duration::from_secs(150), async || {
        let answer = host.call_paid("echo", &json!({}), &payment).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_eq!(chain.balance(&payer.address).await, FUNDS - PRICE);
}

/// The facilitator settled, but its answer was lost. The host reads the result from the chain, and
/// serves the payer.
#[tokio::test]
async fn a_settlement_that_nobody_saw_is_found_on_the_chain() {
    let chain = Chain::start().await;
    let facilitator = crate::harness::Facilitator::start(crate::harness::SettleMode::Unanswered).await;
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
    // A transaction is final only when there are blocks after its own.
    chain.rpc("anvil_mine", json!(["0x3"])).await;
    let state = eventually("it is found", Duration::from_secs(60), async || {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
    })
    .await;
    assert_eq!(state["transaction"], settled["transaction"]);
    host.call_paid("echo", &json!({}), &payment).await.is(200);
    assert_eq!(chain.balance(PAY_TO).await, PRICE);
}

/// One host with two chains and a different settlement on each. Standard clients pay on the chain
/// that they choose.
#[tokio::test]
async fn stock_payers_pay_on_each_of_a_hosts_networks() {
    let (polygon, base) = (Chain::of(POLYGON, &[]).await, Chain::of(BASE, &[]).await);
    let facilitator = base.stock_facilitator().await;
    let host = evm(&polygon)
        .env("TOLLHOUSE_NETWORK", "base,eip155:137")
        .env("TOLLHOUSE_RPC_URL", &base.url)
        .env("TOLLHOUSE_NETWORK_RPC_URLS", format!("polygon={}", polygon.url))
        .env("TOLLHOUSE_NETWORK_FACILITATORS", format!("base={}", facilitator.url))
        .start()
        .await;
    host.publish(&js("shout", 0.01, ECHO)).await;
    let payments = [
        ("pay.mjs", "eip155:8453", "eip155:8453", &base),
        ("pay.mjs", "eip155:137", "eip155:137", &polygon),
        ("pay-v1.mjs", "base", "base", &base),
        ("pay-v1.mjs", "polygon", "polygon", &polygon),
    ];
    for (script, choice, network, chain) in payments {
        let payer = Payer::new();
        chain.mint(&payer.address, FUNDS).await;
        let before = [base.balance(PAY_TO).await, polygon.balance(PAY_TO).await];
        let done = pays_on(Some(choice), "node".as_ref(), script, &host, Some(&payer)).await;
        assert_eq!((&done["status"], &done["settlement"]["network"]), (&json!(200), &json!(network)), "{done}");
        assert_eq!(chain.balance(&payer.address).await, FUNDS - PRICE, "{script} on {network}");
        let after = [base.balance(PAY_TO).await, polygon.balance(PAY_TO).await];
        assert_eq!(after.iter().sum::<u64>(), before.iter().sum::<u64>() + PRICE, "{script} on {network}");
        let receipt = host.receipt(done["receiptId"].as_str().unwrap()).await;
        let caip2 = if network.starts_with("eip155") {
            network
        } else if network == "base" {
            "eip155:8453"
        } else {
            "eip155:137"
        };
        assert_eq!((&receipt["network"], &receipt["amount"]), (&json!(caip2), &json!("10000")));
    }
    // The clients of v2 pay with the first entry that they are offered, unless configured
    // otherwise.
    let payer = Payer::new();
    base.mint(&payer.address, FUNDS).await;
    let done = pays_with("node".as_ref(), "pay.mjs", &host, Some(&payer)).await;
    assert_eq!(done["settlement"]["network"], "eip155:8453", "{done}");
    let health = host.get("/health").await.is(200).json();
    assert_eq!(
        (&health["facilitators"]["eip155:8453"]["facilitator"], &health["facilitators"]["eip155:137"]["facilitator"]),
        (&json!("http"), &json!("evm"))
    );
    let reported = &health["payment"]["accepts"];
    assert_eq!(
        (&reported[0]["network"], &reported[1]["network"], &reported[2]),
        (&json!("eip155:8453"), &json!("eip155:137"), &Value::Null)
    );
}

/// The clients of v1 do not know this chain, and use the next entry.
#[tokio::test]
async fn arbitrum_is_paid_on_and_clients_of_v1_pay_elsewhere() {
    let (base, arbitrum) = (Chain::of(BASE, &[]).await, Chain::of(ARBITRUM, &[]).await);
    let host = evm(&base)
        .env("TOLLHOUSE_NETWORK", "arbitrum,base")
        .env("TOLLHOUSE_NETWORK_RPC_URLS", format!("arbitrum={},base={}", arbitrum.url, base.url))
        .start()
        .await;
    let mut tool = js("shout", 0.01, ECHO);
    host.publish(&tool).await;
    let payments = [("pay.mjs", None, &arbitrum, "eip155:42161"), ("pay-v1.mjs", Some("base"), &base, "base")];
    for (script, choice, chain, network) in payments {
        let payer = Payer::new();
        chain.mint(&payer.address, FUNDS).await;
        let done = pays_on(choice, "node".as_ref(), script, &host, Some(&payer)).await;
        assert_eq!((&done["status"], &done["settlement"]["network"]), (&json!(200), &json!(network)), "{done}");
        assert_eq!((chain.balance(&payer.address).await, chain.balance(PAY_TO).await), (FUNDS - PRICE, PRICE));
    }
    // A builder accepts only some of the networks.
    tool["slug"] = json!("base-only");
    tool["accepts"] = json!(["base"]);
    host.publish(&tool).await;
    let accepts = host.challenge("base-only").await["accepts"].clone();
    assert_eq!((&accepts[0]["network"], &accepts[1]), (&json!("eip155:8453"), &Value::Null));
}
