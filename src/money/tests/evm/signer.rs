//! Tracking of sent transactions, and nonces that others wait for.

use super::*;

/// Returns a facilitator that replaces a transaction without waiting for a block.
fn hasty(node: &Node) -> Arc<EvmFacilitator> {
    facilitator(node, Duration::from_millis(1))
}

/// Signs for a payment.
async fn prepared(facilitator: &EvmFacilitator, nonce: u64) -> B256 {
    facilitator.prepare(&Payer::new(1).payment(nonce)).await.unwrap().unwrap().parse().unwrap()
}

/// Sends a signed transaction, and waits for its outcome in the background.
fn sending(facilitator: &Arc<EvmFacilitator>, nonce: u64, hash: B256) -> tokio::task::JoinHandle<SettleOutcome> {
    let (facilitator, started) =
        (Arc::clone(facilitator), StartedSettlement { transaction: Some(hash.to_string()), ..started_settlement() });
    tokio::spawn(async move { facilitator.settle(&Payer::new(1).payment(nonce), &started).await })
}

/// Returns all sent transactions once they meet a condition.
async fn sent(node: &Node, is_so: impl Fn(&[Sent]) -> bool) -> Vec<Sent> {
    until(|| {
        let sent: Vec<_> = node.chain.lock().unwrap().pool.iter().map(|raw| read(raw)).collect();
        is_so(&sent).then_some(sent)
    })
    .await
}

/// Returns whether it only uses up a nonce.
fn empty(sent: &Sent, nonce: u64) -> bool {
    sent.nonce == nonce && sent.to == signer() && sent.data.is_empty() && sent.gas == 21_000
}

fn settled_by(outcome: &SettleOutcome, hash: &str) -> bool {
    matches!(outcome, SettleOutcome::Settled(settlement) if settlement.transaction == hash)
}

/// If the node's answer was lost, the same transaction is sent again.
#[tokio::test]
async fn transaction_known_to_the_node_is_in_flight() {
    for message in ["already known", "Transaction with the same hash was already imported.", "known transaction: 0x11"] {
        let taken = Some(("eth_sendRawTransaction", json!({ "code": -32000, "message": message })));
        let node = Node::of(Chain { instead: taken, ..Chain::at(NOW) }).await;
        let facilitator = patient(&node);
        let hash = prepared(&facilitator, 1).await;
        node.chain.lock().unwrap().mined = Some(hash);
        let outcome = sending(&facilitator, 1, hash).await.unwrap();
        assert!(settled_by(&outcome, &hash.to_string()), "{message}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_replacement_that_the_node_does_not_take_leaves_the_first_in_flight() {
    let node = Node::of(Chain { max_sent: 1, ..Chain::at(NOW) }).await;
    let facilitator = hasty(&node);
    let hash = prepared(&facilitator, 1).await;
    let settling = sending(&facilitator, 1, hash);
    until(|| (node.times("eth_sendRawTransaction") > 2).then_some(())).await;
    {
        let mut chain = node.chain.lock().unwrap();
        chain.mined = Some(hash);
        chain.safe += 1;
    }
    let outcome = settling.await.unwrap();
    assert!(settled_by(&outcome, &hash.to_string()), "{outcome:?}");
}

#[tokio::test]
async fn block_is_searched_once_for_pending_transactions() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = patient(&node);
    let hash = prepared(&facilitator, 1).await;
    let settling = sending(&facilitator, 1, hash);
    until(|| (node.times("eth_getBlockByNumber") > 6).then_some(())).await;
    assert_eq!(node.times("eth_getTransactionReceipt"), 1);
    {
        let mut chain = node.chain.lock().unwrap();
        chain.mined = Some(hash);
        chain.safe += 1;
    }
    assert!(settled_by(&settling.await.unwrap(), &hash.to_string()));
    assert_eq!(node.times("eth_getTransactionReceipt"), 2);
}

/// Regression test: a transaction that was sent during a search of its block was found only at the next block.
#[tokio::test]
async fn transaction_sent_during_a_search_is_searched_for() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = patient(&node);
    let (first, second) = (prepared(&facilitator, 2).await, prepared(&facilitator, 1).await);
    node.held.send_replace(Some("eth_getTransactionReceipt"));
    let waiting = sending(&facilitator, 2, first);
    until(|| (node.times("eth_getTransactionReceipt") == 1).then_some(())).await;
    let settling = sending(&facilitator, 1, second);
    sent(&node, |sent| sent.len() == 2).await;
    node.chain.lock().unwrap().mined = Some(second);
    node.held.send_replace(None);
    assert!(settled_by(&settling.await.unwrap(), &second.to_string()));
    waiting.abort();
}

#[tokio::test]
async fn transaction_with_a_used_nonce_is_judged_by_the_chain() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = hasty(&node);
    let hash = prepared(&facilitator, 1).await;
    let settling = sending(&facilitator, 1, hash);
    sent(&node, |sent| !sent.is_empty()).await;
    {
        let mut chain = node.chain.lock().unwrap();
        (chain.used, chain.spent) = (8, Some((99_990, paid(PAY_TO, PRICE.0))));
    }
    let outcome = settling.await.unwrap();
    assert!(settled_by(&outcome, TRANSACTION), "{outcome:?}");
}

