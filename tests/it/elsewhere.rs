//! Two stores with one `payTo` that get the same authorization at once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    Answer, Chain, Gateway, Host, HostBuilder, Payer, Payment,
    chain::{GAS_KEY, evm},
    eventually, js,
};

const FUNDS: u64 = 1_000_000;
/// The third of the keys that anvil funds.
const OTHER_GAS_KEY: &str = "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a";
const SECONDS: Duration = Duration::from_secs(60);

/// The log message, and the warning that `/health` shows for an hour.
const LOGGED: &str = "an authorization was used before this host used it";
const WARNED: &str = "used before this host used them";

/// Starts a host with a tool that runs for `ms` milliseconds.
async fn with_tool(how: HostBuilder, ms: u32) -> Host {
    let host = how.start().await;
    let source = format!("export default async () => {{ await new Promise((done) => setTimeout(done, {ms})); return {{ ok: true }}; }};");
    host.publish(&js("slow", 0.01, &source)).await;
    host
}

/// Returns one authorization, as shown to each of the hosts.
async fn one_for_both(chain: &Chain, hosts: [&Host; 2]) -> [Payment; 2] {
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    let one = payer.pay(&hosts[0].challenge("slow").await);
    let mut other = payer.pay(&hosts[1].challenge("slow").await);
    other.payload["payload"] = one.payload["payload"].clone();
    [one, other]
}

async fn warns(host: &Host) -> (bool, bool) {
    let warnings = host.get("/health").await.is(200).json()["unpaid"]["warnings"].clone();
    let is_warned = warnings.as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains(WARNED));
    (host.log().contains(LOGGED), is_warned)
}

fn call(host: &Host, payment: &Payment) -> tokio::task::JoinHandle<Answer> {
    let request = host.paid_request("slow", &json!({}), payment);
    tokio::spawn(async { Host::try_send(request).await.unwrap() })
}

#[tokio::test]
async fn stores_that_share_a_pay_to_are_warned_of_without_a_facilitator() {
    let chain = Chain::start().await;
    let gateways = [Gateway::before(&chain.url).await, Gateway::before(&chain.url).await];
    let first = with_tool(Host::builder().settling_at(&gateways[0].url, GAS_KEY), 0).await;
    let second = with_tool(Host::builder().settling_at(&gateways[1].url, OTHER_GAS_KEY), 0).await;
    let [one, other] = one_for_both(&chain, [&first, &second]).await;
    chain.rpc("evm_setAutomine", json!([false])).await;
    // The node simulates with pending transactions, so the later host would not send one if the other's were pending.
    gateways.iter().for_each(|gateway| gateway.hold(true));
    let (one, other) = (call(&first, &one), call(&second, &other));
    eventually("both hosts send a transaction", SECONDS, async || gateways.iter().all(|gateway| gateway.sent() > 0).then_some(())).await;
    gateways.iter().for_each(|gateway| gateway.hold(false));
    eventually("the node has both transactions", SECONDS, async || {
        (chain.rpc("txpool_status", json!([])).await["pending"] == "0x2").then_some(())
    })
    .await;
    chain.rpc("evm_setAutomine", json!([true])).await;
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    one.await.unwrap();
    other.await.unwrap();
    let warned = eventually("one of them says so", SECONDS, async || {
        let warned = [warns(&first).await, warns(&second).await];
        warned.contains(&(true, true)).then_some(warned)
    })
    .await;
    assert!(warned.contains(&(false, false)), "only the one that was slower: {warned:?}");

    // If the other host finishes before this one estimates gas, nothing is sent.
    let (slow, fast) = (with_tool(evm(&chain), 3_000).await, second);
    let [one, other] = one_for_both(&chain, [&slow, &fast]).await;
    let waits = call(&slow, &one);
    eventually("it runs", SECONDS, async || slow.payment(&one.id()).await).await;
    fast.call_paid("slow", &json!({}), &other).await.is(200);
    assert_ne!(waits.await.unwrap().status, 200);
    assert_eq!(warns(&slow).await, (true, true), "{}", slow.log());
}

#[tokio::test]
async fn stores_that_share_a_pay_to_are_warned_of_with_a_facilitator() {
    let chain = Chain::start().await;
    let facilitator = chain.stock_facilitator().await;
    for has_node in [true, false] {
        let how = || {
            let how = Host::builder().settled_by(&facilitator.url);
            if has_node { how.env("TOLLHOUSE_RPC_URL", &chain.url) } else { how }
        };
        let (slow, fast) = (with_tool(how(), 3_000).await, with_tool(how(), 0).await);
        let [one, other] = one_for_both(&chain, [&slow, &fast]).await;
        let waits = call(&slow, &one);
        eventually("it runs", SECONDS, async || slow.payment(&one.id()).await).await;
        let paid = fast.call_paid("slow", &json!({}), &other).await.is(200);
        let answer = waits.await.unwrap();
        let response: Value = slow.payment(&one.id()).await.unwrap();
        assert_eq!(warns(&slow).await, (true, true), "{has_node}: {answer:?} {response} {}", slow.log());
        assert_eq!(warns(&fast).await, (false, false), "{has_node}: {paid:?}");
    }
}
