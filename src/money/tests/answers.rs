//! Answers are stored once, kept as long as they can be requested, and sent only when durable.

use tollhouse_store::sled::{SledConfig, SledStore};

use super::*;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// A store that records the values of commits.
#[derive(Default)]
struct Recording {
    inner: MemoryStore,
    written: Mutex<Vec<Vec<u8>>>,
}

impl Recording {
    /// Returns the number of written values that contain `part`.
    fn written_with(&self, part: &[u8]) -> usize {
        let written = self.written.lock().unwrap();
        written.iter().filter(|value| value.windows(part.len()).any(|some| some == part)).count()
    }
}

#[async_trait]
impl StoreWrapper for Recording {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.written.lock().unwrap().extend(batch.writes.iter().filter_map(|write| write.value.as_ref().map(|value| value.to_vec())));
        self.inner.apply(batch, durability).await
    }
}

/// Regression test: the answer was written with the intent, and again with the outcome.
#[tokio::test]
async fn an_answer_is_written_once() {
    let store = Arc::new(Recording::default());
    let fixture = Fixture::over(Arc::clone(&store) as _);
    fixture.fund().await;
    let credit = fixture.payments.credits().mint(PRICE, "a test", None).await.unwrap().token.unwrap();
    let by_credit =
        || OfferedPayment::Credit(CreditOffer { token: credit.clone(), idempotency_key: Some("a-key".to_owned()), observer: None });
    for (times, offered) in [(1, (&|| Payer::new(1).pays(1)) as &dyn Fn() -> OfferedPayment), (2, &by_credit)] {
        let first = fixture.buy(offered()).await;
        assert_eq!(store.written_with(ANSWER), times);
        assert_eq!(stored(fixture.admit(offered()).await), first);
        assert!(!first.receipt_id.is_empty());
    }
}

#[tokio::test]
async fn answer_is_removed_once_it_can_no_longer_be_requested() {
    let fixture = Fixture::new().await;
    // The payment is released first, and then buys a run before its next check an hour later.
    fixture.run(Payer::new(1).pays(1)).await.release().await;
    fixture.buy(Payer::new(1).pays(1)).await;
    for (millis, stored) in [(HOUR + 1, 1), (DAY, 1), (DAY + 1, 0)] {
        fixture.clock.set(NOW.plus_millis(millis));
        fixture.payments.tick().await.unwrap();
        assert_eq!(fixture.all(Space::PaymentAnswers).await.len(), stored, "after {millis} ms");
    }
}

#[tokio::test]
async fn answer_that_was_not_paid_for_is_not_stored() {
    let fixture = Fixture::new().await;
    for (nonce, mood) in [(1, FacilitatorMood::Refuses), (2, FacilitatorMood::Away)] {
        fixture.facilitator.feel(mood);
        let admission = fixture.run(Payer::new(1).pays(nonce)).await;
        fixture.settle(admission).await.unwrap_err();
        assert!(fixture.all(Space::PaymentAnswers).await.is_empty(), "{mood:?}");
    }
    fixture.facilitator.feel(FacilitatorMood::Honest);
    assert_eq!(fixture.buy(Payer::new(1).pays(1)).await.body, ANSWER, "it is unspent, and buys after all");
}

/// Regression test: a concurrent request got an answer that a power cut could have lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twin_request_sees_only_durable_settlements() {
    let (held, mut syncs) = tokio::sync::mpsc::unbounded_channel();
    let (go, gone_on) = std::sync::mpsc::channel();
    let gone_on = Mutex::new(gone_on);
    // The journal has the frame, and the disk is slow.
    let before_sync = Arc::new(move || {
        if held.send(()).is_ok() {
            // If the test has failed, nobody sends the signal.
            _ = gone_on.lock().unwrap().recv_timeout(Duration::from_secs(30));
        }
        Ok(())
    });
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path().join("store"), SledConfig { before_sync, ..SledConfig::default() }).unwrap();
    let fixture = Fixture::over(Arc::new(store));
    let payer = Payer::new(1);
    let settling = async {
        fixture.fund().await;
        fixture.buy(payer.pays(1)).await
    };
    let mut settling = std::pin::pin!(settling);
    let (mut seen, mut states) = (0, vec![]);
    let first = loop {
        tokio::select! {
            first = &mut settling => break first,
            Some(()) = syncs.recv() => {
                let id = payer.payment(1).id();
                assert!(fixture.receipts().await.is_empty(), "a receipt that is not on disk");
                let state = fixture.state(&id).await;
                assert_ne!(state, Some(PaymentState::Settled), "the state before the disk has it");
                if state.is_some() {
                    assert!(matches!(fixture.admit(payer.pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "a twin was answered");
                }
                states.extend(state);
                seen += 1;
                go.send(()).unwrap();
            }
        }
    };
    // Closing the store must not wait for the test.
    drop((syncs, go));
    assert!(seen >= 2 && states.contains(&PaymentState::Settling), "{seen} syncs, {states:?}");
    assert_eq!(stored(fixture.admit(payer.pays(1)).await), first);
    assert_eq!(fixture.receipts().await.len(), 1);
}
