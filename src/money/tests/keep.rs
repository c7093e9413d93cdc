//! How long the data of a payment is kept: until nothing can be looked up any more.

use tollhouse_tool::MicroUsd;

use super::*;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const NAME: &str = "order-0001-of-today";
const EXPIRED: &str = "invalid_exact_evm_payload_authorization_valid_before";
const SPENT: &str = "invalid_exact_evm_nonce_already_used";

impl Bench {
    /// Moves the clock to `millis` after the start, and deletes what is due.
    async fn wait_until(&self, millis: u64) {
        self.clock.set(NOW.plus_millis(millis));
        self.gate.tick().await.unwrap();
        self.ledger.forget(self.clock.now()).await.unwrap();
    }

    /// Counts the keys that grow with payments: records and names, due times, nonces.
    async fn kept(&self) -> [usize; 4] {
        let mut kept = [0; 4];
        let spaces = [Space::Payments, Space::PaymentExpiry, Space::LedgerNonces, Space::LedgerExpiry];
        for (kept, space) in kept.iter_mut().zip(spaces) {
            // The receipts of a transaction are kept forever.
            *kept = self.all(space).await.iter().filter(|(key, _)| !key.starts_with(b"tx/")).count();
        }
        kept
    }
}

fn v1(payload: &Value) -> Offered {
    Offered::X402 { version: WireVersion::V1, header: STANDARD.encode(payload.to_string()) }
}

#[tokio::test]
async fn a_record_goes_with_its_answer_and_its_replay_is_refused_all_the_same() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let shown = || [payer.pays(1), v1(&payer.payload_v1(&payer.authorization(2))), payer.pays_as(3, NAME)];
    let mut first = vec![];
    for offered in shown() {
        first.push(bench.buy(offered).await);
    }
    bench.wait_until(DAY).await;
    for (offered, first) in shown().into_iter().zip(&first) {
        assert_eq!(&stored(bench.admit(offered).await), first, "to the very day");
    }
    bench.wait_until(DAY + 1).await;
    assert_eq!(bench.kept().await, [3, 0, 0, 0], "no more than that they are spent");
    for offered in shown() {
        assert_eq!(code(bench.admit(offered).await), SPENT);
    }
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (3 * PRICE.0, 3));
    assert_eq!(bench.facilitator.verified.load(Ordering::SeqCst), 3, "none was asked about again");
}

#[tokio::test]
async fn an_authorization_that_is_valid_for_days_is_remembered_for_days() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let shown = || offer(&payer.payload(&payer.valid_for(1, 3 * DAY)));
    bench.buy(shown()).await;
    bench.wait_until(DAY + 1).await;
    let record = crate::gate::record::Record::of_bytes(&bench.all(Space::Payments).await[0].1).unwrap();
    assert_eq!(record.answer, None);
    assert_eq!(code(bench.admit(shown()).await), SPENT);
    bench.wait_until(3 * DAY + HOUR).await;
    assert_eq!(code(bench.admit(shown()).await), SPENT, "to the hour after its end");
    bench.wait_until(3 * DAY + HOUR + 1).await;
    assert_eq!(bench.kept().await, [1, 0, 0, 0]);
    assert!(bench.all(Space::Payments).await[0].1.len() < 200);
    assert_eq!(code(bench.admit(shown()).await), SPENT);
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
}

/// A payer can sign until the year 9999, and its record would have to be kept that long.
#[tokio::test]
async fn an_authorization_ends_no_sooner_than_the_longest_run_and_its_settlement() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let (wall, margin) = (terms().wall, Duration::from_secs(30));
    let least = u64::try_from((wall + margin).as_millis()).unwrap();
    for too_soon in [1_000, least - 1_000] {
        let refused = bench.admit(offer(&payer.payload(&payer.valid_for(1, too_soon)))).await;
        let Err(Refusal::TooShort { left, .. }) = refused else { panic!("{}", what(&refused)) };
        assert_eq!(left, Duration::from_millis(too_soon));
    }
    bench.buy(offer(&payer.payload(&payer.valid_for(1, least)))).await;
}

