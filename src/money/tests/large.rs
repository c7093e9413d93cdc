//! Large answers: their bodies are objects, one per row that references one.

use std::path::PathBuf;

use tollhouse_store::{
    WrittenRow,
    faulty::{Fault, FaultyStore},
    sled::{SledConfig, SledStore},
};

use super::*;
use crate::payments::answer::IN_ROW;

const DAY: u64 = 24 * 3_600_000;

/// Returns an answer with a body of this many bytes.
fn of_size(bytes: usize) -> StoredAnswer {
    answer(&vec![b'x'; bytes])
}

impl Fixture {
    /// Returns the existing objects.
    fn objects(&self) -> Vec<PathBuf> {
        let folder = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        folder(self._folder.path().join("objects")).flat_map(folder).collect()
    }

    async fn sell_of(&self, offered: OfferedPayment, bytes: usize) -> Result<StoredAnswer, SettleError> {
        let admission = self.run(offered).await;
        self.payments.settle(admission, of_size(bytes), &draft()).await
    }

    /// Resolves whatever is open and moves two days ahead, so that no promise is left.
    async fn in_two_days(&self) {
        self.payments.recover().await.unwrap();
        self.payments.tick().await.unwrap();
        self.clock.set(self.clock.now().plus_millis(2 * DAY));
        self.objects.collect().await.unwrap();
    }

    /// Counts the objects that rows reference.
    async fn named(&self) -> usize {
        let rows = self.all(Space::PaymentAnswers).await;
        let row = |(key, value)| object_of(&WrittenRow::new(Space::PaymentAnswers, key, value));
        rows.into_iter().filter_map(row).count()
    }
}

async fn credit(fixture: &Fixture) -> impl Fn() -> OfferedPayment + use<> {
    let token = fixture.payments.credits().mint(PRICE, "a test", None).await.unwrap().token.unwrap();
    move || OfferedPayment::Credit(CreditOffer { token: token.clone(), idempotency_key: Some("a-key".to_owned()), observer: None })
}

#[tokio::test]
async fn the_body_of_a_large_answer_is_an_object_and_no_row_has_it() {
    let fixture = Fixture::new().await;
    let by_credit = credit(&fixture).await;
    let options: [(u64, &dyn Fn() -> OfferedPayment); 2] = [(1, &|| Payer::new(1).pays(1)), (2, &by_credit)];
    for (objects, offered) in options {
        let first = fixture.sell_of(offered(), IN_ROW + 1).await.unwrap();
        assert!(!first.receipt_id.is_empty());
        assert_eq!(fixture.objects().len() as u64, objects);
        for space in Space::ALL {
            let max_len = fixture.all(space).await.into_iter().map(|(_, value)| value.len()).max();
            assert!(max_len.unwrap_or_default() < IN_ROW, "{space:?}");
        }
        let fixture = fixture.restarted();
        assert_eq!(stored(fixture.admit(offered()).await), first, "given again as it was given first");
    }
    fixture.sell_of(Payer::new(2).pays(2), IN_ROW).await.unwrap();
    assert_eq!(fixture.objects().len(), 2, "a smaller answer is in its row");
}

#[tokio::test]
async fn a_large_answer_that_is_lost_is_reported_and_nothing_is_run_or_charged_again() {
    for by_credit in [false, true] {
        let fixture = Fixture::new().await;
        let of_credit = credit(&fixture).await;
        let offered = || if by_credit { of_credit() } else { Payer::new(1).pays(1) };
        fixture.sell_of(offered(), IN_ROW + 1).await.unwrap();
        let (object, receipts) = (fixture.objects().remove(0), fixture.receipts().await);
        let content = std::fs::read(&object).unwrap();
        for other in [Some(&b"something else"[..]), None] {
            match other {
                Some(other) => std::fs::write(&object, other).unwrap(),
                None => std::fs::remove_file(&object).unwrap(),
            }
            let refused = fixture.admit(offered()).await;
            let Err(Refusal::AnswerLost(id)) = refused else { panic!("{}", what(&refused)) };
            assert!(matches!(fixture.payments.earlier(&offered(), REQUEST).await, Err(Refusal::AnswerLost(_))));
            assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Lost));
            assert_eq!(fixture.state(&id).await, Some(PaymentState::Settled));
        }
        assert_eq!(fixture.receipts().await, receipts);
        // An operator who finds the lost object can put it back.
        std::fs::write(&object, content).unwrap();
        assert_eq!(stored(fixture.admit(offered()).await).body.len(), IN_ROW + 1);
    }
}

#[tokio::test]
async fn a_bucket_that_cannot_be_read_is_away_and_nothing_is_lost() {
    let fixture = Fixture::new().await;
    fixture.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap();
    let object = fixture.objects().remove(0);
    let (folder, alongside) = (object.parent().unwrap().to_owned(), fixture._folder.path().join("beside"));
    std::fs::rename(&folder, &alongside).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let refused = fixture.admit(Payer::new(1).pays(1)).await;
    assert!(matches!(refused, Err(Refusal::Store(StoreError::Away(_)))), "{}", what(&refused));
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&alongside, &folder).unwrap();
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body.len(), IN_ROW + 1);
}

#[tokio::test]
async fn answer_that_the_bucket_refuses_is_stored_like_a_small_one() {
    let fixture = Fixture::new().await;
    let folder = fixture._folder.path().join("objects");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let first = fixture.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap();
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await), first);
}

