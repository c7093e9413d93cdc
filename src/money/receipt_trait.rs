//! The interface between the gate and the code that makes receipts.

use serde_json::Value;
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, PaymentId},
};
use tollhouse_event::Event;
use tollhouse_store::Batch;
use tollhouse_tool::{MicroUsd, Owner, Slug};

use super::{
    payments::record::StoredAnswer, receipt::UnsignedReceipt as Receipt, reorganized::ReorganizedSettlement, settlement::Settlement,
};

/// The outcome of a run, for the receipt and the builder.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The call that has the answer.
    pub call: CallId,
    /// The owner of the tool.
    pub owner: Owner,
    /// Hash of the handler that ran.
    pub version: String,
    /// Hash of the result.
    pub result_hash: String,
    /// Whether the payment was settled for an earlier run.
    pub repeated: bool,
    /// When the run began.
    pub started_at: Timestamp,
}

/// A receipt and its answer, ready for the commit that ends a payment.
#[derive(Debug)]
pub struct SignedReceipt {
    /// Additional rows of the commit.
    pub rows: Batch,
    /// The answer to the caller, now and when the payment is sent again.
    pub answer: StoredAnswer,
    /// Fields for `extensions` of the settle response.
    pub extensions: Option<Value>,
    /// Events to announce after the commit.
    pub news: CommitEffects,
}

/// Events that a commit made true, to announce after it succeeded.
#[derive(Debug)]
pub struct CommitEffects {
    /// The owner of the events.
    pub owner: Owner,
    /// The events.
    pub events: Vec<Event>,
}

/// Makes offers before a payment, and receipts at the end of a call or after a crash.
pub trait Finisher: Send + Sync + 'static {
    /// Signs offers for `resource`, one per entry of `accepts`, valid until `valid_until`.
    fn offers(&self, resource: &str, accepts: &[Value], valid_until: Timestamp) -> Vec<Value>;

    /// Makes the receipt of a call from the draft that was passed to [`super::Payments::settle`].
    fn finish(&self, draft: &[u8], settlement: &Settlement, answer: StoredAnswer) -> SignedReceipt;

    /// Returns the rows and events for the answer to a payment that was settled before its run. `receipt` is the
    /// settlement's receipt.
    fn deliver(&self, receipt: Receipt, delivery: &Delivery) -> (Batch, CommitEffects);

    /// Returns the rows and events for a payment whose settlement is finally refused.
    fn refuse(&self, draft: &[u8], reason: &str) -> (Batch, CommitEffects);

    /// Returns the tool of a draft, and the price of its call.
    fn subject(&self, draft: &[u8]) -> (Slug, MicroUsd);

    /// Returns the rows and events for a settlement that stayed open for so long that it is no longer looked up.
    fn unresolved(&self, draft: &[u8], payment: &PaymentId) -> (Batch, CommitEffects);

    /// Returns the rows and events for a settlement that a reorganization of the chain has undone, also once its money
    /// can no longer move.
    fn reorganized(&self, settlement: &ReorganizedSettlement) -> (Batch, CommitEffects);

    /// Returns the rows and events for a reorganized settlement that is in a block again. `other` is its new settlement
    /// if another transaction made it.
    fn settled_again(&self, settlement: &ReorganizedSettlement, other: Option<&Settlement>) -> (Batch, CommitEffects);

    /// Returns the fields for `extensions` of the settle response of a new settlement for this receipt.
    fn extensions(&self, receipt: Receipt, settlement: &Settlement) -> Option<Value>;

    /// Announces events to live subscribers.
    fn announce(&self, news: CommitEffects);
}
