//! Compares a facilitator's answers with the chain.

use super::{super::upfront::closing, *};

/// Returns the outcome of a facilitator's answer with this chain.
async fn looked_up(text: Says, chain: Chain) -> SettleOutcome {
    let (server, node) = (Server::saying([text]).await, Node::of(chain).await);
    facilitator(&server, Some(&node)).settle(&Payer::new(1).payment(1), &started_settlement()).await
}

/// Regression test: a success with an invented hash, or with another payment's, led to a receipt.
#[tokio::test]
async fn facilitator_success_counts_once_the_chain_has_the_transfer() {
    let spent = |to: &str, value| Chain::at(NOW).spending(100_010, paid(to, value));
    let outcome = looked_up(settled(), spent(PAY_TO, PRICE.0)).await;
    let SettleOutcome::Settled(settlement) = &outcome else { panic!("{outcome:?}") };
    let evidence = settlement.evidence.clone().unwrap();
    assert_eq!((evidence.block, evidence.spends_nonce, evidence.is_final), (100_010, true, false));
    for (case, chain) in [
        ("it is in no block", Chain::at(NOW)),
        ("it pays somebody else", spent(&Payer::new(2).address(), PRICE.0)),
        ("it pays less", spent(PAY_TO, PRICE.0 - 1)),
        ("it is another payment's", Chain::at(NOW).spending(100_010, vec![paid(PAY_TO, PRICE.0)[0].clone()])),
        ("the node is of another chain", Chain { id: 1, ..spent(PAY_TO, PRICE.0) }),
    ] {
        let outcome = looked_up(settled(), chain).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{case}: {outcome:?}");
    }
    // The hash is not that of the transfer, which the chain knows.
    let other = replies(200, json!({ "success": true, "transaction": TRANSACTION.replace('1', "2") }));
    let outcome = looked_up(other, Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION), "{outcome:?}");
}

