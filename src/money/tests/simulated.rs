//! The simulated facilitator makes the checks of a chain, and moves the signed amount.

use tollhouse_store::faulty::{Fault, FaultyStore};
use tollhouse_tool::MicroUsd;

use super::*;
use crate::facilitator::kind::ledger::MAX_FAUCET;

/// Verifies a payment whose authorization was changed before it was signed.
async fn verdict(fixture: &Fixture, change: impl FnOnce(&mut Authorization)) -> VerifyResult {
    let mut authorization = Payer::new(1).authorization(1);
    change(&mut authorization);
    let payment = decode(&Payer::new(1).payload(&authorization)).unwrap();
    let verdict = fixture.facilitator.verify(&payment).await;
    // A payment that is not valid does not settle either.
    match (&verdict, fixture.facilitator.settle(&payment, &started_settlement()).await) {
        (VerifyResult::Valid, SettleOutcome::Settled(_)) => {}
        (VerifyResult::Invalid { reason, .. }, SettleOutcome::Refused { reason: again, .. }) => assert_eq!(reason, &again),
        (verdict, outcome) => panic!("{verdict:?}, but {outcome:?}"),
    }
    verdict
}

async fn reason(fixture: &Fixture, change: impl FnOnce(&mut Authorization)) -> String {
    match verdict(fixture, change).await {
        VerifyResult::Invalid { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_check_refuses_with_its_code() {
    let fixture = Fixture::new().await;
    let now = NOW.as_secs();
    assert_eq!(reason(&fixture, |a| a.to = Payer::new(2).address()).await, "invalid_exact_evm_recipient_mismatch");
    let too_late = "invalid_exact_evm_payload_authorization_valid_before";
    assert_eq!(reason(&fixture, |a| a.valid_before = (now + 5).to_string()).await, too_late);
    assert_eq!(reason(&fixture, |a| a.valid_before = "0".to_owned()).await, too_late);
    let too_early = "invalid_exact_evm_payload_authorization_valid_after";
    assert_eq!(reason(&fixture, |a| a.valid_after = (now + 1).to_string()).await, too_early);
    let amount = "invalid_exact_evm_payload_authorization_value_mismatch";
    assert_eq!(reason(&fixture, |a| a.value = "9999".to_owned()).await, amount);
    assert_eq!(reason(&fixture, |a| a.value = "10001".to_owned()).await, amount);
    assert_eq!(reason(&fixture, |a| a.value = format!("{}", u128::MAX)).await, amount);
    fixture.ledger.faucet(&Payer::new(4).address(), MicroUsd(PRICE.0 - 1)).await.unwrap();
    let poor = Payer::new(4).payment(1);
    let verdict = fixture.facilitator.verify(&poor).await;
    assert!(matches!(&verdict, VerifyResult::Invalid { reason, .. } if reason == "invalid_exact_evm_insufficient_balance"), "{verdict:?}");
    assert!(matches!(fixture.facilitator.settle(&poor, &started_settlement()).await, SettleOutcome::Refused { .. }));
    assert_eq!(fixture.earned().await, 0);
}

#[tokio::test]
async fn times_count_to_the_second() {
    let now = NOW.as_secs();
    assert_eq!(verdict(&Fixture::new().await, |a| a.valid_before = (now + 6).to_string()).await, VerifyResult::Valid);
    assert_eq!(verdict(&Fixture::new().await, |a| a.valid_after = now.to_string()).await, VerifyResult::Valid);
}

#[tokio::test]
async fn another_signer_is_refused() {
    let fixture = Fixture::new().await;
    let mut payload = Payer::new(1).payload(&Payer::new(1).authorization(1));
    payload["payload"]["signature"] = json!(Payer::new(2).sign(&Payer::new(1).authorization(1)));
    assert_eq!(code(fixture.admit(offer(&payload)).await), "invalid_exact_evm_signature");
}

#[tokio::test]
async fn numbers_that_are_none_are_refused() {
    let fixture = Fixture::new().await;
    for value in ["", "-1", "1e4", "0x2710", "10 000", " 10000", "+10000", "010000", &"9".repeat(80)] {
        let mut payload = Payer::new(1).payload(&Payer::new(1).authorization(1));
        payload["payload"]["authorization"]["value"] = json!(value);
        assert_eq!(code(fixture.admit(offer(&payload)).await), "invalid_payload", "{value}");
    }
}

#[tokio::test]
async fn exactly_the_amount_moves_and_once() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let payment = payer.payment(1);
    let SettleOutcome::Settled(settlement) = fixture.facilitator.settle(&payment, &started_settlement()).await else {
        panic!("not settled")
    };
    assert_eq!((settlement.amount.as_str(), settlement.payer), ("10000", payer.address()));
    for _ in 0..3 {
        let again = fixture.facilitator.settle(&payment, &started_settlement()).await;
        assert!(matches!(&again, SettleOutcome::Refused { reason, .. } if reason == "invalid_exact_evm_nonce_already_used"), "{again:?}");
        let SettleOutcome::Settled(found) = fixture.facilitator.resolve(&payment, &started_settlement()).await else { panic!("not found") };
        assert_eq!(found.transaction, settlement.transaction);
    }
    assert_eq!(fixture.earned().await, PRICE.0);
    assert_eq!(fixture.balance(&payer.address()).await, FUNDS.0 - PRICE.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn settlements_that_arrive_together_lose_no_money() {
    let fixture = Arc::new(Fixture::new().await);
    // 120 authorizations of 10,000 out of 1,000,000, each twice: 100 can settle.
    let tasks: Vec<_> = (0..240)
        .map(|n| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move {
                matches!(fixture.facilitator.settle(&Payer::new(1).payment(n / 2), &started_settlement()).await, SettleOutcome::Settled(_))
            })
        })
        .collect();
    let mut settled = 0;
    for task in tasks {
        settled += u64::from(task.await.unwrap());
    }
    assert_eq!(settled, 100);
    assert_eq!((fixture.earned().await, fixture.balance(&Payer::new(1).address()).await), (FUNDS.0, 0));
}

#[tokio::test]
async fn payment_to_oneself_moves_nothing() {
    let payer = Payer::new(1);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let own = PaymentConfig::for_network("base-sepolia", &payer.address()).unwrap();
    let ledger = Arc::new(Ledger::new(store, own.first().asset));
    ledger.faucet(&payer.address(), FUNDS).await.unwrap();
    let facilitator = SimulatedFacilitator::new(Arc::clone(&ledger), Clock::fixed(NOW));
    let mut authorization = payer.authorization(1);
    authorization.to = payer.address();
    let mut payload = payer.payload(&authorization);
    payload["accepted"]["payTo"] = json!(payer.address());
    let payment = shown(WireVersion::V2, &payload.to_string(), &terms(), &own).unwrap();
    assert!(matches!(facilitator.settle(&payment, &started_settlement()).await, SettleOutcome::Settled(_)));
    assert_eq!(ledger.balance(&payer.address()).await.unwrap(), FUNDS);
    assert!(matches!(facilitator.settle(&payment, &started_settlement()).await, SettleOutcome::Refused { .. }));
}

#[tokio::test]
async fn the_faucet_has_bounds() {
    let fixture = Fixture::new().await;
    let address = Payer::new(9).address();
    assert!(matches!(fixture.ledger.faucet(&address, MicroUsd(MAX_FAUCET.0 + 1)).await, Err(LedgerError::TooMuch)));
    for wrong in ["", "0x", "0x12", "someone", &"0x".repeat(500)] {
        assert!(matches!(fixture.ledger.faucet(wrong, PRICE).await, Err(LedgerError::Address(_))), "{wrong}");
    }
    assert_eq!(fixture.ledger.faucet(&address, MAX_FAUCET).await.unwrap(), MAX_FAUCET);
    // Addresses are case-insensitive.
    assert_eq!(fixture.ledger.faucet(&address.to_lowercase(), PRICE).await.unwrap().0, MAX_FAUCET.0 + PRICE.0);
}

#[tokio::test]
async fn balance_is_reported_once_it_is_on_disk() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let ledger = Ledger::new(Arc::clone(&store) as Arc<dyn Store>, &ASSETS[0]);
    ledger.faucet(PAY_TO, MicroUsd(5)).await.unwrap();
    assert_eq!(ledger.balance_floor(&ASSETS[0], PAY_TO).await.unwrap(), MicroUsd(5));
    store.fail_all(Fault::Before);
    assert!(ledger.balance(PAY_TO).await.is_ok() && ledger.balance_floor(&ASSETS[0], PAY_TO).await.is_err());
}
