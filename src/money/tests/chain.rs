//! Requests to a chain and the decisions from it. A node that cannot know decides nothing.

use super::{
    node::{Chain, Node, TRANSACTION, canceled, paid},
    *,
};
use crate::facilitator::chain::node;

/// A minute after the payment expires.
const EXPIRED: Timestamp = Timestamp(NOW.0 + 360_000);

/// Returns the decision from this chain.
async fn judged(chain: Chain) -> (SettleOutcome, Arc<Node>) {
    let node = Node::of(chain).await;
    let outcome = node::Node::new(&node.url, ASSETS[0].network).unwrap().nonce_state(&Payer::new(1).payment(1), NOW).await;
    (outcome, node)
}

fn settled(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION)
}

fn refused(outcome: &SettleOutcome, code: &str) -> bool {
    matches!(outcome, SettleOutcome::Refused { reason, .. } if reason == code)
}

fn open(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Unknown(_))
}

fn hex(number: &Value) -> u64 {
    u64::from_str_radix(number.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[tokio::test]
async fn a_transfer_is_found_by_its_event() {
    let (outcome, node) = judged(Chain::at(EXPIRED).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    assert!(settled(&outcome), "{outcome:?}");
    let request = node.requested.lock().unwrap();
    let methods: Vec<_> = request.iter().map(|question| question["method"].as_str().unwrap()).collect();
    let (last, middle) = (methods.len() - 1, &methods[3..methods.len() - 2]);
    assert_eq!(methods[..3], ["eth_chainId", "eth_getBlockByNumber", "eth_call"], "which chain, then up to when, then the state");
    assert!(middle.iter().all(|method| ["eth_getBlockByNumber", "eth_getLogs"].contains(method)), "{methods:?}");
    assert_eq!(methods[last - 1..], ["eth_getLogs", "eth_getTransactionReceipt"]);
    assert_eq!(request[1]["params"][0], "safe");
    assert_eq!(request[2]["params"][1]["blockHash"], format!("0x{:064x}", 100_000), "by the state of the very block whose time was read");
    let filter = &request[last - 1]["params"][0];
    assert!(
        hex(&filter["fromBlock"]) > 95_000 && hex(&filter["toBlock"]) <= 100_000,
        "from about the intent on, to the block that stays: {filter}"
    );
}

#[tokio::test]
async fn events_are_asked_for_in_ranges_that_the_node_allows() {
    let (outcome, node) = judged(Chain { max_span: 15, ..Chain::at(EXPIRED).spending(98_100, paid(PAY_TO, PRICE.0)) }).await;
    assert!(settled(&outcome), "{outcome:?}");
    assert!(node.times("eth_getLogs") < 100);
}

/// Regression test: a busy payer had more transfers in a thousand blocks than are read at once, so the settlement
/// stayed open forever.
#[tokio::test]
async fn blocks_with_more_events_than_are_read_at_once_are_asked_for_in_smaller_ranges() {
    for (heavy_span, least) in [(100, 62), (4, 3), (1, 1)] {
        let (outcome, node) = judged(Chain { heavy_span, ..Chain::at(EXPIRED).spending(98_010, paid(PAY_TO, PRICE.0)) }).await;
        assert!(settled(&outcome), "{outcome:?}");
        let request = node.requested.lock().unwrap();
        let filters = request.iter().filter(|question| question["method"] == "eth_getLogs").map(|question| &question["params"][0]);
        let narrowest = filters.map(|filter| hex(&filter["toBlock"]) - hex(&filter["fromBlock"]) + 1).min();
        assert_eq!(narrowest, Some(least));
    }
    let (outcome, node) = judged(Chain { heavy_span: 0, ..Chain::at(EXPIRED).spending(98_010, paid(PAY_TO, PRICE.0)) }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getLogs"), 6, "1000, 250, 62, 15, 3 and 1 blocks");
}

#[tokio::test]
async fn every_block_is_looked_through_once_to_the_last_that_stays() {
    let (outcome, node) = judged(Chain { max_span: 1_000, ..Chain::at(EXPIRED).spending(100_000, paid(PAY_TO, PRICE.0)) }).await;
    assert!(settled(&outcome), "{outcome:?}");
    let request = node.requested.lock().unwrap();
    let filters = request.iter().filter(|question| question["method"] == "eth_getLogs").map(|question| &question["params"][0]);
    let ranges: Vec<_> = filters.map(|filter| (hex(&filter["fromBlock"]), hex(&filter["toBlock"]))).collect();
    assert_eq!(ranges, [(98_000, 98_999), (99_000, 99_999), (100_000, 100_000)]);
}

#[tokio::test]
async fn a_node_that_refuses_to_look_is_asked_for_less_until_it_is_little() {
    let refuses = ("eth_getLogs", json!({ "code": -32005, "message": "query exceeds max block range" }));
    let (outcome, node) = judged(Chain { instead: Some(refuses), ..Chain::at(EXPIRED).spending(99_990, paid(PAY_TO, PRICE.0)) }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getLogs"), 5, "1000, 250, 62, 15 and 10 blocks");
}

#[tokio::test]
async fn the_block_of_an_old_intent_is_found_in_few_questions() {
    let intent = 60_000;
    let at = Timestamp(NOW.0 + (100_000 - intent) * 2_000 - 3_600_000);
    let (_, node) = judged(Chain::at(at).spending(intent, paid(PAY_TO, PRICE.0))).await;
    let request = node.requested.lock().unwrap();
    let blocks = request.iter().filter(|question| question["method"] == "eth_getBlockByNumber").map(|question| &question["params"][0]);
    let numbers: Vec<_> = blocks.filter(|number| *number != "safe").map(hex).collect();
    let back = [99_000, 97_000, 93_000, 85_000, 69_000, 37_000];
    assert_eq!(numbers, [&back[..], &[53_000, 61_000, 57_000, 59_000, 60_000]].concat(), "back in growing steps, then by halves");
}

#[tokio::test]
async fn a_transaction_decides_when_it_has_the_event_and_stays() {
    let receipt = |hash: &str, block: u64, logs: Vec<Value>| json!({ "transactionHash": hash, "status": "0x1", "blockNumber": format!("{block:#x}"), "logs": logs });
    let describe = async |receipt: Value| {
        let instead = Some(("eth_getTransactionReceipt", receipt));
        judged(Chain { instead, ..Chain::at(EXPIRED).spending(99_990, paid(PAY_TO, PRICE.0)) }).await.0
    };
    let logs = paid(PAY_TO, PRICE.0);
    assert!(settled(&describe(receipt(TRANSACTION, 100_000, logs.clone())).await));
    assert!(open(&describe(receipt(TRANSACTION, 100_001, logs.clone())).await), "its block may be replaced");
    assert!(open(&describe(receipt(&TRANSACTION.replace('1', "2"), 99_990, logs)).await), "it is another transaction");
    assert!(open(&describe(receipt(TRANSACTION, 99_990, vec![])).await), "the event is not in it");
}

/// A payer who signs and sends another transfer with the same nonce to itself has not paid.
#[tokio::test]
async fn a_nonce_that_was_used_for_another_transfer_has_not_paid() {
    for other in [paid(&Payer::new(1).address(), PRICE.0), paid(PAY_TO, 0), paid(PAY_TO, PRICE.0)[..2].to_vec()] {
        let (outcome, _) = judged(Chain::at(NOW).spending(99_990, other)).await;
        assert!(refused(&outcome, "invalid_exact_evm_nonce_already_used"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_canceled_authorization_is_refused() {
    let (outcome, _) = judged(Chain::at(NOW).spending(99_990, canceled())).await;
    assert!(refused(&outcome, "authorization_canceled"), "{outcome:?}");
}

#[tokio::test]
async fn an_authorization_is_refused_once_it_has_expired_unused_at_a_block_that_stays() {
    let until = Timestamp(NOW.0 + 300_000);
    let (outcome, _) = judged(Chain::at(until)).await;
    assert!(refused(&outcome, "invalid_exact_evm_payload_authorization_valid_before"), "{outcome:?}");
    let (outcome, _) = judged(Chain::at(Timestamp(until.0 - 1_000))).await;
    assert!(open(&outcome), "it may still be on its way: {outcome:?}");
}

#[tokio::test]
async fn replaceable_block_decides_nothing() {
    let (outcome, node) = judged(Chain::at(NOW).spending(100_001, paid(PAY_TO, PRICE.0))).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getLogs"), 0);
}

#[tokio::test]
async fn a_node_of_another_chain_decides_nothing() {
    let (outcome, node) = judged(Chain { id: 8_453, ..Chain::at(EXPIRED) }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.requested.lock().unwrap().len(), 1, "it is asked no more");
}

#[tokio::test]
async fn a_node_is_asked_for_its_chain_again_when_it_was_away() {
    let node = Node::of(Chain::at(EXPIRED)).await;
    let client = node::Node::new(&node.url, ASSETS[0].network).unwrap();
    for _ in 0..2 {
        client.is_recently_spent(&Payer::new(1).payment(1)).await.unwrap();
    }
    assert_eq!(node.times("eth_chainId"), 1, "once while it is there");
    node.chain.lock().unwrap().id = 1;
    assert!(open(&client.nonce_state(&Payer::new(1).payment(1), NOW).await), "a final settlement needs no memory");
}

#[tokio::test]
async fn a_node_that_lags_prunes_or_misbehaves_decides_nothing() {
    let spent = || Chain::at(EXPIRED).spending(99_990, paid(PAY_TO, PRICE.0));
    let mut other = paid(PAY_TO, PRICE.0)[1].clone();
    other["topics"][2] = json!(format!("0x{:064x}", 2));
    let fails = || json!({ "code": -32000, "message": "header not found" });
    for (name, chain) in [
        ("it lags", Chain::at(Timestamp(NOW.0 - 3_600_000))),
        ("it has not the block that it named", Chain { instead: Some(("eth_call", fails())), ..spent() }),
        ("it has no safe block", Chain { instead: Some(("eth_getBlockByNumber", Value::Null)), ..spent() }),
        ("it has pruned the events", Chain { pruned_before: 99_995, ..spent() }),
        ("it has no events", Chain { instead: Some(("eth_getLogs", json!([]))), ..spent() }),
        ("its events are none", Chain { instead: Some(("eth_getLogs", json!("logs"))), ..spent() }),
        ("it refuses to look", Chain { instead: Some(("eth_getLogs", fails())), ..spent() }),
        ("its events are of another nonce", Chain { instead: Some(("eth_getLogs", json!([other]))), ..spent() }),
        ("the transaction is missing", Chain { instead: Some(("eth_getTransactionReceipt", Value::Null)), ..spent() }),
        ("there is no such token", Chain { instead: Some(("eth_call", json!("0x"))), ..Chain::at(EXPIRED) }),
        ("the token says something else", Chain { instead: Some(("eth_call", json!(format!("0x{:064x}", 7)))), ..Chain::at(EXPIRED) }),
    ] {
        let (outcome, _) = judged(chain).await;
        assert!(open(&outcome), "{name}: {outcome:?}");
    }
    let nobody = node::Node::new("http://127.0.0.1:1/secret", ASSETS[0].network).unwrap();
    let SettleOutcome::Unknown(reason) = nobody.nonce_state(&Payer::new(1).payment(1), NOW).await else { panic!("decided") };
    assert!(!reason.contains("secret") && !format!("{nobody:?}").contains("secret"), "{reason}");
}

#[tokio::test]
async fn payment_on_another_network_is_not_polled() {
    let node = Node::of(Chain::at(EXPIRED)).await;
    let outcome = node::Node::new(&node.url, ASSETS[1].network).unwrap().nonce_state(&Payer::new(1).payment(1), NOW).await;
    assert!(open(&outcome), "{outcome:?}");
    assert!(node.requested.lock().unwrap().is_empty());
}