/// Regression test: the payer had paid but got no answer, and the ledger had no record.
#[tokio::test]
async fn a_facilitators_no_counts_only_while_the_nonce_is_unspent() {
    let unauthorized = replies(401, json!({ "success": false, "errorReason": "unauthorized", "transaction": "" }));
    for refusal in [
        refuses("invalid_exact_evm_insufficient_balance"),
        refuses("invalid_exact_evm_signature"),
        refuses("invalid_network"),
        unauthorized,
    ] {
        let outcome = looked_up(refusal.clone(), Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await;
        assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION), "{outcome:?}");
        let outcome = looked_up(refusal.clone(), Chain::at(NOW).spending(100_010, paid(PAY_TO, PRICE.0))).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "in a block that may be replaced: {outcome:?}");
        let outcome = looked_up(refusal, Chain::at(NOW)).await;
        assert!(matches!(outcome, SettleOutcome::Refused { .. }), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_settlement_counts_once_it_has_the_confirmations_that_are_set() {
    for (confirmations, block, counts) in [(1, 100_050, true), (3, 100_048, true), (3, 100_049, false), (51, 100_000, true)] {
        let server = Server::saying([settled()]).await;
        let node = Node::of(Chain::at(NOW).spending(block, paid(PAY_TO, PRICE.0))).await;
        let request = node::Node::new(&node.url, ASSETS[0].network).unwrap().with_confirmations(confirmations);
        let short = Duration::from_secs(1);
        let facilitator = HttpFacilitator::new(&server.url, &FacilitatorAccess::default(), Some(Arc::new(request)), Clock::fixed(NOW))
            .unwrap()
            .with_timeout(FacilitatorTimeouts { verify: short, settle: short, again: Duration::ZERO });
        let outcome = facilitator.settle(&Payer::new(1).payment(1), &started_settlement()).await;
        assert_eq!(matches!(outcome, SettleOutcome::Settled(_)), counts, "{confirmations} from {block}: {outcome:?}");
        assert!(counts || matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}");
    }
}

/// If a payment is already spent at the first request, somebody else spent it, for example another store with the same
/// `payTo`.
#[tokio::test]
async fn a_payment_that_is_spent_at_the_first_question_is_noted() {
    let again = || Says::Text(502, "<html>".to_owned());
    for (answers, with_node, spent_before) in [
        (vec![refuses("invalid_exact_evm_nonce_already_used")], true, true),
        (vec![refuses("invalid_exact_evm_nonce_already_used")], false, true),
        (vec![refuses("insufficient_funds")], true, true),
        (vec![settled()], true, false),
        (vec![again(), refuses("invalid_exact_evm_nonce_already_used")], true, false),
    ] {
        let what = format!("{} answers, {with_node}", answers.len());
        let node = Node::of(Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await;
        let (server, payment) = (Server::saying(answers).await, Payer::new(1).payment(1));
        let facilitator = facilitator(&server, with_node.then_some(&node));
        facilitator
            .with_timeout(FacilitatorTimeouts { again: Duration::from_secs(2), ..SHORT })
            .settle(&payment, &started_settlement())
            .await;
        assert_eq!(payment.was_spent_before(), spent_before, "{what}");
    }
}

/// Returns a payment whose authorization was changed before it was signed.
fn signing(change: impl FnOnce(&mut Authorization)) -> OfferedX402 {
    let mut authorization = Payer::new(1).authorization(1);
    change(&mut authorization);
    decode(&Payer::new(1).payload(&authorization)).unwrap()
}

type Change = fn(&mut Authorization);

/// Regression test: a facilitator that does not check the authorization settled a payment of $0.000001 from a payer to
/// itself.
#[tokio::test]
async fn authorization_that_does_not_pay_what_is_asked_is_refused_before_the_work() {
    let server = Server::saying([replies(200, json!({ "isValid": true }))]).await;
    let facilitator = facilitator(&server, None);
    let changes: [(Change, &str); 4] = [
        (|a| a.to = Payer::new(2).address(), "invalid_exact_evm_recipient_mismatch"),
        (|a| a.value = (PRICE.0 - 1).to_string(), "invalid_exact_evm_payload_authorization_value_mismatch"),
        (|a| a.value = "0".to_owned(), "invalid_exact_evm_payload_authorization_value_mismatch"),
        (|a| a.valid_after = (NOW.as_secs() + 1).to_string(), "invalid_exact_evm_payload_authorization_valid_after"),
    ];
    for (change, code) in changes {
        let verdict = facilitator.verify(&signing(change)).await;
        assert!(matches!(&verdict, VerifyResult::Invalid { reason, .. } if reason == code), "{code}: {verdict:?}");
    }
    assert!(server.requested_paths().is_empty(), "nobody is asked");
    assert_eq!(facilitator.verify(&signing(|a| a.value = (PRICE.0 + 1).to_string())).await, VerifyResult::Valid);
}

#[tokio::test]
async fn transfer_that_does_not_pay_what_is_asked_proves_nothing() {
    let other = Payer::new(2).address();
    let less = PRICE.0 - 1;
    for (payment, logs) in
        [(signing(|a| a.to = other.clone()), paid(&other, PRICE.0)), (signing(|a| a.value = less.to_string()), paid(PAY_TO, less))]
    {
        for (block, is_final) in [(99_990, true), (100_010, false)] {
            let (server, node) = (Server::saying([settled()]).await, Node::of(Chain::at(NOW).spending(block, logs.clone())).await);
            let outcome = facilitator(&server, Some(&node)).settle(&payment, &started_settlement()).await;
            let is_unpaid = match &outcome {
                SettleOutcome::Refused { .. } => is_final,
                SettleOutcome::Unknown(_) => !is_final,
                SettleOutcome::Settled(_) | SettleOutcome::Unsent(_) | SettleOutcome::Lost(_) => false,
            };
            assert!(is_unpaid, "{block}: {outcome:?}");
        }
    }
}

/// Regression test: a facilitator refused a payment and sent it a second later, so its payer was charged and refused
/// for good.
#[tokio::test]
async fn payment_that_was_refused_and_has_moved_after_all_buys_its_answer() {
    let valid = replies(200, json!({ "isValid": true }));
    let spent = || replies(200, json!({ "isValid": false, "invalidReason": "invalid_exact_evm_nonce_already_used" }));
    let no = refuses("invalid_exact_evm_signature");
    let answers = [valid, no, spent(), spent(), spent(), refuses("invalid_exact_evm_nonce_already_used")];
    let (server, node, fixture) = (Server::saying(answers).await, Node::of(Chain::at(NOW)).await, Fixture::new().await);
    let payments = fixture.settling_with(facilitator(&server, Some(&node)));
    let first = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = first.id().clone();
    let refused = payments.settle(first, answer(ANSWER), &draft()).await;
    assert!(matches!(&refused, Err(SettleError::Refused { .. })), "{refused:?}");
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Refused));
    let code_of_spent = "invalid_exact_evm_nonce_already_used";
    assert_eq!(code(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await), code_of_spent, "the chain has no transfer");
    {
        let mut chain = node.chain.lock().unwrap();
        (chain.spent, chain.balance) = (Some((99_990, paid(PAY_TO, PRICE.0))), 0);
    }
    assert_eq!(code(payments.admit(&terms(), Payer::new(1).pays(1), "another request").await), code_of_spent);
    let second = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    assert_eq!(payments.settle(second, answer(ANSWER), &draft()).await.unwrap().body, ANSWER);
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settled));
    assert_eq!(stored(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await).body, ANSWER);
    let receipts = fixture.receipts().await;
    assert_eq!((receipts.len(), receipts[0].transaction.as_deref()), (1, Some(TRANSACTION)));
}

