//! Compares a facilitator's answers with the chain.

use super::*;

/// Returns the outcome of a facilitator's answer with this chain.
async fn looked_up(says: Says, chain: Chain) -> SettleOutcome {
    let (server, node) = (Server::saying([says]).await, Node::of(chain).await);
    facilitator(&server, Some(&node)).settle(&Payer::new(1).payment(1), &begun()).await
}

/// Regression test: a success with an invented hash, or with another payment's, led to a receipt.
#[tokio::test]
async fn a_facilitators_yes_counts_once_the_chain_has_the_transfer() {
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
    let other = says(200, json!({ "success": true, "transaction": TRANSACTION.replace('1', "2") }));
    let outcome = looked_up(other, Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION), "{outcome:?}");
}

/// Regression test: the payer had paid but got no answer, and the ledger had no record.
#[tokio::test]
async fn a_facilitators_no_counts_only_while_the_nonce_is_unspent() {
    let unauthorized = says(401, json!({ "success": false, "errorReason": "unauthorized", "transaction": "" }));
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
        let asked = node::Node::new(&node.url, ASSETS[0].network).unwrap().with_confirmations(confirmations);
        let short = Duration::from_secs(1);
        let facilitator = HttpFacilitator::new(&server.url, &FacilitatorAccess::default(), Some(Arc::new(asked)), Clock::fixed(NOW))
            .unwrap()
            .with_patience(Patience { verify: short, settle: short, again: Duration::ZERO });
        let outcome = facilitator.settle(&Payer::new(1).payment(1), &begun()).await;
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
        facilitator.with_patience(Patience { again: Duration::from_secs(2), ..SHORT }).settle(&payment, &begun()).await;
        assert_eq!(payment.was_spent_before(), spent_before, "{what}");
    }
}
