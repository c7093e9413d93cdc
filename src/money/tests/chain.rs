//! What a chain is asked, and what it decides. A node that cannot know decides nothing.

use super::{
    node::{Chain, Node, TRANSACTION, cancelled, paid},
    *,
};
use crate::money::facilitator::chain::node;

/// A minute after the payment's end.
const EXPIRED: Timestamp = Timestamp(NOW.0 + 360_000);

/// What the node says of the payment.
async fn judged(chain: Chain) -> (SettleOutcome, Arc<Node>) {
    let node = Node::of(chain).await;
    let outcome = node::Node::new(&node.url, &NETWORKS[0]).unwrap().judge(&Payer::new(1).payment(1), NOW).await;
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

#[tokio::test]
async fn a_transfer_is_found_by_its_event() {
    let (outcome, node) = judged(Chain::at(EXPIRED).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    assert!(settled(&outcome), "{outcome:?}");
    let asked = node.asked.lock().unwrap();
    let methods: Vec<_> = asked.iter().map(|question| question["method"].as_str().unwrap()).collect();
    let (last, middle) = (methods.len() - 1, &methods[3..methods.len() - 2]);
    assert_eq!(methods[..3], ["eth_chainId", "eth_getBlockByNumber", "eth_call"], "which chain, then up to when, then the state");
    assert!(middle.iter().all(|method| ["eth_getBlockByNumber", "eth_getLogs"].contains(method)), "{methods:?}");
    assert_eq!(methods[last - 1..], ["eth_getLogs", "eth_getTransactionReceipt"]);
    assert_eq!(asked[1]["params"][0], "safe");
    assert_eq!(asked[2]["params"][1]["blockHash"], format!("0x{:064x}", 100_000), "by the state of the very block whose time was read");
    let filter = &asked[last - 1]["params"][0];
    let number = |name: &str| u64::from_str_radix(filter[name].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    assert!(number("fromBlock") > 95_000 && number("toBlock") <= 100_000, "from about the intent on, to the block that stays: {filter}");
}

#[tokio::test]
async fn events_are_asked_for_in_ranges_that_the_node_allows() {
    let (outcome, node) = judged(Chain { most_span: 15, ..Chain::at(EXPIRED).spending(98_100, paid(PAY_TO, PRICE.0)) }).await;
    assert!(settled(&outcome), "{outcome:?}");
    assert!(node.times("eth_getLogs") < 100);
}

/// A payer who signs a second transfer under the same nonce, to itself, and sends that one, has not paid.
#[tokio::test]
async fn a_nonce_that_was_used_for_another_transfer_has_not_paid() {
    for other in [paid(&Payer::new(1).address(), PRICE.0), paid(PAY_TO, 0), paid(PAY_TO, PRICE.0)[..2].to_vec()] {
        let (outcome, _) = judged(Chain::at(NOW).spending(99_990, other)).await;
        assert!(refused(&outcome, "invalid_exact_evm_nonce_already_used"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_cancelled_authorization_is_refused() {
    let (outcome, _) = judged(Chain::at(NOW).spending(99_990, cancelled())).await;
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
async fn what_a_block_says_that_may_be_replaced_decides_nothing() {
    let (outcome, node) = judged(Chain::at(NOW).spending(100_001, paid(PAY_TO, PRICE.0))).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.times("eth_getLogs"), 0);
}

#[tokio::test]
async fn a_node_of_another_chain_decides_nothing() {
    let (outcome, node) = judged(Chain { id: 8_453, ..Chain::at(EXPIRED) }).await;
    assert!(open(&outcome), "{outcome:?}");
    assert_eq!(node.asked.lock().unwrap().len(), 1, "it is asked no more");
}

#[tokio::test]
async fn a_node_is_asked_for_its_chain_again_when_it_was_away() {
    let node = Node::of(Chain::at(EXPIRED)).await;
    let client = node::Node::new(&node.url, &NETWORKS[0]).unwrap();
    for _ in 0..2 {
        client.spent_lately(&Payer::new(1).payment(1)).await.unwrap();
    }
    assert_eq!(node.times("eth_chainId"), 1, "once while it is there");
    node.chain.lock().unwrap().id = 1;
    assert!(open(&client.judge(&Payer::new(1).payment(1), NOW).await), "what is final rests on no memory");
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
        ("it has pruned the events", Chain { kept_from: 99_995, ..spent() }),
        ("it has no events", Chain { instead: Some(("eth_getLogs", json!([]))), ..spent() }),
        ("its events are none", Chain { instead: Some(("eth_getLogs", json!("logs"))), ..spent() }),
        ("it refuses to look", Chain { instead: Some(("eth_getLogs", fails())), ..spent() }),
        ("its events are of another nonce", Chain { instead: Some(("eth_getLogs", json!([other]))), ..spent() }),
        ("the transaction is away", Chain { instead: Some(("eth_getTransactionReceipt", Value::Null)), ..spent() }),
        ("there is no such token", Chain { instead: Some(("eth_call", json!("0x"))), ..Chain::at(EXPIRED) }),
        ("the token says something else", Chain { instead: Some(("eth_call", json!(format!("0x{:064x}", 7)))), ..Chain::at(EXPIRED) }),
    ] {
        let (outcome, _) = judged(chain).await;
        assert!(open(&outcome), "{name}: {outcome:?}");
    }
    let nobody = node::Node::new("http://127.0.0.1:1/secret", &NETWORKS[0]).unwrap();
    let SettleOutcome::Unknown(why) = nobody.judge(&Payer::new(1).payment(1), NOW).await else { panic!("decided") };
    assert!(!why.contains("secret") && !format!("{nobody:?}").contains("secret"), "{why}");
}

#[tokio::test]
async fn a_payment_of_another_network_is_not_asked_about() {
    let node = Node::of(Chain::at(EXPIRED)).await;
    let outcome = node::Node::new(&node.url, &NETWORKS[1]).unwrap().judge(&Payer::new(1).payment(1), NOW).await;
    assert!(open(&outcome), "{outcome:?}");
    assert!(node.asked.lock().unwrap().is_empty());
}
