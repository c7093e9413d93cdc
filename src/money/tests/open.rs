//! Many settlements are open at once, and some of them get no answer.

use tokio::time::Instant;

use super::*;

/// Interval between two rounds of lookups.
const SWEEP: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

impl Fixture {
    /// Returns a gate over an empty store without limits on runs, and payers 1 to 3 with money.
    pub(super) async fn unlimited() -> Self {
        let none = FailedRuns { of_payer: None, of_address: None, of_tool: None, refused_of_address: None };
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
        let config = PaymentConfig { failed_runs: none, ..config() };
        let fixture = Self::assemble(config, Arc::new(MemoryStore::new()), Clock::fixed(NOW), signer, folder);
        fixture.fund().await;
        fixture
    }

    /// Leaves settlements open, for these nonces of each payer, and returns their payments.
    async fn leave_open(&self, nonces: std::ops::Range<u64>) -> Vec<PaymentId> {
        self.facilitator.feel(FacilitatorMood::Unsure);
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
        let started = Instant::now();
        while started.elapsed() < span {
            self.payments.tick().await.unwrap();
            if done().await {
                return Some(started.elapsed());
            }
            tokio::time::sleep(SWEEP).await;
        }
        None
    }

    async fn is_settled(&self, ids: &[PaymentId]) -> bool {
        for id in ids {
            if self.state(id).await != Some(PaymentState::Settled) {
                return false;
            }
        }
        true
    }
}

#[tokio::test(start_paused = true)]
async fn settlement_without_an_answer_delays_no_other_settlement() {
    let fixture = Fixture::unlimited().await;
    let deaf = fixture.leave_open(0..70).await;
    *fixture.facilitator.deaf.lock().unwrap() = deaf.clone();
    fixture.facilitator.feel(FacilitatorMood::Honest);
    assert_eq!(fixture.ask_for(20 * MINUTE, async || false).await, None);
    assert_eq!(fixture.payments.open_intents(), deaf.len(), "all are open still");
    for nonce in 100..110 {
        let fresh = fixture.leave_open(nonce..nonce + 1).await;
        fixture.facilitator.feel(FacilitatorMood::Honest);
        let elapsed = fixture.ask_for(20 * MINUTE, async || fixture.is_settled(&fresh).await).await;
        assert!(elapsed.is_some_and(|elapsed| elapsed <= 3 * SWEEP), "{elapsed:?}");
        tokio::time::sleep(37 * SWEEP).await;
    }
}

#[tokio::test(start_paused = true)]
async fn once_a_facilitator_answers_again_all_that_waits_is_settled() {
    let fixture = Fixture::unlimited().await;
    let mut open = vec![];
    // The settlements begin one after the other, so their lookups are due at different times.
    for nonces in 0..10 {
        open.extend(fixture.leave_open(nonces * 9..nonces * 9 + 9).await);
        fixture.ask_for(MINUTE / 3, async || false).await;
    }
    assert_eq!(fixture.ask_for(60 * MINUTE, async || false).await, None);
    fixture.facilitator.feel(FacilitatorMood::Honest);
    let first = fixture.ask_for(6 * MINUTE, async || fixture.earned().await > 0).await;
    assert!(first.is_some(), "nothing was asked about");
    let rest = fixture.ask_for(6 * MINUTE, async || fixture.is_settled(&open).await).await;
    assert!(rest.is_some_and(|rest| rest <= 4 * SWEEP), "after {first:?}, {rest:?}");
    assert_eq!((fixture.payments.open_intents(), fixture.receipts().await.len()), (0, open.len()));
}

#[tokio::test(start_paused = true)]
async fn settlement_is_queried_less_often_over_time() {
    let fixture = Fixture::unlimited().await;
    let open = fixture.leave_open(0..1).await;
    assert_eq!(fixture.ask_for(10 * MINUTE, async || false).await, None);
    fixture.facilitator.feel(FacilitatorMood::Honest);
    let elapsed = fixture.ask_for(10 * MINUTE, async || fixture.is_settled(&open).await).await;
    assert!(elapsed.is_some_and(|elapsed| elapsed > MINUTE), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_query_is_repeated() {
    let fixture = Fixture::unlimited().await;
    let open = fixture.leave_open(0..1).await;
    fixture.facilitator.feel(FacilitatorMood::Honest);
    *fixture.facilitator.deaf.lock().unwrap() = open.clone();
    tokio::time::sleep(SWEEP).await;
    let round = tokio::time::timeout(SWEEP / 2, fixture.payments.tick()).await;
    assert!(round.is_err(), "an answer is awaited");
    fixture.facilitator.deaf.lock().unwrap().clear();
    let elapsed = fixture.ask_for(10 * MINUTE, async || fixture.is_settled(&open).await).await;
    assert!(elapsed.is_some_and(|elapsed| elapsed <= SWEEP), "{elapsed:?}");
}
