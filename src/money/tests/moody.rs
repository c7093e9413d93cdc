//! A simulated facilitator with moods.

use super::*;

/// A facilitator's behavior when it is asked to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FacilitatorMood {
    Honest,
    /// Moves the money and never answers.
    SettlesInSilence,
    /// Moves the money and answers that it does not know.
    SettlesUnsure,
    /// Moves nothing and answers that it does not know.
    Unsure,
    Refuses,
    /// Cannot be reached.
    Away,
}

/// A simulated facilitator with moods, which counts requests.
pub(super) struct MoodyFacilitator {
    pub(super) inner: SimulatedFacilitator,
    pub(super) mood: Mutex<FacilitatorMood>,
    pub(super) verified: AtomicUsize,
    pub(super) settled: AtomicUsize,
    pub(super) identity: Mutex<&'static str>,
    /// Payments for which it is silent for a minute and then answers that it does not know.
    pub(super) deaf: Mutex<Vec<PaymentId>>,
    /// Whether a node would report nonces as spent.
    pub(super) spent: AtomicBool,
    /// Gas burned by a reverted transaction.
    pub(super) burned: Mutex<Option<BurnedGas>>,
    /// Whether payers are contracts.
    pub(super) contracts: AtomicBool,
    /// Gas that a successful settlement has used.
    pub(super) used: Mutex<Option<SettlementGas>>,
}

impl MoodyFacilitator {
    pub(super) fn call_yourself(&self, name: &'static str) {
        *self.identity.lock().unwrap() = name;
    }

    pub(super) fn feel(&self, mood: FacilitatorMood) {
        *self.mood.lock().unwrap() = mood;
    }

    async fn moodily(&self, request: impl Future<Output = SettleOutcome> + Send) -> SettleOutcome {
        let mood = *self.mood.lock().unwrap();
        match mood {
            FacilitatorMood::Honest => request.await,
            FacilitatorMood::SettlesInSilence => {
                request.await;
                std::future::pending().await
            }
            FacilitatorMood::SettlesUnsure => {
                request.await;
                SettleOutcome::Unknown("a test".to_owned())
            }
            FacilitatorMood::Unsure => SettleOutcome::Unknown("a test".to_owned()),
            FacilitatorMood::Away => SettleOutcome::Unsent("a test".to_owned()),
            FacilitatorMood::Refuses => SettleOutcome::Refused { reason: "insufficient_funds".to_owned(), message: "a test".to_owned() },
        }
    }
}

#[async_trait]
impl Facilitator for MoodyFacilitator {
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult {
        self.verified.fetch_add(1, Ordering::SeqCst);
        if self.contracts.load(Ordering::SeqCst) {
            payment.note_tried_gas(60_000);
            payment.note_code(true);
        }
        self.inner.verify(payment).await
    }

    async fn balance(&self, payment: &OfferedX402) -> Option<u128> {
        self.inner.balance(payment).await
    }

    async fn is_spent(&self, _payment: &OfferedX402) -> bool {
        self.spent.load(Ordering::SeqCst)
    }

    fn drain_burned(&self, _payment: &PaymentId) -> Option<BurnedGas> {
        self.burned.lock().unwrap().take()
    }

    fn take_used(&self, _payment: &PaymentId) -> Option<SettlementGas> {
        self.used.lock().unwrap().take()
    }

    async fn settle(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.settled.fetch_add(1, Ordering::SeqCst);
        self.moodily(self.inner.settle(payment, started)).await
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        if self.deaf.lock().unwrap().contains(&payment.id()) {
            tokio::time::sleep(Duration::from_secs(60)).await;
            return SettleOutcome::Unknown("a test".to_owned());
        }
        // This facilitator never reports a refusal for money that moved.
        match self.moodily(self.inner.resolve(payment, started)).await {
            SettleOutcome::Refused { .. } => self.inner.resolve(payment, started).await,
            outcome => outcome,
        }
    }

    fn name(&self) -> &'static str {
        "moody"
    }

    fn identity(&self) -> String {
        (*self.identity.lock().unwrap()).to_owned()
    }

    fn meter(&self, network: &Network) -> Option<String> {
        self.inner.meter(network)
    }

    fn simulated(&self) -> bool {
        true
    }
}
