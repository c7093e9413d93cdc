//! What the gate asks of whoever makes receipts.

use serde_json::Value;
use tollhouse_base::{clock::Timestamp, id::PaymentId};
use tollhouse_event::Event;
use tollhouse_store::Batch;
use tollhouse_tool::{MicroUsd, Owner, Slug};

use super::{
    gate::{owed::Delivery, record::StoredAnswer},
    receipt::Record as Receipt,
    reorganized::ReorganizedSettlement,
    settlement::Settlement,
};

/// A receipt and the answer it belongs to, ready to be stored in the commit that ends a payment.
#[derive(Debug)]
pub struct Finished {
    /// What its commit writes besides.
    pub rows: Batch,
    /// What the caller is given, now and when the payment is shown again.
    pub answer: StoredAnswer,
    /// Members for `extensions` of the settle response.
    pub extensions: Option<Value>,
    /// Told once the commit is done.
    pub news: News,
}

/// What a commit has made true, to be told once it has answered.
#[derive(Debug)]
pub struct News {
    /// Whose they are.
    pub owner: Owner,
    /// What happened.
    pub events: Vec<Event>,
}

/// Makes for the gate what is signed: offers before a payment, receipts at the end of a call, or for one that a crash cut off.
pub trait Finisher: Send + Sync + 'static {
    /// The signed offers of what is asked for at `resource`, one for each entry of `accepts`, until that moment.
    fn offers(&self, resource: &str, accepts: &[Value], valid_until: Timestamp) -> Vec<Value>;

    /// `draft` is what the call gave to [`super::Gate::settle`].
    fn finish(&self, draft: &[u8], settlement: &Settlement, answer: StoredAnswer) -> Finished;

    /// What is written when a payment that was settled before its run has its answer: `receipt` is that of the settlement.
    fn deliver(&self, receipt: Receipt, delivery: &Delivery) -> (Batch, News);

    /// What is written when the payment is refused after all.
    fn refuse(&self, draft: &[u8], reason: &str) -> (Batch, News);

    /// Which tool a draft is of, and what its call costs.
    fn subject(&self, draft: &[u8]) -> (Slug, MicroUsd);

    /// What is written when nobody has said for long how a settlement ended, and nobody is asked any more.
    fn unresolved(&self, draft: &[u8], payment: &PaymentId) -> (Batch, News);

    /// What is written when the chain has taken a settlement back, or, where it is not `taken_back`, has it again.
    fn reorganized(&self, settlement: &ReorganizedSettlement, taken_back: bool) -> (Batch, News);

    /// Tells those who follow live.
    fn announce(&self, news: News);
}
