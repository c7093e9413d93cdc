//! Remembers valid payments of calls that did not run, or that were free after all. Repeating such a payment costs no
//! requests to a node or a facilitator.
//!
//! A verdict is remembered for seconds, because the payer can move the money meanwhile. One per payer is remembered, and
//! only until another payment of the payer begins a run, which may take the money.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use tollhouse_base::lock::Lock;

use crate::OfferedX402;

/// How long a verdict is remembered.
const TTL: Duration = Duration::from_secs(5);

/// Maximum number of payers with a remembered verdict. Beyond it, no others are remembered until some expire. A payment
/// has at most 16 KiB.
const MAX_PAYERS: usize = 1_024;

/// The last valid payment without a run, by payer.
#[derive(Debug, Default)]
pub(super) struct Verdicts(Lock<HashMap<String, Verdict>>);

#[derive(Debug)]
struct Verdict {
    at: Instant,
    /// The digest that proves possession of the payment.
    digest: String,
    /// The payment, with what its verification found.
    payment: OfferedX402,
    balance: Option<u128>,
}

impl Verdicts {
    /// Returns a payment as it was verified recently for the same terms, and the payer's balance, if it was known.
    pub(super) fn find(&self, payment: &OfferedX402, digest: &str) -> Option<(OfferedX402, Option<u128>)> {
        let verdicts = self.0.lock();
        let verdict = verdicts.get(&payment.payer()).filter(|verdict| verdict.at.elapsed() < TTL)?;
        verdict.is_of(payment, digest).then(|| (verdict.payment.clone(), verdict.balance))
    }

    /// Remembers that a payment was found valid.
    pub(super) fn put(&self, payment: &OfferedX402, digest: &str, balance: Option<u128>) {
        let mut verdicts = self.0.lock();
        if verdicts.len() >= MAX_PAYERS {
            verdicts.retain(|_, verdict| verdict.at.elapsed() < TTL);
        }
        if verdicts.len() < MAX_PAYERS {
            let (at, digest) = (Instant::now(), digest.to_owned());
            verdicts.insert(payment.payer(), Verdict { at, digest, payment: payment.clone(), balance });
        }
    }

    /// Forgets the payer's other payments, because this one begins a run.
    pub(super) fn forget_others(&self, payment: &OfferedX402, digest: &str) {
        let (mut verdicts, payer) = (self.0.lock(), payment.payer());
        if verdicts.get(&payer).is_some_and(|verdict| !verdict.is_of(payment, digest)) {
            verdicts.remove(&payer);
        }
    }

    /// Forgets old verdicts, to bound memory.
    pub(super) fn prune_idle(&self) {
        self.0.lock().retain(|_, verdict| verdict.at.elapsed() < TTL);
    }
}

impl Verdict {
    /// Returns whether it is about this payment, for the same terms.
    fn is_of(&self, payment: &OfferedX402, digest: &str) -> bool {
        let known = &self.payment;
        self.digest == digest && known.version == payment.version && known.requirements == payment.requirements
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;
    use crate::tests::Payer;

    #[tokio::test(start_paused = true)]
    async fn verdict_is_remembered_for_some_seconds_and_for_the_same_terms() {
        let (verdicts, payment) = (Verdicts::default(), Payer::new(1).payment(1));
        verdicts.put(&payment, "one", Some(7));
        assert_eq!(verdicts.find(&payment, "one").unwrap().1, Some(7));
        assert!(verdicts.find(&payment, "other").is_none(), "another payment");
        let mut dearer = payment.clone();
        dearer.requirements["amount"] = json!("20000");
        assert!(verdicts.find(&dearer, "one").is_none(), "other terms");
        advance(TTL).await;
        assert!(verdicts.find(&payment, "one").is_none());
        verdicts.prune_idle();
        assert_eq!(verdicts.0.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn verdict_is_forgotten_when_another_payment_of_the_payer_runs() {
        let verdicts = Verdicts::default();
        let [payment, other] = [1, 2].map(|nonce| Payer::new(1).payment(nonce));
        verdicts.put(&payment, "one", None);
        verdicts.forget_others(&payment, "one");
        verdicts.forget_others(&Payer::new(2).payment(1), "another payer's");
        assert!(verdicts.find(&payment, "one").is_some());
        verdicts.forget_others(&other, "other");
        assert!(verdicts.find(&payment, "one").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_verdicts_are_bounded() {
        let (verdicts, payment) = (Verdicts::default(), Payer::new(1).payment(1));
        for payer in 0..MAX_PAYERS {
            let verdict = Verdict { at: Instant::now(), digest: String::new(), payment: payment.clone(), balance: None };
            verdicts.0.lock().insert(format!("payer-{payer}"), verdict);
        }
        verdicts.put(&payment, "one", None);
        assert!(verdicts.find(&payment, "one").is_none() && verdicts.0.lock().len() == MAX_PAYERS);
        advance(TTL).await;
        verdicts.put(&payment, "one", None);
        assert!(verdicts.find(&payment, "one").is_some() && verdicts.0.lock().len() == 1);
    }
}