#[tokio::test]
async fn an_authorization_that_is_valid_for_more_than_a_week_is_refused() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let for_ever = Authorization { valid_before: alloy_primitives::U256::MAX.to_string(), ..payer.authorization(1) };
    for too_far in [payer.valid_for(1, 7 * DAY + 1_000), for_ever] {
        for offered in [offer(&payer.payload(&too_far)), v1(&payer.payload_v1(&too_far))] {
            assert_eq!(code(bench.admit(offered).await), EXPIRED);
        }
    }
    let refused = bench.admit(offer(&payer.payload(&payer.valid_for(1, 8 * DAY)))).await;
    let Err(Refusal::Invalid { message, .. }) = refused else { panic!("{}", what(&refused)) };
    assert!(message.contains("more than 7 days ahead"), "{message}");
    assert_eq!(bench.kept().await, [0; 4]);
    bench.buy(offer(&payer.payload(&payer.valid_for(1, 7 * DAY)))).await;
}

#[tokio::test]
async fn what_took_nothing_is_forgotten_sooner() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    bench.run(offer(&payer.payload(&payer.valid_for(1, 3 * DAY)))).await.release().await;
    bench.run(payer.pays_as(2, NAME)).await.release().await;
    bench.facilitator.feel(Mood::Refuses);
    let admission = bench.run(payer.pays(3)).await;
    bench.settle(admission).await.unwrap_err();
    bench.facilitator.feel(Mood::Honest);
    assert_eq!(bench.kept().await, [4, 3, 0, 0]);
    bench.wait_until(HOUR + 1).await;
    assert_eq!(bench.kept().await, [1, 1, 0, 0], "the refused one can be asked for");
    bench.wait_until(DAY + 1).await;
    assert_eq!(bench.kept().await, [0; 4]);
    // The released one is still unspent, and pays.
    bench.buy(offer(&payer.payload(&payer.valid_for(1, 3 * DAY)))).await;
    assert_eq!(bench.earned().await, PRICE.0);
}

#[tokio::test]
async fn a_payment_under_way_is_not_forgotten() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    bench.run(payer.pays(1)).await.release().await;
    let admission = bench.run(payer.pays(1)).await;
    bench.wait_until(HOUR + 1).await;
    assert_eq!(bench.kept().await, [1, 0, 0, 0]);
    // Its authorization has expired meanwhile. It matters only that its end has a record.
    bench.settle(admission).await.unwrap_err();
    assert_eq!(bench.kept().await, [1, 1, 0, 0]);
}

#[tokio::test]
async fn a_name_that_was_taken_over_stays_with_who_has_it() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    bench.run(payer.pays_as(1, NAME)).await.release().await;
    bench.clock.set(NOW.plus_millis(1_000));
    let second = bench.buy(payer.pays_as(2, NAME)).await;
    bench.wait_until(HOUR + 1).await;
    assert_eq!(bench.kept().await, [2, 1, 1, 1], "the second payment and its name");
    assert_eq!(stored(bench.admit(payer.pays_as(2, NAME)).await), second);
}

#[tokio::test]
async fn an_idempotency_key_names_one_call_for_a_week() {
    let bench = Bench::new().await;
    let minted = bench.gate.credits().mint(MicroUsd(10 * PRICE.0), "a test", None).await.unwrap();
    let token = minted.token.unwrap();
    let by =
        |key: Option<&str>| Offered::Credit(CreditOffer { token: token.clone(), idempotency_key: key.map(str::to_owned), observer: None });
    let first = bench.buy(by(Some("a-key"))).await;
    bench.buy(by(None)).await;
    assert_eq!(bench.kept().await, [2, 2, 0, 0]);
    bench.wait_until(DAY).await;
    assert_eq!(stored(bench.admit(by(Some("a-key"))).await), first);
    bench.wait_until(DAY + 1).await;
    assert_eq!(bench.kept().await, [1, 1, 0, 0], "without a key nobody can ask again");
    assert!(matches!(bench.admit(by(Some("a-key"))).await, Err(Refusal::AnswerExpired(_))));
    bench.wait_until(7 * DAY - HOUR).await;
    assert!(matches!(bench.admit(by(Some("a-key"))).await, Err(Refusal::AnswerExpired(_))));
    bench.wait_until(7 * DAY + HOUR + 1).await;
    assert_eq!(bench.kept().await, [0; 4]);
    let again = bench.buy(by(Some("a-key"))).await;
    assert_ne!(again.receipt_id, first.receipt_id);
}

