//! Metered calls on a chain with x402's scheme `upto`: the standard client, the deployed Permit2
//! contract, and the settlement of the actual charge.

use std::time::Duration;

use alloy_primitives::U256;
use serde_json::{Value, json};

use crate::{
    clients::pays_with,
    harness::{
        Chain, Host, HostBuilder, LossMode, LossyFacilitator, PAY_TO, Payer, Payment,
        chain::{BASE_SEPOLIA, CHAIN_PAYER_KEY, evm, stock},
        eventually, js,
        permit::PERMIT2,
    },
};

/// Charges the amount in its input.
const METER: &str = "export default async ({ input }, ctx) => { await ctx.charge(input.cost ?? '0.0123'); return { echo: input }; };";

/// The initial funds of payers, the maximum price and the actual price of a call, in micro-dollars.
const FUNDS: u64 = 1_000_000;
const MAX: &str = "50000";
const COST: u64 = 12_300;

/// Starts a host with a metered tool. Waits until the host knows who settles.
async fn metered(how: HostBuilder) -> Host {
    let host = how.start().await;
    let mut tool = js("shout", 0.0, METER);
    tool["maxPriceUsd"] = json!(0.05);
    host.publish(&tool).await;
    eventually("it is asked for", Duration::from_secs(60), async || {
        (host.challenge("shout").await["accepts"][0]["amount"] == MAX).then_some(())
    })
    .await;
    host
}

/// Creates a payer with money who permits Permit2 to move it.
async fn payer(chain: &Chain) -> Payer {
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    chain.approve(&payer.address).await;
    payer
}

/// Returns the balances of payer and seller.
async fn balances(chain: &Chain, payer: &Payer) -> (u64, u64) {
    (chain.balance(&payer.address).await, chain.balance(PAY_TO).await)
}

async fn a_stock_client_pays_what_was_charged(chain: &Chain, how: HostBuilder) {
    let (host, payer) = (metered(how).await, payer(chain).await);
    assert_eq!(balances(chain, &payer).await, (FUNDS, 0));
    let done = pays_with("node".as_ref(), "pay.mjs", &host, Some(&payer)).await;
    let settlement = &done["settlement"];
    assert_eq!((&done["status"], &done["body"]), (&json!(200), &json!({ "echo": { "text": "hello" } })), "{done}\n{}", host.log());
    assert_eq!((&settlement["success"], &settlement["amount"]), (&json!(true), &json!(COST.to_string())), "{done}");
    assert_eq!(balances(chain, &payer).await, (FUNDS - COST, COST), "the rest of the most stays");
    let receipt = host.receipt(done["receiptId"].as_str().unwrap()).await;
    assert_eq!((&receipt["scheme"], &receipt["amount"]), (&json!("upto"), &settlement["amount"]));
    assert_eq!((&receipt["priceUsd"], &receipt["maxPriceUsd"]), (&json!(0.0123), &json!(0.05)));
    let mined = chain.rpc("eth_getTransactionReceipt", json!([receipt["transaction"]])).await;
    assert_eq!(mined["status"], "0x1", "{receipt}");
}

async fn a_permit_buys_one_answer_and_nothing_where_it_costs_nothing(chain: &Chain, how: HostBuilder) {
    let (host, payer) = (metered(how).await, payer(chain).await);
    let payment = payer.permit(&host.challenge("shout").await);
    let free = host.call_paid("shout", &json!({ "cost": 0 }), &payment).await.is(200);
    assert_eq!(host.receipt(&free.receipt_id()).await["priceUsd"], 0);
    assert_eq!(balances(chain, &payer).await, (FUNDS, 0), "nothing was charged");
    let input = json!({ "cost": "0.000001" });
    let bought = host.call_paid("shout", &input, &payment).await.is(200);
    assert_eq!(balances(chain, &payer).await, (FUNDS - 1, 1));
    let again = host.call_paid("shout", &input, &payment).await.is(200);
    assert_eq!((again.json(), again.receipt_id()), (bought.json(), bought.receipt_id()));
    assert_eq!(balances(chain, &payer).await, (FUNDS - 1, 1), "it is taken once");
}

async fn payer_without_permit2_approval_is_informed(chain: &Chain, how: HostBuilder) {
    let (host, payer) = (metered(how).await, Payer::new());
    chain.mint(&payer.address, FUNDS).await;
    let payment = payer.permit(&host.challenge("shout").await);
    let refused = host.call_paid("shout", &json!({}), &payment).await.is(402).json();
    assert_eq!(refused["error"], "permit2_allowance_required", "{refused}");
    chain.approve(&payer.address).await;
    host.call_paid("shout", &json!({}), &payment).await.is(200);
    assert_eq!(balances(chain, &payer).await, (FUNDS - COST, COST));
}

#[tokio::test]
async fn a_stock_client_pays_what_was_charged_through_the_stock_facilitator() {
    let chain = Chain::ticking().await;
    let facilitator = chain.stock_facilitator().await;
    a_stock_client_pays_what_was_charged(&chain, stock(&facilitator.url, &chain)).await;
}

