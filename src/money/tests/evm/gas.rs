//! The signer's balance for gas.

use std::num::NonZeroU64;

use super::*;

/// Cost of a settlement at the node's gas price, as used for estimates.
const ONE: u128 = 110_000 * 100;

/// Returns a facilitator whose signer has this balance, after its first check.
async fn having(wei: u128) -> (Arc<Node>, Arc<EvmFacilitator>) {
    let node = Node::of(Chain { wei, ..Chain::at(NOW) }).await;
    let facilitator = patient(&node);
    until(|| facilitator.status().filter(|status| !status["settlementsLeft"].is_null())).await;
    (node, facilitator)
}

async fn verified(facilitator: &EvmFacilitator) -> VerifyResult {
    facilitator.verify(&Payer::new(1).payment(1)).await
}

#[tokio::test]
async fn operators_see_how_many_settlements_the_gas_is_for_and_whether_these_are_few() {
    for (wei, remaining, low) in [(1_000 * ONE - 1, 999, true), (1_000 * ONE, 1_000, false)] {
        let (_, facilitator) = having(wei).await;
        let body = json!({ "signer": signer().to_checksum(None), "balanceWei": wei.to_string(), "settlementsLeft": remaining, "low": low });
        assert_eq!(facilitator.status(), Some(body));
        assert_eq!(facilitator.gas_funds(), Some(GasFunds { wei, settlements: remaining }));
    }
}

#[tokio::test]
async fn payments_are_rejected_without_gas_to_settle() {
    let (_, enough) = having(ONE).await;
    assert_eq!(verified(&enough).await, VerifyResult::Valid);
    let (_, empty) = having(ONE - 1).await;
    let verdict = verified(&empty).await;
    assert!(matches!(&verdict, VerifyResult::Unavailable(reason) if reason.contains("does not have enough")), "{verdict:?}");
}

/// Otherwise the next payer would be refused only after the handler had run.
#[tokio::test]
async fn rejected_transaction_triggers_a_balance_check() {
    let (node, facilitator) = having(ONE).await;
    {
        let mut chain = node.chain.lock().unwrap();
        chain.wei = 0;
        chain.instead = Some(("eth_sendRawTransaction", json!({ "code": -32000, "message": "insufficient funds for gas" })));
    }
    assert!(matches!(settle(&facilitator, 1).await, SettleOutcome::Unsent(_)));
    until(|| facilitator.status().filter(|status| status["settlementsLeft"] == 0)).await;
    assert!(matches!(verified(&facilitator).await, VerifyResult::Unavailable(_)));
}

/// Regression test: a wallet's signature check took 880,000 gas in each settlement, for a millionth of a dollar.
#[tokio::test]
async fn gas_that_a_contract_uses_beyond_an_ordinary_settlement_is_counted_once() {
    let hash = B256::repeat_byte(9);
    let started = StartedSettlement { facilitator: Some("evm".to_owned()), transaction: Some(hash.to_string()), ..started_settlement() };
    for (gas_used, beyond) in [(BurnedGas::ORDINARY, 0), (BurnedGas::ORDINARY + 747_000, 747_000)] {
        let node = Node::of(Chain { mined: Some(hash), mined_in: 100_000, gas_used, ..Chain::at(NOW) }).await;
        let (facilitator, payment) = (patient(&node), Payer::new(1).payment(1));
        let settled = async || {
            let outcome = facilitator.resolve(&payment, &started).await;
            assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
            facilitator.take_used(&payment.id()).map(|used| (used.ordinary.gas, used.excess.gas))
        };
        assert_eq!(facilitator.verify(&payment).await, VerifyResult::Valid);
        assert_eq!(settled().await, Some((gas_used, 0)), "an account without code cannot choose its gas");
        assert_eq!(settled().await, None, "once");
        node.chain.lock().unwrap().instead = Some(("eth_getCode", json!(format!("0xef0100{}", "11".repeat(20)))));
        let (facilitator, again) = (patient(&node), Payer::new(1).payment(1));
        assert_eq!(facilitator.verify(&again).await, VerifyResult::Valid);
        assert!(matches!(facilitator.resolve(&again, &started).await, SettleOutcome::Settled(_)));
        let used = facilitator.take_used(&again.id()).map(|used| (used.ordinary.gas, used.excess.gas));
        assert_eq!(used, Some((BurnedGas::ORDINARY, beyond)));
    }
}

/// Returns a payment of this price by payer 1, with the terms that ask for it.
fn paying(price: MicroUsd, nonce: u64) -> (CallTerms, OfferedPayment) {
    let (terms, payer) = (CallTerms { price, ..terms() }, Payer::new(1));
    let mut payload = payer.payload(&Authorization { value: price.0.to_string(), ..payer.authorization(nonce) });
    payload["accepted"] = accepts(&config(), &terms, WireVersion::V2).remove(0);
    (terms, offer(&payload))
}

/// Regression test: the gas of payments of a millionth of a dollar was not counted.
#[tokio::test]
async fn gas_limit_of_payments_below_the_least_amount_affects_no_others() {
    for (least, limited) in [(PRICE.0 + 1, true), (PRICE.0, false)] {
        let node = Node::of(Chain { balance: 10 * PRICE.0, ..Chain::at(NOW) }).await;
        let fixture = Fixture::new().await;
        let gas = GasLimits { of_payer: NonZeroU64::new(60_000), ..GasLimits::default() };
        let least_settlements = vec![(ASSETS[0].network, MicroUsd(least))];
        let payments =
            gate_with(&fixture, PaymentConfig { gas, least_settlements, ..config() }, Arc::clone(&fixture.store), patient(&node));
        let (tiny, offered) = paying(PRICE, 1);
        let admission = run(payments.admit(&tiny, offered, REQUEST).await);
        let settling = tokio::spawn({
            let payments = Arc::clone(&payments);
            async move { payments.settle(admission, answer(ANSWER), &draft()).await }
        });
        let sent = until(|| node.chain.lock().unwrap().pool.first().cloned()).await;
        {
            let mut chain = node.chain.lock().unwrap();
            (chain.mined, chain.safe) = (Some(keccak256(&sent)), chain.safe + 1);
        }
        settling.await.unwrap().unwrap();
        let reported = payments.unpaid()["gas"].clone();
        let counted = if limited { 60_000 } else { 0 };
        assert_eq!((&reported["underpaidLastHour"], &reported["burnedLastHour"]), (&json!(counted), &json!(0)), "{least}");
        let (tiny, offered) = paying(PRICE, 2);
        let again = payments.admit(&tiny, offered, REQUEST).await;
        match &again {
            Err(Refusal::Slowed(slowed)) => assert!(limited && slowed.bound == RunLimit::Underpaid, "{slowed:?}"),
            other => assert!(!limited && matches!(other, Ok(Admit::Run(_))), "{}", what(other)),
        }
        drop(again);
        let (normal, offered) = paying(MicroUsd(PRICE.0 + 1), 3);
        drop(run(payments.admit(&normal, offered, REQUEST).await));
    }
}
