//! How long the data of a payment is kept: until nothing can be looked up anymore.

use tollhouse_store::faulty::{Fault, FaultyStore};
use tollhouse_tool::MicroUsd;

use super::*;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const NAME: &str = "order-0001-of-today";
const EXPIRED: &str = "invalid_exact_evm_payload_authorization_valid_before";
const SPENT: &str = "invalid_exact_evm_nonce_already_used";

impl Fixture {
    /// Moves the clock to `millis` after the start, and deletes what is due.
    async fn wait_until(&self, millis: u64) {
        self.clock.set(NOW.plus_millis(millis));
        self.payments.tick().await.unwrap();
        self.ledger.forget(self.clock.now()).await.unwrap();
    }

    /// Counts the keys that grow with payments: records and names, due times, nonces.
    async fn retained(&self) -> [usize; 4] {
        let mut stored = [0; 4];
        let spaces = [Space::Payments, Space::PaymentExpiry, Space::LedgerNonces, Space::LedgerExpiry];
        for (stored, space) in stored.iter_mut().zip(spaces) {
            // The receipts of a transaction are kept forever.
            *stored = self.all(space).await.iter().filter(|(key, _)| !key.starts_with(b"tx/")).count();
        }
        stored
    }
}

#[tokio::test]
async fn call_with_credit_that_did_not_run_leaves_no_row() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let fixture = Fixture::over(Arc::clone(&store) as _);
    let token = fixture.payments.credits().mint(PRICE, "", None).await.unwrap().token.unwrap();
    let offered = |key: &str| {
        let (token, idempotency_key) = (token.clone(), Some(key.to_owned()));
        OfferedPayment::Credit(CreditOffer { token, idempotency_key, observer: None })
    };
    for n in 0..10 {
        fixture.run(offered(&format!("key-{n}"))).await.unused().await;
        assert_eq!(fixture.retained().await, [0; 4]);
    }
    // A failed run counts against limits, and is remembered.
    fixture.run(offered("failed")).await.fail().await;
    assert_eq!(fixture.retained().await, [1, 1, 0, 0]);
    let admission = fixture.run(offered("kept")).await;
    let id = admission.id().clone();
    store.fail_nth(1, Fault::Before);
    admission.unused().await;
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Released), "the store did not delete it");
    // The key is free, also for another request.
    let admission = run(fixture.payments.admit(&terms(), offered("key-0"), "another request").await);
    fixture.settle(admission).await.unwrap();
}

fn v1(payload: &Value) -> OfferedPayment {
    OfferedPayment::X402 { version: WireVersion::V1, header: STANDARD.encode(payload.to_string()) }
}

#[tokio::test]
async fn a_record_goes_with_its_answer_and_its_replay_is_refused_all_the_same() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let shown = || [payer.pays(1), v1(&payer.payload_v1(&payer.authorization(2))), payer.pays_as(3, NAME)];
    let mut first = vec![];
    for offered in shown() {
        first.push(fixture.buy(offered).await);
    }
    fixture.wait_until(DAY).await;
    for (offered, first) in shown().into_iter().zip(&first) {
        assert_eq!(&stored(fixture.admit(offered).await), first, "to the very day");
    }
    fixture.wait_until(DAY + 1).await;
    assert_eq!(fixture.retained().await, [3, 0, 0, 0], "no more than that they are spent");
    for offered in shown() {
        assert_eq!(code(fixture.admit(offered).await), SPENT);
    }
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (3 * PRICE.0, 3));
    assert_eq!(fixture.facilitator.verified.load(Ordering::SeqCst), 3, "none was asked about again");
}

#[tokio::test]
async fn an_authorization_that_is_valid_for_days_is_remembered_for_days() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let shown = || offer(&payer.payload(&payer.valid_for(1, 3 * DAY)));
    fixture.buy(shown()).await;
    fixture.wait_until(DAY + 1).await;
    let record = crate::payments::record::PaymentRecord::of_bytes(&fixture.all(Space::Payments).await[0].1).unwrap();
    assert!(!record.has_answer);
    assert_eq!(code(fixture.admit(shown()).await), SPENT);
    fixture.wait_until(3 * DAY + HOUR).await;
    assert_eq!(code(fixture.admit(shown()).await), SPENT, "to the hour after its end");
    fixture.wait_until(3 * DAY + HOUR + 1).await;
    assert_eq!(fixture.retained().await, [1, 0, 0, 0]);
    assert!(fixture.all(Space::Payments).await[0].1.len() < 200);
    assert_eq!(code(fixture.admit(shown()).await), SPENT);
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