#[tokio::test]
async fn a_permit_buys_one_answer_through_the_stock_facilitator() {
    let chain = Chain::ticking().await;
    let facilitator = chain.stock_facilitator().await;
    a_permit_buys_one_answer_and_nothing_where_it_costs_nothing(&chain, stock(&facilitator.url, &chain)).await;
}

#[tokio::test]
async fn a_payer_who_has_not_approved_is_informed_by_the_stock_facilitator() {
    let chain = Chain::ticking().await;
    let facilitator = chain.stock_facilitator().await;
    payer_without_permit2_approval_is_informed(&chain, stock(&facilitator.url, &chain)).await;
}

/// Without a facilitator the host settles itself.
#[tokio::test]
async fn a_stock_client_pays_what_was_charged_without_a_facilitator() {
    let chain = Chain::start().await;
    a_stock_client_pays_what_was_charged(&chain, evm(&chain)).await;
}

#[tokio::test]
async fn a_permit_buys_one_answer_without_a_facilitator() {
    let chain = Chain::start().await;
    a_permit_buys_one_answer_and_nothing_where_it_costs_nothing(&chain, evm(&chain)).await;
}

#[tokio::test]
async fn a_payer_who_has_not_approved_is_informed_without_a_facilitator() {
    let chain = Chain::start().await;
    payer_without_permit2_approval_is_informed(&chain, evm(&chain)).await;
}

#[tokio::test]
async fn a_wallet_that_is_a_contract_permits() {
    let chain = Chain::start().await;
    let host = metered(evm(&chain)).await;
    let (wallet, owner) = ("0x1234567890123456789012345678901234567890", Payer::of(CHAIN_PAYER_KEY));
    chain.mint(wallet, FUNDS).await;
    chain.approve(wallet).await;
    chain.etch(wallet, "OwnedWallet").await;
    let challenge = host.challenge("shout").await;
    let stranger = host.call_paid("shout", &json!({}), &Payer::new().permit_for(wallet, &challenge)).await.is(402).json();
    assert_eq!(stranger["error"], "invalid_permit2_signature", "{stranger}");
    host.call_paid("shout", &json!({}), &owner.permit_for(wallet, &challenge)).await.is(200);
    assert_eq!((chain.balance(wallet).await, chain.balance(PAY_TO).await), (FUNDS - COST, COST));
}

/// A transaction that was sent before the host ended is found afterwards, by the hash in its
/// intent. One that no node has is sent again.
async fn interrupted_settlement_is_taken_once(chain: &Chain, dropped: bool) {
    let mut host = metered(evm(chain).env("TOLLHOUSE_BASE_URL", "https://tools.example")).await;
    let payer = payer(chain).await;
    let challenge = host.challenge("shout").await;
    let payments: Vec<_> = (0..3).map(|_| payer.permit(&challenge)).collect();
    chain.rpc("evm_setAutomine", json!([false])).await;
    let requests: Vec<_> = payments.iter().map(|payment| host.paid_request("shout", &json!({}), payment)).collect();
    let calls: Vec<_> = requests.into_iter().map(|request| tokio::spawn(Host::try_send(request))).collect();
    eventually("all are sent", Duration::from_secs(60), async || {
        let pool = chain.rpc("txpool_status", json!([])).await;
        (pool["pending"] == "0x3").then_some(())
    })
    .await;
    if dropped {
        chain.rpc("anvil_dropAllTransactions", json!([])).await;
    }
    host.restart().await;
    for call in calls {
        assert!(call.await.unwrap().is_err(), "answered without a settlement");
    }
    chain.rpc("evm_setAutomine", json!([true])).await;
    for payment in &payments {
        let state = found(chain, &host, payment).await;
        assert_eq!(state["state"], "settled", "{state}");
        host.call_paid("shout", &json!({}), payment).await.is(200);
    }
    assert_eq!(balances(chain, &payer).await, (FUNDS - 3 * COST, 3 * COST));
}

#[tokio::test]
async fn a_permit_that_was_being_taken_when_the_host_ended_is_found() {
    interrupted_settlement_is_taken_once(&Chain::start().await, false).await;
}

#[tokio::test]
async fn a_permit_whose_transaction_was_lost_is_taken_by_another() {
    interrupted_settlement_is_taken_once(&Chain::start().await, true).await;
}

#[tokio::test]
async fn eight_permits_at_once_are_served_without_a_facilitator() {
    let chain = Chain::start().await;
    let (host, payer) = (metered(evm(&chain)).await, payer(&chain).await);
    let challenge = host.challenge("shout").await;
    let calls = (1..=8).map(|n: u64| {
        let request = host.paid_request("shout", &json!({ "cost": format!("0.00000{n}") }), &payer.permit(&challenge));
        async { Host::try_send(request).await.unwrap() }
    });
    let answers = futures_util::future::join_all(calls).await;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200; 8], "{}", host.log());
    assert_eq!(balances(&chain, &payer).await, (FUNDS - 36, 36), "each pays for its own call");
}

