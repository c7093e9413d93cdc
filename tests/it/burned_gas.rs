//! Gas that settlements burn without being paid: wallets that are contracts, on a chain.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{
    Answer, Chain, Host, Payer, Payment,
    chain::{CHAIN_PAYER_KEY, GAS_ADDRESS, evm},
    eventually, js,
};

const FUNDS: u64 = 1_000_000;
const WALLET: &str = "0x1234567890123456789012345678901234567890";

/// Counts its runs.
const COUNTER: &str = "let runs = 0; export default () => ({ run: ++runs });";

/// Regression: such a wallet made 539 unpaid calls in a minute, and burned 0.4 ETH.
#[tokio::test]
async fn wallet_that_depends_on_the_gas_price_is_rejected_before_the_run() {
    let chain = Chain::start().await;
    let host = evm(&chain).start().await;
    host.publish(&js("counter", 0.01, COUNTER)).await;
    chain.etch(WALLET, "PriceWallet").await;
    chain.mint(WALLET, FUNDS).await;
    let challenge = host.challenge("counter").await;
    let before = chain.rpc("eth_getBalance", json!([GAS_ADDRESS, "latest"])).await;
    for _ in 0..5 {
        let refused = host.call_paid("counter", &json!({}), &Payer::new().pay_for(WALLET, &challenge)).await.is(402);
        assert_eq!(refused.json()["error"], "invalid_exact_evm_transaction_simulation_failed");
    }
    assert_eq!(chain.rpc("eth_getBalance", json!([GAS_ADDRESS, "latest"])).await, before, "no gas was burned");
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let first = host.call_paid("counter", &json!({}), &payer.pay(&challenge)).await.is(200);
    assert_eq!(first.json()["run"], 1, "nothing ran before");
}

/// Makes one settlement of the wallet revert: the wallet approves during verification, but not on the chain.
async fn burn_by_wallet(chain: &Chain, host: &Host, challenge: &Value) {
    chain.rpc("evm_setAutomine", json!([false])).await;
    chain.etch(WALLET, "GenerousWallet").await;
    let call = sent(chain, host, &Payer::new().pay_for(WALLET, challenge)).await;
    chain.etch(WALLET, "BurnWallet").await;
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    assert_eq!(call.await.unwrap().is(502).json()["error"]["code"], "settlement_unknown");
    chain.etch(WALLET, "GenerousWallet").await;
    chain.rpc("evm_setAutomine", json!([true])).await;
}

/// Makes one settlement of a new payer with a key revert: its funds are gone when the transaction is mined.
async fn burn_by_key(chain: &Chain, host: &Host, challenge: &Value) {
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    chain.rpc("evm_setAutomine", json!([false])).await;
    let call = sent(chain, host, &payer.pay(challenge)).await;
    chain.empty(&payer.address).await;
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    assert_ne!(call.await.unwrap().status, 200);
    chain.rpc("evm_setAutomine", json!([true])).await;
}

/// Starts a call and waits until its settlement is sent but not mined.
async fn sent(chain: &Chain, host: &Host, payment: &Payment) -> JoinHandle<Answer> {
    let request = host.paid_request("counter", &json!({}), payment);
    let call = tokio::spawn(async { Host::try_send(request).await.unwrap() });
    eventually("its settlement is sent", Duration::from_secs(60), async || {
        (chain.rpc("txpool_status", json!([])).await["pending"] != "0x0").then_some(())
    })
    .await;
    call
}

async fn gas(host: &Host) -> Value {
    host.get("/health").await.is(200).json()["unpaid"]["gas"].clone()
}

/// Each restart once reset the count, and each of several hosts had its own.
#[tokio::test]
async fn burned_gas_counts_after_a_restart() {
    let chain = Chain::start().await;
    let mut host = evm(&chain).flag("--payer-reverts", 2).flag("--burned-gas", 0).start().await;
    host.publish(&js("counter", 0.01, COUNTER)).await;
    chain.mint(WALLET, FUNDS).await;
    let challenge = host.challenge("counter").await;
    burn_by_wallet(&chain, &host, &challenge).await;
    let before = gas(&host).await;
    assert_eq!(before["revertedLastHour"], 1, "{before}");
    // The count is written in the background, and is on the disk with the next durable write.
    tokio::time::sleep(Duration::from_secs(2)).await;
    host.mint(0.01).await;
    host.restart().await;
    for name in ["burnedLastHour", "revertedLastHour"] {
        assert_eq!(gas(&host).await[name], before[name], "{name}");
    }
    let challenge = host.challenge("counter").await;
    burn_by_wallet(&chain, &host, &challenge).await;
    let refused = host.call_paid("counter", &json!({}), &Payer::new().pay_for(WALLET, &challenge)).await;
    assert!(refused.has("ratelimit").contains("reverted-settlements"), "{refused:?}");
    // The first settlement is looked up again, but counts once.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(gas(&host).await["revertedLastHour"], 2);
}

