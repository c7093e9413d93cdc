//! Large answers: their bodies are objects, one per row that references one.

use std::path::PathBuf;

use tollhouse_replica::ANSWERS_APART;
use tollhouse_store::{
    Written,
    faulty::{Fault, FaultyStore},
    sled::{SledConfig, SledStore},
};

use super::*;
use crate::gate::answer::IN_ROW;

const DAY: u64 = 24 * 3_600_000;

/// Returns an answer with a body of this many bytes.
fn of_size(bytes: usize) -> StoredAnswer {
    answer(&vec![b'x'; bytes])
}

impl Bench {
    /// Returns the existing objects.
    fn objects(&self) -> Vec<PathBuf> {
        let folder = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        folder(self._folder.path().join("objects")).flat_map(folder).collect()
    }

    async fn sell_of(&self, offered: Offered, bytes: usize) -> Result<StoredAnswer, SettleError> {
        let admission = self.run(offered).await;
        self.gate.settle(admission, of_size(bytes), &draft()).await
    }

    /// Resolves whatever is open and moves two days ahead, so that no promise is left.
    async fn in_two_days(&self) {
        self.gate.recover().await.unwrap();
        self.gate.tick().await.unwrap();
        self.clock.set(self.clock.now().plus_millis(2 * DAY));
        self.objects.collect().await.unwrap();
    }

    /// Counts the objects that rows reference.
    async fn named(&self) -> usize {
        let rows = self.all(Space::PaymentAnswers).await;
        let row = |(key, value)| object_of(&Written::new(Space::PaymentAnswers, key, value));
        rows.into_iter().filter_map(row).count()
    }
}

async fn credit(bench: &Bench) -> impl Fn() -> Offered + use<> {
    let token = bench.gate.credits().mint(PRICE, "a test", None).await.unwrap().token.unwrap();
    move || Offered::Credit(CreditOffer { token: token.clone(), idempotency_key: Some("a-key".to_owned()), observer: None })
}

#[tokio::test]
async fn the_body_of_a_large_answer_is_an_object_and_no_row_has_it() {
    let bench = Bench::new().await;
    let by_credit = credit(&bench).await;
    let ways: [(u64, &dyn Fn() -> Offered); 2] = [(1, &|| Payer::new(1).pays(1)), (2, &by_credit)];
    for (objects, offered) in ways {
        let first = bench.sell_of(offered(), IN_ROW + 1).await.unwrap();
        assert!(!first.receipt_id.is_empty());
        assert_eq!(bench.objects().len() as u64, objects);
        for space in Space::ALL {
            let longest = bench.all(space).await.into_iter().map(|(_, value)| value.len()).max();
            assert!(longest.unwrap_or_default() < IN_ROW, "{space:?}");
        }
        let bench = bench.restarted();
        assert_eq!(stored(bench.admit(offered()).await), first, "given again as it was given first");
    }
    bench.sell_of(Payer::new(2).pays(2), IN_ROW).await.unwrap();
    assert_eq!(bench.objects().len(), 2, "what is no larger than that is in its row");
}

#[tokio::test]
async fn a_large_answer_that_is_lost_is_told_and_nothing_is_run_or_charged_again() {
    for by_credit in [false, true] {
        let bench = Bench::new().await;
        let of_credit = credit(&bench).await;
        let offered = || if by_credit { of_credit() } else { Payer::new(1).pays(1) };
        bench.sell_of(offered(), IN_ROW + 1).await.unwrap();
        let (object, receipts) = (bench.objects().remove(0), bench.receipts().await);
        let content = std::fs::read(&object).unwrap();
        for other in [Some(&b"something else"[..]), None] {
            match other {
                Some(other) => std::fs::write(&object, other).unwrap(),
                None => std::fs::remove_file(&object).unwrap(),
            }
            let refused = bench.admit(offered()).await;
            let Err(Refusal::AnswerLost(id)) = refused else { panic!("{}", what(&refused)) };
            assert!(matches!(bench.gate.earlier(&offered(), REQUEST).await, Err(Refusal::AnswerLost(_))));
            assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::Lost));
            assert_eq!(bench.state(&id).await, Some(State::Settled));
        }
        assert_eq!(bench.receipts().await, receipts);
        // An operator who finds it can put it back.
        std::fs::write(&object, content).unwrap();
        assert_eq!(stored(bench.admit(offered()).await).body.len(), IN_ROW + 1);
    }
}

#[tokio::test]
async fn a_bucket_that_cannot_be_read_is_away_and_nothing_is_lost() {
    let bench = Bench::new().await;
    bench.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap();
    let object = bench.objects().remove(0);
    let (folder, beside) = (object.parent().unwrap().to_owned(), bench._folder.path().join("beside"));
    std::fs::rename(&folder, &beside).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let refused = bench.admit(Payer::new(1).pays(1)).await;
    assert!(matches!(refused, Err(Refusal::Store(StoreError::Away(_)))), "{}", what(&refused));
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&beside, &folder).unwrap();
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await).body.len(), IN_ROW + 1);
}

#[tokio::test]
async fn what_no_bucket_takes_is_stored_as_small_answers_are() {
    let bench = Bench::new().await;
    let folder = bench._folder.path().join("objects");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let first = bench.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap();
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await), first);
}