#[tokio::test]
async fn a_released_nonce_is_filled_for_the_transactions_that_wait() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = hasty(&node);
    let (first, second) = (prepared(&facilitator, 1).await, prepared(&facilitator, 2).await);
    let waiting = sending(&facilitator, 2, second);
    facilitator.abandon(&first.to_string());
    let sent = sent(&node, |sent| sent.iter().filter(|sent| sent.nonce == 7).count() > 1).await;
    let filled: Vec<_> = sent.iter().filter(|sent| sent.nonce == 7).collect();
    assert!(filled.iter().all(|sent| empty(sent, 7)) && filled[0].max < filled[1].max, "{filled:?}");
    waiting.abort();
}

/// Regression test: only one of the missing nonces was filled, and the transaction that waited for them was replaced.
#[tokio::test]
async fn nonces_that_a_reorganization_dropped_are_all_filled() {
    let node = Node::of(Chain { used: 17, ..Chain::at(NOW) }).await;
    let facilitator = hasty(&node);
    let hash = prepared(&facilitator, 1).await;
    node.chain.lock().unwrap().used = 7;
    let waiting = sending(&facilitator, 1, hash);
    let sent = sent(&node, |sent| (7..17).all(|nonce| sent.iter().any(|sent| empty(sent, nonce)))).await;
    assert_eq!(sent.iter().filter(|sent| sent.nonce == 17).count(), 1, "a higher price does not help it: {sent:?}");
    waiting.abort();
}

#[tokio::test]
async fn unmined_transaction_of_an_earlier_run_is_replaced() {
    let node = Node::of(Chain { remaining: 2, ..Chain::at(NOW) }).await;
    let facilitator = hasty(&node);
    let hash = prepared(&facilitator, 1).await;
    let waiting = sending(&facilitator, 1, hash);
    let sent = sent(&node, |sent| sent.iter().any(|sent| sent.nonce == 7)).await;
    assert!(sent.iter().all(|sent| empty(sent, 7) || (sent.nonce == 9 && !sent.data.is_empty())), "{sent:?}");
    waiting.abort();
}

/// The host was killed after taking the nonce and before sending.
#[tokio::test]
async fn a_nonce_another_host_never_sent_is_used_by_the_host_that_waits() {
    let node = Node::of(Chain::at(NOW)).await;
    let [removed, facilitator] = hosts(&node, Duration::from_millis(1));
    prepared(&removed, 1).await;
    let hash = prepared(&facilitator, 2).await;
    let waiting = sending(&facilitator, 2, hash);
    let sent = sent(&node, |sent| sent.iter().filter(|sent| sent.nonce == 7).count() > 1).await;
    assert!(sent.iter().all(|sent| empty(sent, 7) || (sent.nonce == 8 && !sent.data.is_empty())), "{sent:?}");
    assert_eq!(sent.iter().filter(|sent| sent.nonce == 8).count(), 1, "it does not block the others: {sent:?}");
    waiting.abort();
}

#[tokio::test]
async fn hosts_of_one_store_leave_each_others_transactions_alone() {
    let node = Node::of(Chain { remaining: 2, ..Chain::at(NOW) }).await;
    let [one, other] = hosts(&node, Duration::from_secs(600));
    let too_low = json!({ "code": -32000, "message": "nonce too low" });
    let hash = prepared(&one, 1).await;
    {
        let mut chain = node.chain.lock().unwrap();
        (chain.instead, chain.used, chain.remaining) = (Some(("eth_sendRawTransaction", too_low)), 10, 0);
    }
    let outcome = sending(&one, 1, hash).await.unwrap();
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "9 is a stranger's: {outcome:?}");
    {
        let mut chain = node.chain.lock().unwrap();
        (chain.instead, chain.remaining) = (None, 2);
    }
    let mut waiting = vec![];
    for (facilitator, nonce) in [(&one, 12), (&other, 13), (&one, 14)] {
        let hash = prepared(facilitator, nonce).await;
        waiting.push(sending(facilitator, nonce, hash));
        sent(&node, |sent| sent.last().is_some_and(|sent| sent.nonce == nonce && !sent.data.is_empty())).await;
    }
    assert_eq!(node.chain.lock().unwrap().pool.len(), 3);
    waiting.iter().for_each(|waiting| waiting.abort());
}

/// Some nodes do not queue, and earlier transactions may still come from another host.
#[tokio::test]
async fn early_transaction_is_sent_again_with_its_nonce() {
    let node = Node::of(Chain::at(NOW)).await;
    let [one, other] = hosts(&node, Duration::from_secs(600));
    let first = prepared(&other, 1).await;
    let second = prepared(&one, 2).await;
    let too_high = json!({ "code": -32000, "message": "nonce too high: address 0x1, tx: 8 state: 7" });
    node.chain.lock().unwrap().instead = Some(("eth_sendRawTransaction", too_high));
    let waiting = sending(&one, 2, second);
    until(|| (node.times("eth_sendRawTransaction") > 1).then_some(())).await;
    assert!(!waiting.is_finished(), "it is not given up");
    node.chain.lock().unwrap().instead = None;
    let others = sending(&other, 1, first);
    let sent = sent(&node, |sent| sent.len() > 1).await;
    let mut nonces: Vec<_> = sent.iter().map(|sent| sent.nonce).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, [7, 8]);
    [waiting, others].iter().for_each(|sending| sending.abort());
}
