//! Settlements that a crash or a silent node left open.

use super::*;

#[tokio::test]
async fn a_transaction_that_was_reverted_took_nothing_once_its_block_stays() {
    let hash = B256::repeat_byte(9);
    let started = StartedSettlement { facilitator: Some("evm".to_owned()), transaction: Some(hash.to_string()), ..started_settlement() };
    for (block, refused) in [(100_000, true), (100_001, false)] {
        let node = Node::of(Chain { mined: Some(hash), mined_in: block, reverts: true, ..Chain::at(NOW) }).await;
        let outcome = patient(&node).resolve(&Payer::new(1).payment(1), &started).await;
        assert_eq!(matches!(outcome, SettleOutcome::Refused { .. }), refused, "{outcome:?}");
        assert!(node.chain.lock().unwrap().pool.is_empty(), "it is not sent again");
    }
}

#[tokio::test]
async fn a_lost_settlement_can_be_resent_while_its_nonce_is_unspent() {
    let node = Node::of(Chain::at(NOW)).await;
    let facilitator = patient(&node);
    let payment = Payer::new(1).payment(1);
    let lost = StartedSettlement {
        facilitator: Some("evm".to_owned()),
        transaction: Some(B256::repeat_byte(9).to_string()),
        ..started_settlement()
    };
    let outcome = facilitator.resolve(&payment, &lost).await;
    assert!(matches!(outcome, SettleOutcome::Lost(_)), "{outcome:?}");
    assert!(node.chain.lock().unwrap().pool.is_empty(), "not before it is recorded");
    // If a node still has one, it is awaited, even if its nonce is the signer's next.
    for nonce in [json!(null), json!("0x7")] {
        let pending = Some(("eth_getTransactionByHash", json!({ "hash": B256::repeat_byte(9), "nonce": nonce })));
        let node = Node::of(Chain { instead: pending, ..Chain::at(NOW) }).await;
        let timeout = TxTimeouts { stuck: Duration::from_secs(600), settle: Duration::from_millis(50) };
        let outcome = waiting(&node, Clock::fixed(NOW), timeout).resolve(&payment, &lost).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{nonce}: {outcome:?}");
        assert!(node.chain.lock().unwrap().pool.is_empty(), "{nonce}");
    }
}

#[tokio::test]
async fn nonce_gap_below_an_old_transaction_is_logged_once() {
    let lost = StartedSettlement {
        facilitator: Some("evm".to_owned()),
        transaction: Some(B256::repeat_byte(9).to_string()),
        ..started_settlement()
    };
    let pending = Some(("eth_getTransactionByHash", json!({ "hash": B256::repeat_byte(9), "nonce": "0x8" })));
    let node = Node::of(Chain { instead: pending, ..Chain::at(NOW) }).await;
    let facilitator = patient(&node);
    // The signer handles requests in order, so a signed transaction means that earlier requests are done.
    let signed = async |nonce| facilitator.prepare(&Payer::new(1).payment(nonce)).await.unwrap();
    signed(2).await;
    // Each lookup checks whether the nonce was already used, and the first also reads the signer's nonce.
    for (nonce, counted) in [(3, 5), (4, 6)] {
        assert!(matches!(facilitator.resolve(&Payer::new(1).payment(1), &lost).await, SettleOutcome::Unknown(_)));
        signed(nonce).await;
        assert_eq!(node.times("eth_getTransactionCount"), counted);
    }
}

#[tokio::test]
async fn nothing_is_resent_once_a_nonce_is_spent_or_the_time_is_over() {
    let (expired, started) =
        (Timestamp(NOW.0 + 300_000), StartedSettlement { transaction: Some(B256::repeat_byte(9).to_string()), ..started_settlement() });
    for (case, chain, clock, refused) in [
        ("spent, in a block that may be replaced", Chain::at(NOW).spending(100_010, paid(PAY_TO, PRICE.0)), NOW, false),
        ("expired, at a block that may be replaced", Chain::at(NOW), expired, false),
        ("expired, at a block that stays", Chain::at(expired), NOW, true),
    ] {
        let node = Node::of(chain).await;
        let timeout = TxTimeouts { stuck: Duration::from_secs(600), settle: Duration::from_millis(50) };
        let outcome = waiting(&node, Clock::fixed(clock), timeout).resolve(&Payer::new(1).payment(1), &started).await;
        assert_eq!(matches!(outcome, SettleOutcome::Refused { .. }), refused, "{case}: {outcome:?}");
        assert!(refused || matches!(outcome, SettleOutcome::Unknown(_)), "{case}: {outcome:?}");
        assert!(node.chain.lock().unwrap().pool.is_empty(), "{case}");
    }
}