#[tokio::test]
async fn a_large_answer_is_found_by_who_finds_out_that_its_payment_settled() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    bench.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap_err();
    let object = bench.objects().remove(0);
    let beside = bench._folder.path().join("beside");
    std::fs::rename(&object, &beside).unwrap();
    let bench = bench.restarted();
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!(
        bench.state(&Payer::new(1).payment(1).id()).await,
        Some(State::Settled),
        "money that moved is told, whatever became of the answer"
    );
    assert!(matches!(bench.admit(Payer::new(1).pays(1)).await, Err(Refusal::AnswerLost(_))));
    std::fs::rename(&beside, &object).unwrap();
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await).body.len(), IN_ROW + 1);
}

/// Its object was stored an hour before it was settled, and promised for a day.
#[tokio::test]
async fn a_large_answer_stays_for_as_long_as_its_row() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::SettlesUnsure);
    bench.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap_err();
    bench.clock.set(NOW.plus_millis(DAY / 24));
    let bench = bench.restarted();
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    bench.clock.set(NOW.plus_millis(DAY + 1));
    bench.gate.tick().await.unwrap();
    bench.objects.collect().await.unwrap();
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await).body.len(), IN_ROW + 1);
}

#[tokio::test]
async fn a_large_answer_goes_with_its_row() {
    let bench = Bench::new().await;
    bench.sell_of(Payer::new(1).pays(1), IN_ROW + 1).await.unwrap();
    for (nonce, mood) in [(2, Mood::Refuses), (3, Mood::Away)] {
        bench.facilitator.feel(mood);
        bench.sell_of(Payer::new(1).pays(nonce), IN_ROW + 1).await.unwrap_err();
    }
    bench.clock.set(NOW.plus_millis(DAY));
    bench.objects.collect().await.unwrap();
    assert_eq!(bench.objects().len(), 1, "what was not bought is not kept");
    bench.clock.set(NOW.plus_millis(DAY + 1));
    bench.gate.tick().await.unwrap();
    bench.clock.set(NOW.plus_millis(DAY + 2));
    bench.objects.collect().await.unwrap();
    assert!(bench.objects().is_empty(), "nobody can ask for it any more");
    assert_eq!(code(bench.admit(Payer::new(1).pays(1)).await), "invalid_exact_evm_nonce_already_used");
}

/// Each commit of a sale fails in each way. Then the host stops, and another takes over.
#[tokio::test]
async fn whatever_fails_there_are_as_many_objects_as_rows_that_name_them() {
    for by_credit in [false, true] {
        for fault in [Fault::Before, Fault::After, Fault::Lost] {
            for nth in 1..=6 {
                let story = format!("credit {by_credit}, {fault:?} at commit {nth}");
                let store = Arc::new(FaultyStore::new(MemoryStore::new()));
                let bench = Bench::over(Arc::clone(&store) as _);
                bench.fund().await;
                let of_credit = credit(&bench).await;
                let offered = || if by_credit { of_credit() } else { Payer::new(1).pays(1) };
                // The first use of a format is recorded in the store.
                assert!(bench.replica.may_write(ANSWERS_APART).await.unwrap());
                let admission = bench.run(offered()).await;
                store.fail_nth(nth, fault);
                let told = bench.gate.settle(admission, of_size(IN_ROW + 1), &draft()).await;
                store.heal();
                let bench = bench.restarted();
                bench.gate.recover().await.unwrap();
                bench.gate.tick().await.unwrap();
                match (told, bench.admit(offered()).await) {
                    (Ok(first), Ok(Admit::Stored(_, again))) => assert_eq!(again, first, "{story}"),
                    (Ok(_), other) => panic!("{story}: it was told of an answer, and {}", what(&other)),
                    (Err(_), Ok(Admit::Stored(_, again))) => assert_eq!(again.body.len(), IN_ROW + 1, "{story}"),
                    (Err(_), Ok(Admit::Run(admission))) => admission.release().await,
                    (Err(_), other) => panic!("{story}: {}", what(&other)),
                }
                let kept = bench.named().await;
                assert!(bench.objects().len() >= kept, "{story}: a row names what is not there");
                bench.in_two_days().await;
                bench.gate.tick().await.unwrap();
                bench.clock.set(bench.clock.now().plus_millis(1));
                bench.objects.collect().await.unwrap();
                assert_eq!((bench.named().await, bench.objects().len()), (0, 0), "{story}: an object that nothing names");
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
    let bench = Bench::over(Arc::new(store));
    bench.fund().await;
    assert!(bench.replica.may_write(ANSWERS_APART).await.unwrap());
    let admission = bench.run(Payer::new(1).pays(1)).await;
    *objects.lock().unwrap() = Some(bench._folder.path().join("objects"));
    bench.gate.settle(admission, of_size(IN_ROW + 1), &draft()).await.unwrap();
    *objects.lock().unwrap() = None;
    // The promise, then the object, then the intent, the transfer, and the outcome.
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() >= 3 && seen[0] == 0 && seen[1..].iter().all(|objects| *objects == 1), "{seen:?}");
}