/// Fresh keys and one cent could once close a builder's tools to customers within minutes.
#[tokio::test]
async fn new_payers_burn_half_and_customers_are_served() {
    let chain = Chain::start().await;
    for (limit, other) in [("--builder-burned-gas", "--burned-gas"), ("--burned-gas", "--builder-burned-gas")] {
        let mut host = evm(&chain).flag(limit, 100_000).flag(other, 0).start().await;
        host.publish(&js("counter", 0.01, COUNTER)).await;
        let customer = Payer::new();
        chain.mint(&customer.address, FUNDS).await;
        let challenge = host.challenge("counter").await;
        host.call_paid("counter", &json!({}), &customer.pay(&challenge)).await.is(200);
        let (fresh, mut burns) = (Payer::new(), 0);
        chain.mint(&fresh.address, FUNDS).await;
        while gas(&host).await["burnedLastHour"].as_u64().unwrap() < 50_000 {
            burn_by_key(&chain, &host, &challenge).await;
            burns += 1;
            assert!(burns < 5, "{}", gas(&host).await);
        }
        assert!(gas(&host).await["burnedLastHour"].as_u64().unwrap() < 100_000);
        for restarts in [false, true] {
            if restarts {
                // The list of customers is written every five seconds, and is on the disk with the next durable write.
                tokio::time::sleep(Duration::from_secs(7)).await;
                host.mint(0.01).await;
                host.restart().await;
            }
            let challenge = host.challenge("counter").await;
            let refused = host.call_paid("counter", &json!({}), &fresh.pay(&challenge)).await;
            assert!(refused.has("ratelimit").contains("burned-gas"), "{refused:?}");
            refused.fails(429, "rate_limited", "caller");
            host.call_paid("counter", &json!({}), &customer.pay(&challenge)).await.is(200);
        }
    }
}

#[tokio::test]
async fn payer_whose_settlements_are_reverted_waits_and_burned_gas_has_a_bound() {
    let chain = Chain::start().await;
    let host = evm(&chain).flag("--payer-reverts", 2).flag("--burned-gas", 0).start().await;
    host.publish(&js("counter", 0.01, COUNTER)).await;
    let payer = Payer::of(CHAIN_PAYER_KEY);
    for funded in [WALLET, &payer.address] {
        chain.mint(funded, FUNDS).await;
    }
    let challenge = host.challenge("counter").await;
    for _ in 0..2 {
        burn_by_wallet(&chain, &host, &challenge).await;
    }
    let health = host.get("/health").await.is(200).json()["unpaid"].clone();
    let gas = &health["gas"];
    assert_eq!((&health["runsLastMinute"], &gas["revertedLastHour"]), (&json!(2), &json!(2)), "{health}");
    assert!(gas["burnedLastHour"].as_u64().unwrap() > 100_000 && gas["burnedWei"] != "0", "{gas}");
    // This wallet is blocked for an hour.
    let refused = host.call_paid("counter", &json!({}), &Payer::new().pay_for(WALLET, &challenge)).await;
    assert!(refused.has("ratelimit").contains("reverted-settlements"), "{refused:?}");
    refused.fails(429, "rate_limited", "caller");
    assert_eq!(host.call_paid("counter", &json!({}), &payer.pay(&challenge)).await.is(200).json()["run"], 3);

    // With a budget of almost no gas, contracts are refused at once. Payers with a key are not.
    let host = evm(&chain).flag("--burned-gas", 1).start().await;
    host.publish(&js("counter", 0.01, COUNTER)).await;
    let challenge = host.challenge("counter").await;
    let refused = host.call_paid("counter", &json!({}), &Payer::new().pay_for(WALLET, &challenge)).await;
    assert_eq!(refused.has("retry-after"), "1");
    refused.fails(503, "gas_spent", "host");
    let credit = host.mint(1.0).await;
    assert_eq!(host.call_credit("counter", &json!({}), &credit).await.is(200).json()["run"], 1);
    assert_eq!(host.call_paid("counter", &json!({}), &payer.pay(&challenge)).await.is(200).json()["run"], 2);
}