/// The host stopped between two sends, and nobody pays anymore.
#[tokio::test]
async fn nonce_gap_below_an_old_transaction_is_filled() {
    let lost = StartedSettlement {
        facilitator: Some("evm".to_owned()),
        transaction: Some(B256::repeat_byte(9).to_string()),
        ..started_settlement()
    };
    let pending = Some(("eth_getTransactionByHash", json!({ "hash": B256::repeat_byte(9), "nonce": "0x9" })));
    let node = Node::of(Chain { instead: pending, ..Chain::at(NOW) }).await;
    let timeout = TxTimeouts { stuck: Duration::from_millis(50), settle: Duration::from_millis(50) };
    let facilitator = waiting(&node, Clock::fixed(NOW), timeout);
    assert!(matches!(facilitator.resolve(&Payer::new(1).payment(1), &lost).await, SettleOutcome::Unknown(_)));
    until(|| (node.chain.lock().unwrap().pool.len() >= 2).then_some(())).await;
}

#[tokio::test]
async fn a_replaced_transaction_is_resent_though_the_node_keeps_it() {
    let lost = StartedSettlement {
        facilitator: Some("evm".to_owned()),
        transaction: Some(B256::repeat_byte(9).to_string()),
        ..started_settlement()
    };
    let stored = Some(("eth_getTransactionByHash", json!({ "hash": B256::repeat_byte(9), "nonce": "0x6" })));
    let node = Node::of(Chain { instead: stored, used: 7, ..Chain::at(NOW) }).await;
    let outcome = patient(&node).resolve(&Payer::new(1).payment(1), &lost).await;
    assert!(matches!(outcome, SettleOutcome::Lost(_)), "{outcome:?}");
}

/// Regression test: each lookup of an open settlement sent another transaction, which was reverted if the previous one
/// was in a block.
#[tokio::test]
async fn a_transaction_that_is_sent_again_is_recorded_and_no_third_follows() {
    let node = Node::of(Chain::at(NOW)).await;
    let fixture = Fixture::new().await;
    let payments = payments(&fixture, Arc::clone(&fixture.store), patient(&node));
    let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = admission.id().clone();
    let transaction = async || {
        let (_, bytes) = fixture.all(Space::Payments).await.into_iter().find(|(key, _)| *key == id.to_string().into_bytes()).unwrap();
        crate::payments::record::PaymentRecord::of_bytes(&bytes).unwrap().started().transaction
    };
    // The host stops between its intent and the node.
    let settling = tokio::spawn({
        let payments = Arc::clone(&payments);
        async move { payments.settle(admission, answer(ANSWER), &draft()).await }
    });
    until(|| (node.times("eth_sendRawTransaction") > 0).then_some(())).await;
    settling.abort();
    let first = transaction().await;
    {
        // The node forgets it, and somebody else uses its nonce.
        let mut chain = node.chain.lock().unwrap();
        chain.pool.clear();
        chain.used = 8;
    }
    let next_life = self::payments(&fixture, Arc::clone(&fixture.store), patient(&node));
    next_life.recover().await.unwrap();
    let asking = tokio::spawn({
        let payments = Arc::clone(&next_life);
        async move { payments.tick().await }
    });
    let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
    assert_eq!(transaction().await, Some(keccak256(&sent).to_string()), "the record has it before the node");
    assert_ne!(transaction().await, first);
    asking.abort();
    // The next lookup searches for it.
    let third_life = self::payments(&fixture, Arc::clone(&fixture.store), patient(&node));
    third_life.recover().await.unwrap();
    third_life.tick().await.unwrap();
    assert_eq!(node.chain.lock().unwrap().pool, std::slice::from_ref(&sent), "it is not sent a third time");
    {
        let mut chain = node.chain.lock().unwrap();
        (chain.mined, chain.used) = (Some(keccak256(&sent)), 9);
        chain.safe += 1;
    }
    let settled = async {
        while fixture.state(&id).await != Some(PaymentState::Settled) {
            third_life.recover().await.unwrap();
            third_life.tick().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), settled).await.unwrap();
    assert_eq!(fixture.receipts().await[0].transaction, Some(keccak256(&sent).to_string()));
}