/// Regression test: the money of a released payment moved later. Its payer was admitted to a run that did not count as
/// paid, and was then asked to pay again.
#[tokio::test]
async fn released_payment_whose_money_moves_later_is_owed_even_once_it_has_expired() {
    for late in [Duration::ZERO, Duration::from_secs(400)] {
        let valid = replies(200, json!({ "isValid": true }));
        let spent = replies(200, json!({ "isValid": false, "invalidReason": "invalid_exact_evm_nonce_already_used" }));
        let (server, node, fixture) = (Server::saying([valid, spent]).await, Node::of(Chain::at(NOW)).await, Fixture::new().await);
        let payments = fixture.settling_with(facilitator(&server, Some(&node)));
        let admit = async || payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await;
        let first = run(admit().await);
        let id = first.id().clone();
        first.fail().await;
        fixture.clock.set(NOW.plus(late));
        assert!(code(admit().await).starts_with("invalid_exact_evm_"), "it has not moved");
        assert_eq!(fixture.state(&id).await, Some(PaymentState::Released));
        {
            let mut chain = node.chain.lock().unwrap();
            (chain.spent, chain.balance) = (Some((99_990, paid(PAY_TO, PRICE.0))), 0);
        }
        let second = run(admit().await);
        assert!(second.has_moved());
        let unanswered = payments.settle_before(second, &closing()).await.unwrap().fail(true).await;
        assert_eq!((unanswered.runs_left, fixture.state(&id).await), (9, Some(PaymentState::Owed)));
        let again = admit().await;
        assert!(matches!(&again, Ok(Admit::Seen(SeenPayment::Owed(_)))), "{}", what(&again));
        let receipts = fixture.receipts().await;
        assert_eq!((receipts.len(), receipts[0].transaction.as_deref()), (1, Some(TRANSACTION)));
    }
}

#[tokio::test]
async fn released_payment_in_a_block_that_may_be_replaced_is_looked_up_before_a_run() {
    let valid = replies(200, json!({ "isValid": true }));
    let spent = replies(200, json!({ "isValid": false, "invalidReason": "invalid_exact_evm_nonce_already_used" }));
    let (server, node, fixture) = (Server::saying([valid, spent]).await, Node::of(Chain::at(NOW)).await, Fixture::new().await);
    let payments = fixture.settling_with(facilitator(&server, Some(&node)));
    let first = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = first.id().clone();
    first.fail().await;
    node.chain.lock().unwrap().spent = Some((100_010, paid(PAY_TO, PRICE.0)));
    let second = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let settled = payments.settle_before(second, &closing()).await.err();
    assert!(matches!(settled, Some(SettleError::Unknown { .. })), "{settled:?}");
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settling));
}