/// A payer can sign until the year 9999, and its record would have to be kept that long.
#[tokio::test]
async fn an_authorization_ends_no_sooner_than_the_longest_run_and_its_settlement() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let (wall, margin) = (terms().wall, Duration::from_secs(30));
    let least = u64::try_from((wall + margin).as_millis()).unwrap();
    for too_soon in [1_000, least - 1_000] {
        let refused = fixture.admit(offer(&payer.payload(&payer.valid_for(1, too_soon)))).await;
        let Err(Refusal::TooShort { remaining, .. }) = refused else { panic!("{}", what(&refused)) };
        assert_eq!(remaining, Duration::from_millis(too_soon));
    }
    fixture.buy(offer(&payer.payload(&payer.valid_for(1, least)))).await;
}

#[tokio::test]
async fn an_authorization_that_is_valid_for_more_than_a_week_is_refused() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let for_ever = Authorization { valid_before: alloy_primitives::U256::MAX.to_string(), ..payer.authorization(1) };
    for too_far in [payer.valid_for(1, 7 * DAY + 1_000), for_ever] {
        for offered in [offer(&payer.payload(&too_far)), v1(&payer.payload_v1(&too_far))] {
            assert_eq!(code(fixture.admit(offered).await), EXPIRED);
        }
    }
    let refused = fixture.admit(offer(&payer.payload(&payer.valid_for(1, 8 * DAY)))).await;
    let Err(Refusal::Invalid { message, .. }) = refused else { panic!("{}", what(&refused)) };
    assert!(message.contains("more than 7 days away"), "{message}");
    assert_eq!(fixture.retained().await, [0; 4]);
    fixture.buy(offer(&payer.payload(&payer.valid_for(1, 7 * DAY)))).await;
}

#[tokio::test]
async fn payments_that_moved_no_money_expire_sooner() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    fixture.run(offer(&payer.payload(&payer.valid_for(1, 3 * DAY)))).await.release().await;
    fixture.run(payer.pays_as(2, NAME)).await.release().await;
    fixture.facilitator.feel(FacilitatorMood::Refuses);
    let admission = fixture.run(payer.pays(3)).await;
    fixture.settle(admission).await.unwrap_err();
    fixture.facilitator.feel(FacilitatorMood::Honest);
    assert_eq!(fixture.retained().await, [4, 3, 0, 0]);
    fixture.wait_until(HOUR + 1).await;
    assert_eq!(fixture.retained().await, [1, 1, 0, 0], "the refused one can be asked for");
    fixture.wait_until(DAY + 1).await;
    assert_eq!(fixture.retained().await, [0; 4]);
    // The released one is still unspent, and pays.
    fixture.buy(offer(&payer.payload(&payer.valid_for(1, 3 * DAY)))).await;
    assert_eq!(fixture.earned().await, PRICE.0);
}

#[tokio::test]
async fn a_payment_in_flight_is_not_forgotten() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    fixture.run(payer.pays(1)).await.release().await;
    let admission = fixture.run(payer.pays(1)).await;
    fixture.wait_until(HOUR + 1).await;
    assert_eq!(fixture.retained().await, [1, 0, 0, 0]);
    // The authorization has expired by now. It matters only that the end of the payment has a record.
    fixture.settle(admission).await.unwrap_err();
    assert_eq!(fixture.retained().await, [1, 1, 0, 0]);
}

#[tokio::test]
async fn reassigned_name_stays_with_its_new_payment() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    fixture.run(payer.pays_as(1, NAME)).await.release().await;
    fixture.clock.set(NOW.plus_millis(1_000));
    let second = fixture.buy(payer.pays_as(2, NAME)).await;
    fixture.wait_until(HOUR + 1).await;
    assert_eq!(fixture.retained().await, [2, 1, 1, 1], "the second payment and its name");
    assert_eq!(stored(fixture.admit(payer.pays_as(2, NAME)).await), second);
}

