//! Many settlements are open at once, and some of them get no answer.

use tokio::time::Instant;

use super::*;

/// Interval between two rounds of lookups.
const SWEEP: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

impl Bench {
    /// Returns a gate over an empty store without limits on runs, and payers 1 to 3 with money.
    pub(super) async fn unlimited() -> Self {
        let none = FailedRuns { of_payer: None, of_address: None, of_tool: None };
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let signer = Arc::new(Signer::open(folder.path()).unwrap());
        let config = PaymentConfig { failed_runs: none, ..config() };
        let bench = Self::assemble(config, Arc::new(MemoryStore::new()), Clock::fixed(NOW), signer, folder);
        assert!(bench.replica.may_write(RECEIPTS_SHORT).await.unwrap());
        bench.fund().await;
        bench
    }

    /// Leaves settlements open, for these nonces of each payer, and returns their payments.
    async fn leave_open(&self, nonces: std::ops::Range<u64>) -> Vec<PaymentId> {
        self.facilitator.feel(Mood::Unsure);
        let mut open = vec![];
        for (seed, nonce) in (1..=3).flat_map(|seed| nonces.clone().map(move |nonce| (seed, nonce))) {
            let admission = self.run(Payer::new(seed).pays(nonce)).await;
            open.push(admission.id().clone());
            self.settle(admission).await.unwrap_err();
        }
        open
    }

    /// Looks up settlements as a host does, for `span` or until `done`. Returns the time until done.
    async fn ask_for(&self, span: Duration, done: impl AsyncFn() -> bool) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < span {
            self.gate.tick().await.unwrap();
            if done().await {
                return Some(begun.elapsed());
            }
            tokio::time::sleep(SWEEP).await;
        }
        None
    }

    async fn is_settled(&self, ids: &[PaymentId]) -> bool {
        for id in ids {
            if self.state(id).await != Some(State::Settled) {
                return false;
            }
        }
        true
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_answers_for_holds_up_no_other_settlement() {
    let bench = Bench::unlimited().await;
    let deaf = bench.leave_open(0..70).await;
    *bench.facilitator.deaf.lock().unwrap() = deaf.clone();
    bench.facilitator.feel(Mood::Honest);
    assert_eq!(bench.ask_for(20 * MINUTE, async || false).await, None);
    assert_eq!(bench.gate.open_intents(), deaf.len(), "all are open still");
    for nonce in 100..110 {
        let fresh = bench.leave_open(nonce..nonce + 1).await;
        bench.facilitator.feel(Mood::Honest);
        let took = bench.ask_for(20 * MINUTE, async || bench.is_settled(&fresh).await).await;
        assert!(took.is_some_and(|took| took <= 3 * SWEEP), "{took:?}");
        tokio::time::sleep(37 * SWEEP).await;
    }
}

#[tokio::test(start_paused = true)]
async fn once_a_facilitator_answers_again_all_that_waits_is_settled() {
    let bench = Bench::unlimited().await;
    let mut open = vec![];
    // They begin one after the other, so their lookups are due at different times.
    for nonces in 0..10 {
        open.extend(bench.leave_open(nonces * 9..nonces * 9 + 9).await);
        bench.ask_for(MINUTE / 3, async || false).await;
    }
    assert_eq!(bench.ask_for(60 * MINUTE, async || false).await, None);
    bench.facilitator.feel(Mood::Honest);
    let first = bench.ask_for(6 * MINUTE, async || bench.earned().await > 0).await;
    assert!(first.is_some(), "nothing was asked about");
    let rest = bench.ask_for(6 * MINUTE, async || bench.is_settled(&open).await).await;
    assert!(rest.is_some_and(|rest| rest <= 4 * SWEEP), "after {first:?}, {rest:?}");
    assert_eq!((bench.gate.open_intents(), bench.receipts().await.len()), (0, open.len()));
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_about_often_is_asked_about_rarely() {
    let bench = Bench::unlimited().await;
    let open = bench.leave_open(0..1).await;
    assert_eq!(bench.ask_for(10 * MINUTE, async || false).await, None);
    bench.facilitator.feel(Mood::Honest);
    let took = bench.ask_for(10 * MINUTE, async || bench.is_settled(&open).await).await;
    assert!(took.is_some_and(|took| took > MINUTE), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_dropped_is_asked_again() {
    let bench = Bench::unlimited().await;
    let open = bench.leave_open(0..1).await;
    bench.facilitator.feel(Mood::Honest);
    *bench.facilitator.deaf.lock().unwrap() = open.clone();
    tokio::time::sleep(SWEEP).await;
    let round = tokio::time::timeout(SWEEP / 2, bench.gate.tick()).await;
    assert!(round.is_err(), "an answer is awaited");
    bench.facilitator.deaf.lock().unwrap().clear();
    let took = bench.ask_for(10 * MINUTE, async || bench.is_settled(&open).await).await;
    assert!(took.is_some_and(|took| took <= SWEEP), "{took:?}");
}
