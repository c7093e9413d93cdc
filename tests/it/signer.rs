//! The key that pays for gas, with other users of the key, forgetful nodes, and kills. Each payment
//! moves money once, and none is lost.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    crash::ASKED,
    harness::{
        Chain, Host, HostBuilder, PAY_TO, Payer, Payment,
        chain::{GAS_ADDRESS, evm},
        eventually, js,
        postgres::Postgres,
        random, rounds_requested,
    },
};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

/// The initial funds of payers and the price of a call, in micro-dollars.
const FUNDS: u64 = 1_000_000_000;
const PRICE: u64 = 10_000;
const LONG: Duration = Duration::from_secs(120);
/// Default number of kills during paid calls. The number of kills during starts is the same.
const ROUNDS: usize = 5;
const PAYERS: usize = 6;
/// Maximum time from the first paid calls to the kill.
const MAX_MS: u64 = 500;

/// Returns the configuration of a host that settles on `chain` itself.
fn settling(chain: &Chain) -> HostBuilder {
    let how = evm(chain);
    how.env("TOLLHOUSE_BASE_URL", "https://tools.example")
}

/// Starts such a host with a tool. Returns the tool's challenge.
async fn paid_host(chain: &Chain) -> (Host, Value) {
    priced(settling(chain).start().await).await
}

/// Publishes a tool on a host. Returns its challenge.
async fn priced(host: Host) -> (Host, Value) {
    host.publish(&js("echo", 0.01, ECHO)).await;
    let challenge = host.challenge("echo").await;
    (host, challenge)
}

async fn payer(chain: &Chain) -> Payer {
    let payer = Payer::new();
    chain.mint(&payer.address, FUNDS).await;
    payer
}

/// Checks the balances of the payer and of the host's owner after this number of payments.
async fn paid_times(chain: &Chain, payer: &Payer, times: u64) {
    assert_eq!((chain.balance(&payer.address).await, chain.balance(PAY_TO).await), (FUNDS - times * PRICE, times * PRICE));
}

/// Returns the hashes of pending transactions, by nonce.
async fn waiting(chain: &Chain) -> Vec<String> {
    let pool = chain.rpc("txpool_content", json!([])).await;
    let mut found: Vec<(u64, String)> = vec![];
    for kind in ["pending", "queued"] {
        for (_, of) in pool[kind].as_object().into_iter().flatten() {
            let sent = of.as_object().into_iter().flatten();
            found.extend(sent.map(|(nonce, sent)| (nonce.parse().unwrap(), sent["hash"].as_str().unwrap().to_owned())));
        }
    }
    found.sort();
    found.into_iter().map(|(_, hash)| hash).collect()
}

/// Starts a call for each payment, and waits until all transactions are in the node's pool, but not
/// in a block. Returns their hashes.
async fn cut_off(chain: &Chain, host: &Host, payments: &[Payment]) -> Vec<String> {
    chain.rpc("evm_setAutomine", json!([false])).await;
    let requests: Vec<_> = payments.iter().map(|payment| host.paid_request("echo", &json!({}), payment)).collect();
    requests.into_iter().for_each(|request| drop(tokio::spawn(Host::try_send(request))));
    eventually("all are sent", LONG, async || {
        let waiting = waiting(chain).await;
        (waiting.len() == payments.len()).then_some(waiting)
    })
    .await
}

/// Checks that each payment is settled, and that a repetition gets the answer.
async fn all_settled(chain: &Chain, host: &Host, payments: &[Payment]) {
    for payment in payments {
        eventually("it is found", LONG, async || {
            chain.rpc("anvil_mine", json!(["0x1"])).await;
            host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
        })
        .await;
        host.call_paid("echo", &json!({}), payment).await.is(200);
    }
}

#[tokio::test]
async fn nonce_used_by_somebody_else_loses_no_payment() {
    let chain = Chain::start().await;
    let (host, challenge) = paid_host(&chain).await;
    let payer = payer(&chain).await;
    for n in 1..=3 {
        // Another user of the key takes the next nonce, on which the host relies.
        for _ in 0..n {
            chain.rpc("eth_sendTransaction", json!([{ "from": GAS_ADDRESS, "to": GAS_ADDRESS, "value": "0x1" }])).await;
        }
        let payment = payer.pay(&challenge);
        eventually("it is served", LONG, async || {
            let answer = host.call_paid("echo", &json!({}), &payment).await;
            (answer.status == 200).then_some(())
        })
        .await;
        paid_times(&chain, &payer, n).await;
    }
}