/// Earlier versions wrote no tail, and accepted authorizations without expiry.
#[tokio::test]
async fn a_spent_payment_of_an_older_version_is_remembered_for_good() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let shown = || offer(&payer.payload(&payer.valid_for(1, 6 * DAY)));
    bench.buy(shown()).await;
    let (key, bytes) = bench.all(Space::Payments).await.remove(0);
    let mut older = crate::gate::record::Record::of_bytes(&bytes).unwrap();
    older.tail = None;
    bench.store.apply(Batch::of(vec![], vec![Write::put(Space::Payments, key, older.to_bytes())]), Durability::Buffered).await.unwrap();
    bench.wait_until(DAY + 1).await;
    assert_eq!(code(bench.admit(shown()).await), SPENT);
    bench.wait_until(1_000 * DAY).await;
    assert_eq!(bench.kept().await, [1, 0, 0, 0]);
}

#[tokio::test]
async fn all_that_is_due_is_forgotten_at_once() {
    let bench = Bench::new().await;
    for seed in 1..=3 {
        for nonce in 0..100 {
            bench.buy(Payer::new(seed).pays(nonce)).await;
        }
    }
    bench.wait_until(DAY + 1).await;
    assert_eq!(bench.kept().await, [300, 0, 0, 0]);
    assert_eq!(bench.receipts().await.len(), 300);
}

#[tokio::test]
async fn names_of_a_payment_that_took_nothing_go_with_it() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    for n in 0..50 {
        bench.run(payer.pays_as(1, &format!("order-{n:020}"))).await.release().await;
    }
    assert_eq!(bench.kept().await, [2, 1, 0, 0], "the payment and its last name");
    bench.wait_until(1_000 * DAY).await;
    assert_eq!(bench.kept().await, [0; 4]);
}

#[tokio::test]
async fn one_record_that_does_not_read_holds_up_no_other() {
    let bench = Bench::new().await;
    for nonce in 0..10 {
        bench.buy(Payer::new(1).pays(nonce)).await;
    }
    let (key, _) = bench.all(Space::Payments).await.remove(0);
    bench.store.apply(Batch::of(vec![], vec![Write::put(Space::Payments, key, b"\xff".to_vec())]), Durability::Buffered).await.unwrap();
    bench.wait_until(DAY + 1).await;
    assert_eq!(bench.kept().await, [10, 0, 0, 0]);
}

#[tokio::test]
async fn neither_a_name_nor_a_key_that_does_not_read_holds_up_any_other() {
    let bench = Bench::new().await;
    for (nonce, name) in [(1, "order-0001-of-today"), (2, "order-0002-of-today")] {
        bench.buy(Payer::new(1).pays_as(nonce, name)).await;
    }
    let damage = async |space, key: Vec<u8>| {
        bench.store.apply(Batch::of(vec![], vec![Write::put(space, key, b"\xff".to_vec())]), Durability::Buffered).await.unwrap();
    };
    let named =
        |rows: Vec<(Vec<u8>, Vec<u8>)>| rows.into_iter().map(|(key, _)| key).filter(|key| key.starts_with(b"cid/")).collect::<Vec<_>>();
    damage(Space::Payments, named(bench.all(Space::Payments).await).remove(0)).await;
    damage(Space::PaymentExpiry, vec![0]).await;
    damage(Space::OpenIntents, b"pmt_!".to_vec()).await;
    bench.wait_until(DAY + 1).await;
    assert_eq!(named(bench.all(Space::Payments).await).len(), 1, "the damaged one alone stays");
    assert_eq!(bench.kept().await[1], 1, "what is due of the payments was looked at");
}