#[tokio::test]
async fn an_idempotency_key_names_one_call_for_a_week() {
    let fixture = Fixture::new().await;
    let minted = fixture.payments.credits().mint(MicroUsd(10 * PRICE.0), "a test", None).await.unwrap();
    let token = minted.token.unwrap();
    let by = |key: Option<&str>| {
        OfferedPayment::Credit(CreditOffer { token: token.clone(), idempotency_key: key.map(str::to_owned), observer: None })
    };
    let first = fixture.buy(by(Some("a-key"))).await;
    fixture.buy(by(None)).await;
    assert_eq!(fixture.retained().await, [2, 2, 0, 0]);
    fixture.wait_until(DAY).await;
    assert_eq!(stored(fixture.admit(by(Some("a-key"))).await), first);
    fixture.wait_until(DAY + 1).await;
    assert_eq!(fixture.retained().await, [1, 1, 0, 0], "without a key nobody can ask again");
    assert!(matches!(fixture.admit(by(Some("a-key"))).await, Err(Refusal::AnswerExpired(_))));
    fixture.wait_until(7 * DAY - HOUR).await;
    assert!(matches!(fixture.admit(by(Some("a-key"))).await, Err(Refusal::AnswerExpired(_))));
    fixture.wait_until(7 * DAY + HOUR + 1).await;
    assert_eq!(fixture.retained().await, [0; 4]);
    let again = fixture.buy(by(Some("a-key"))).await;
    assert_ne!(again.receipt_id, first.receipt_id);
}

#[tokio::test]
async fn spent_payment_without_expiry_is_never_deleted() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let shown = || offer(&payer.payload(&payer.valid_for(1, 6 * DAY)));
    fixture.buy(shown()).await;
    let (key, bytes) = fixture.all(Space::Payments).await.remove(0);
    let mut record = crate::payments::record::PaymentRecord::of_bytes(&bytes).unwrap();
    record.tail = None;
    fixture.store.apply(Batch::of(vec![], vec![Write::put(Space::Payments, key, record.to_bytes())]), Durability::Buffered).await.unwrap();
    fixture.wait_until(DAY + 1).await;
    assert_eq!(code(fixture.admit(shown()).await), SPENT);
    fixture.wait_until(1_000 * DAY).await;
    assert_eq!(fixture.retained().await, [1, 0, 0, 0]);
}

#[tokio::test]
async fn all_that_is_due_is_forgotten_at_once() {
    let fixture = Fixture::new().await;
    for seed in 1..=3 {
        for nonce in 0..100 {
            fixture.buy(Payer::new(seed).pays(nonce)).await;
        }
    }
    fixture.wait_until(DAY + 1).await;
    assert_eq!(fixture.retained().await, [300, 0, 0, 0]);
    assert_eq!(fixture.receipts().await.len(), 300);
}

#[tokio::test]
async fn names_of_a_payment_that_took_nothing_go_with_it() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    for n in 0..50 {
        fixture.run(payer.pays_as(1, &format!("order-{n:020}"))).await.release().await;
    }
    assert_eq!(fixture.retained().await, [2, 1, 0, 0], "the payment and its last name");
    fixture.wait_until(1_000 * DAY).await;
    assert_eq!(fixture.retained().await, [0; 4]);
}

#[tokio::test]
async fn one_record_that_does_not_read_holds_up_no_other() {
    let fixture = Fixture::new().await;
    for nonce in 0..10 {
        fixture.buy(Payer::new(1).pays(nonce)).await;
    }
    let (key, _) = fixture.all(Space::Payments).await.remove(0);
    fixture.store.apply(Batch::of(vec![], vec![Write::put(Space::Payments, key, b"\xff".to_vec())]), Durability::Buffered).await.unwrap();
    fixture.wait_until(DAY + 1).await;
    assert_eq!(fixture.retained().await, [10, 0, 0, 0]);
}

#[tokio::test]
async fn neither_a_name_nor_a_key_that_does_not_read_holds_up_any_other() {
    let fixture = Fixture::new().await;
    for (nonce, name) in [(1, "order-0001-of-today"), (2, "order-0002-of-today")] {
        fixture.buy(Payer::new(1).pays_as(nonce, name)).await;
    }
    let damage = async |space, key: Vec<u8>| {
        fixture.store.apply(Batch::of(vec![], vec![Write::put(space, key, b"\xff".to_vec())]), Durability::Buffered).await.unwrap();
    };
    let named =
        |rows: Vec<(Vec<u8>, Vec<u8>)>| rows.into_iter().map(|(key, _)| key).filter(|key| key.starts_with(b"cid/")).collect::<Vec<_>>();
    damage(Space::Payments, named(fixture.all(Space::Payments).await).remove(0)).await;
    damage(Space::PaymentExpiry, vec![0]).await;
    damage(Space::OpenIntents, b"pmt_!".to_vec()).await;
    fixture.wait_until(DAY + 1).await;
    assert_eq!(named(fixture.all(Space::Payments).await).len(), 1, "the damaged one alone stays");
    assert_eq!(fixture.retained().await[1], 1, "due payments were read");
}