/// Returns the number of the key's transactions that are in blocks.
async fn used(chain: &Chain) -> u64 {
    let count = chain.rpc("eth_getTransactionCount", json!([GAS_ADDRESS, "latest"])).await;
    u64::from_str_radix(count.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Regression: two hosts used one nonce for two settlements. The node refused one of them, and that
/// run was not paid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_of_one_database_pay_gas_with_one_key_and_none_takes_the_nonce_of_another() {
    let server = Postgres::start();
    let chain = Chain::start().await;
    let (host, challenge) = priced(settling(&chain).env("TOLLHOUSE_STORE", server.url()).start().await).await;
    let hosts = [host.second().await, host];
    let payer = payer(&chain).await;
    let before = used(&chain).await;
    let pay = |n: usize| hosts[n % 2].paid_request("echo", &json!({ "n": n }), &payer.pay(&challenge));
    let mut answers = vec![];
    for n in 0..6 {
        answers.push(hosts[n % 2].send(pay(n)).await);
    }
    answers.extend(join_all((6..22).map(|n| hosts[n % 2].send(pay(n)))).await);
    let mut transactions = vec![];
    for answer in answers {
        let receipt = hosts[0].receipt(&answer.is(200).receipt_id()).await;
        let mined = chain.rpc("eth_getTransactionReceipt", json!([receipt["transaction"]])).await;
        assert_eq!(mined["status"], "0x1", "{receipt}");
        transactions.push(receipt["transaction"].as_str().unwrap().to_owned());
    }
    transactions.sort();
    transactions.dedup();
    assert_eq!((transactions.len(), used(&chain).await - before), (22, 22), "each has its own, and no nonce is used for nothing");
    paid_times(&chain, &payer, 22).await;
}

/// The node forgets the first of three transactions. The others wait for its nonce, until it is
/// sent again with a higher fee.
#[tokio::test]
async fn dropped_transaction_does_not_block_others_forever() {
    let chain = Chain::start().await;
    let (host, challenge) = paid_host(&chain).await;
    let payer = payer(&chain).await;
    let payments: Vec<_> = (0..3).map(|_| payer.pay(&challenge)).collect();
    let hashes = cut_off(&chain, &host, &payments).await;
    chain.rpc("anvil_dropTransaction", json!([hashes[0]])).await;
    chain.rpc("evm_setAutomine", json!([true])).await;
    all_settled(&chain, &host, &payments).await;
    paid_times(&chain, &payer, 3).await;
}

#[tokio::test]
async fn transaction_mined_while_the_host_was_down_is_found() {
    let chain = Chain::start().await;
    let (mut host, challenge) = paid_host(&chain).await;
    let payer = payer(&chain).await;
    let payments: Vec<_> = (0..3).map(|_| payer.pay(&challenge)).collect();
    let hashes = cut_off(&chain, &host, &payments).await;
    host.kill9();
    chain.rpc("anvil_mine", json!(["0x1"])).await;
    chain.rpc("evm_setAutomine", json!([true])).await;
    host.restart().await;
    all_settled(&chain, &host, &payments).await;
    paid_times(&chain, &payer, 3).await;
    for payment in &payments {
        let state = host.payment(&payment.id()).await.unwrap();
        assert!(hashes.iter().any(|hash| state["transaction"] == **hash), "{state} is not of {hashes:?}");
    }
}

/// This simulates a kill between the intent and the transmission to the node.
#[tokio::test]
async fn dropped_transaction_is_sent_again_after_a_restart() {
    let chain = Chain::start().await;
    let (mut host, challenge) = paid_host(&chain).await;
    let payer = payer(&chain).await;
    let payments: Vec<_> = (0..3).map(|_| payer.pay(&challenge)).collect();
    let hashes = cut_off(&chain, &host, &payments).await;
    host.kill9();
    for hash in &hashes {
        chain.rpc("anvil_dropTransaction", json!([hash])).await;
    }
    chain.rpc("evm_setAutomine", json!([true])).await;
    host.restart().await;
    all_settled(&chain, &host, &payments).await;
    paid_times(&chain, &payer, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_of_a_host_that_settles_itself_moves_money_twice_or_without_a_receipt() {
    let mut random = random();
    let chain = Chain::start().await;
    let (mut host, challenge) = paid_host(&chain).await;
    let mut payers = vec![];
    for _ in 0..PAYERS {
        payers.push(payer(&chain).await);
    }
    let (mut moved, mut sent_in_all) = (0, 0);
    let rounds = rounds_requested(ASKED).map_or(ROUNDS, |kills| kills.div_ceil(2));
    for _ in 0..rounds {
        let wait = Duration::from_millis(random.u64(..MAX_MS));
        let sent = pay_until_killed(&mut host, &payers, &challenge, wait).await;
        host.restart_and_kill(Duration::from_millis(random.u64(..MAX_MS))).await;
        host.restart().await;
        eventually("open settlements are resolved", LONG, async || {
            chain.rpc("anvil_mine", json!(["0x1"])).await;
            (host.get("/health").await.is(200).json()["openSettlements"] == 0).then_some(())
        })
        .await;
        for (payment, acknowledged) in &sent {
            let state = host.payment(&payment.id()).await;
            let settled = state.as_ref().is_some_and(|state| state["state"] == "settled");
            assert!(settled || !acknowledged, "payment {} was answered, and is {state:?}", payment.id());
            if let Some(state) = state.filter(|_| settled) {
                moved += 1;
                let receipt = host.receipt(state["receiptId"].as_str().unwrap()).await;
                let mined = chain.rpc("eth_getTransactionReceipt", json!([receipt["transaction"]])).await;
                assert_eq!(mined["status"], "0x1", "{receipt}");
                host.call_paid("echo", &json!({}), payment).await.is(200);
            }
        }
        sent_in_all += sent.len();
        assert_eq!(chain.balance(PAY_TO).await, moved * PRICE, "moved amounts, and receipts");
    }
    println!("{} kills, half of them at start: {sent_in_all} payments sent, {moved} settled", rounds * 2);
}

/// Lets every payer send new payments until the host is killed. Returns the payments, and whether
/// each was answered with 200.
async fn pay_until_killed(host: &mut Host, payers: &[Payer], challenge: &Value, wait: Duration) -> Vec<(Payment, bool)> {
    let (removed, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let victim: &Host = host;
    let paying = join_all(payers.iter().map(async |payer| {
        while !removed.load(Ordering::SeqCst) {
            let payment = payer.pay(challenge);
            let answer = Host::try_send(victim.paid_request("echo", &json!({}), &payment)).await;
            sent.lock().unwrap().push((payment, answer.is_ok_and(|answer| answer.status == 200)));
        }
    }));
    tokio::join!(paying, victim.cut_power_after(wait, &removed));
    host.kill9();
    sent.into_inner().unwrap()
}