#[tokio::test]
async fn large_answer_is_found_by_the_task_that_learns_of_the_settlement() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    fixture.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap_err();
    let object = fixture.objects().remove(0);
    let alongside = fixture._folder.path().join("beside");
    std::fs::rename(&object, &alongside).unwrap();
    let fixture = fixture.restarted();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!(
        fixture.state(&Payer::new(1).payment(1).id()).await,
        Some(PaymentState::Settled),
        "money that moved is reported even without the answer"
    );
    assert!(matches!(fixture.admit(Payer::new(1).pays(1)).await, Err(Refusal::AnswerLost(_))));
    std::fs::rename(&alongside, &object).unwrap();
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body.len(), IN_ROW + 1);
}

/// Its object was stored an hour before it was settled, and promised for a day.
#[tokio::test]
async fn a_large_answer_stays_for_as_long_as_its_row() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::SettlesUnsure);
    fixture.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap_err();
    fixture.clock.set(NOW.plus_millis(DAY / 24));
    let fixture = fixture.restarted();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    fixture.clock.set(NOW.plus_millis(DAY + 1));
    fixture.payments.tick().await.unwrap();
    fixture.objects.collect().await.unwrap();
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body.len(), IN_ROW + 1);
}

#[tokio::test]
async fn a_large_answer_goes_with_its_row() {
    let fixture = Fixture::new().await;
    fixture.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap();
    for (nonce, mood) in [(2, FacilitatorMood::Refuses), (3, FacilitatorMood::Away)] {
        fixture.facilitator.feel(mood);
        fixture.sell_of(Payer::new(1).pays(nonce), IN_ROW + 1).await.unwrap_err();
    }
    fixture.clock.set(NOW.plus_millis(DAY));
    fixture.objects.collect().await.unwrap();
    assert_eq!(fixture.objects().len(), 1, "an answer without a payment is not stored");
    fixture.clock.set(NOW.plus_millis(DAY + 1));
    fixture.payments.tick().await.unwrap();
    fixture.clock.set(NOW.plus_millis(DAY + 2));
    fixture.objects.collect().await.unwrap();
    assert!(fixture.objects().is_empty(), "nobody can ask for it anymore");
    assert_eq!(code(fixture.admit(Payer::new(1).pays(1)).await), "invalid_exact_evm_nonce_already_used");
}

/// Each commit of a sale fails in each way. Then the host stops, and another takes over.
#[tokio::test]
async fn objects_match_their_rows_after_any_failure() {
    for by_credit in [false, true] {
        for fault in [Fault::Before, Fault::After, Fault::Lost] {
            for nth in 1..=6 {
                let story = format!("credit {by_credit}, {fault:?} at commit {nth}");
                let store = Arc::new(FaultyStore::new(MemoryStore::new()));
                let fixture = Fixture::over(Arc::clone(&store) as _);
                fixture.fund().await;
                let of_credit = credit(&fixture).await;
                let offered = || if by_credit { of_credit() } else { Payer::new(1).pays(1) };
                let admission = fixture.run(offered()).await;
                store.fail_nth(nth, fault);
                let answer = fixture.payments.settle(admission, of_size(IN_ROW + 1), &draft()).await;
                store.heal();
                let fixture = fixture.restarted();
                fixture.payments.recover().await.unwrap();
                fixture.payments.tick().await.unwrap();
                match (answer, fixture.admit(offered()).await) {
                    (Ok(first), Ok(Admit::Seen(SeenPayment::Stored(_, again)))) => assert_eq!(again, first, "{story}"),
                    (Ok(_), other) => panic!("{story}: an answer was announced, but {}", what(&other)),
                    (Err(_), Ok(Admit::Seen(SeenPayment::Stored(_, again)))) => assert_eq!(again.body.len(), IN_ROW + 1, "{story}"),
                    (Err(_), Ok(Admit::Run(admission))) => admission.release().await,
                    (Err(_), other) => panic!("{story}: {}", what(&other)),
                }
                let stored = fixture.named().await;
                assert!(fixture.objects().len() >= stored, "{story}: a row names a missing object");
                fixture.in_two_days().await;
                fixture.payments.tick().await.unwrap();
                fixture.clock.set(fixture.clock.now().plus_millis(1));
                fixture.objects.collect().await.unwrap();
                assert_eq!((fixture.named().await, fixture.objects().len()), (0, 0), "{story}: an object that nothing names");
            }
        }
    }
}

/// Regression test: a concurrent request got an answer whose body a power cut could have lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_is_on_disk_before_its_intent_is() {
    let folder = tempfile::tempdir().unwrap();
    let objects: Arc<Mutex<Option<PathBuf>>> = Arc::default();
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (looks, counts) = (Arc::clone(&objects), Arc::clone(&seen));
    let before_sync = Arc::new(move || {
        if let Some(folder) = &*looks.lock().unwrap() {
            let files = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            counts.lock().unwrap().push(files(folder.clone()).flat_map(files).count());
        }
        Ok(())
    });
    let store = SledStore::open(folder.path().join("store"), SledConfig { before_sync, ..SledConfig::default() }).unwrap();
    let fixture = Fixture::over(Arc::new(store));
    fixture.fund().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    *objects.lock().unwrap() = Some(fixture._folder.path().join("objects"));
    fixture.payments.settle(admission, of_size(IN_ROW + 1), &draft()).await.unwrap();
    *objects.lock().unwrap() = None;
    // The promise, then the object, then the intent, the transfer, and the outcome.
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() >= 3 && seen[0] == 0 && seen[1..].iter().all(|objects| *objects == 1), "{seen:?}");
}