/// Waits until the result of a payment is found in final blocks of the chain. Returns the state.
async fn found(chain: &Chain, host: &Host, payment: &Payment) -> Value {
    chain.rpc("anvil_mine", json!(["0x3"])).await;
    eventually("its end is found", Duration::from_secs(120), async || {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] != "settling")
    })
    .await
}

/// The facilitator settled, but its answer was lost. The host reads the result from Permit2 and the
/// token.
#[tokio::test]
async fn a_permit_whose_settlement_nobody_saw_is_found_on_the_chain() {
    let chain = Chain::start().await;
    let facilitator = chain.stock_facilitator().await;
    let lossy = LossyFacilitator::before(&facilitator.url, LossMode::Answers).await;
    let (host, payer) = (metered(stock(&lossy.url, &chain)).await, payer(&chain).await);
    let payment = payer.permit(&host.challenge("shout").await);
    host.call_paid("shout", &json!({}), &payment).await.is(502);
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "settling");
    assert_eq!(balances(&chain, &payer).await, (FUNDS - COST, COST), "it is taken");
    let state = found(&chain, &host, &payment).await;
    assert_eq!(state["state"], "settled", "{state}");
    let mined = chain.rpc("eth_getTransactionReceipt", json!([state["transaction"]])).await;
    assert_eq!(mined["status"], "0x1", "{state}");
    let answer = host.call_paid("shout", &json!({}), &payment).await.is(200);
    assert_eq!(host.receipt(&answer.receipt_id()).await["amount"], COST.to_string());
    assert_eq!(balances(&chain, &payer).await, (FUNDS - COST, COST));
}

/// A permit that can no longer be settled buys nothing: the payer used its nonce up, or it expired.
#[tokio::test]
async fn a_permit_that_can_no_longer_be_taken_is_refused_by_the_chain() {
    let chain = Chain::start().await;
    let facilitator = chain.stock_facilitator().await;
    let lossy = LossyFacilitator::before(&facilitator.url, LossMode::Questions).await;
    let (host, payer) = (metered(stock(&lossy.url, &chain)).await, payer(&chain).await);
    let challenge = host.challenge("shout").await;
    let [used_up, ended] = [payer.permit(&challenge), payer.permit(&challenge)];
    let calls = [&used_up, &ended].map(|payment| async { host.call_paid("shout", &json!({}), payment).await.is(502) });
    futures_util::future::join_all(calls).await;
    let nonce: U256 = used_up.payload["payload"]["permit2Authorization"]["nonce"].as_str().unwrap().parse().unwrap();
    let mask = U256::ONE << (nonce & U256::from(0xff)).to::<usize>();
    let invalidate = format!("0x3ff9dcb1{:064x}{mask:064x}", nonce >> 8);
    chain.send(json!({ "from": payer.address, "to": PERMIT2, "data": invalidate })).await;
    let state = found(&chain, &host, &used_up).await;
    assert_eq!((&state["state"], &state["reason"]), (&json!("refused"), &json!("permit2_invalid_nonce")));
    assert_eq!(host.payment(&ended.id()).await.unwrap()["state"], "settling");
    chain.rpc("evm_increaseTime", json!([400])).await;
    let state = found(&chain, &host, &ended).await;
    assert_eq!((&state["state"], &state["reason"]), (&json!("refused"), &json!("permit2_deadline_expired")));
    assert_eq!(balances(&chain, &payer).await, (FUNDS, 0));
}

/// Ten permits, with funds for one, once ran ten times and paid once.
#[tokio::test]
async fn permits_at_once_run_no_more_often_than_the_balance_or_the_allowance_covers() {
    const SLOW: &str = "export default async ({ input }, ctx) => {
        await new Promise((done) => setTimeout(done, 5_000));
        await ctx.charge('0.05');
        return { echo: input };
    };";
    let chain = Chain::start().await;
    let host = metered(evm(&chain)).await;
    let mut tool = js("slow", 0.0, SLOW);
    tool["maxPriceUsd"] = json!(0.05);
    tool["limits"] = json!({ "wallMs": 30_000 });
    host.publish(&tool).await;
    let challenge = host.challenge("slow").await;
    let price: u64 = MAX.parse().unwrap();
    for (funds, allowance) in [(price, None), (FUNDS, Some(price))] {
        let payer = Payer::new();
        chain.mint(&payer.address, funds).await;
        chain.approve(&payer.address).await;
        if let Some(allowance) = allowance {
            let approve = format!("0x095ea7b3{:0>64}{allowance:064x}", &PERMIT2[2..]);
            chain.send(json!({ "from": payer.address, "to": BASE_SEPOLIA.1, "data": approve })).await;
        }
        let calls = (0..10).map(|n| {
            let request = host.paid_request("slow", &json!({ "n": n }), &payer.permit(&challenge));
            async { Host::try_send(request).await.unwrap() }
        });
        let answers = futures_util::future::join_all(calls).await;
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [&[200][..], &[429; 9]].concat(), "{funds} {allowance:?}: {}", host.log());
        for answer in answers.iter().filter(|answer| answer.status == 429) {
            answer.fails(429, "rate_limited", "caller");
        }
        assert_eq!(chain.balance(&payer.address).await, funds - price);
    }
}
