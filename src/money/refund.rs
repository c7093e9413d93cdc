//! Refunds: an admin returns what a receipt paid, or a part of it.
//!
//! A refund to a credit is made here, with a posting and a movement of the credit. An x402 payment is sent back by the
//! admin, who enters the transaction. In both cases the host's and the builder's shares are returned in the proportions
//! of the sale. The signed receipt is unchanged, and its refunds are shown next to it.
//!
//! **Invariant: the refunds of a receipt never exceed what it paid.** They are in one record. The commit of each refund
//! contains its posting, and requires that this record is unchanged.
//!
//! A builder's part is owed: payouts subtract it from unpaid earnings. If more is owed than is unpaid, the rest is a
//! debt that later sales pay.

mod issue;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::{BuilderId, ReceiptId},
};
use tollhouse_event::Events;
use tollhouse_store::{Counter, Store, StoreError, Table, schema};
use tollhouse_tool::{MicroUsd, public_texts};

pub use self::issue::{IssuedRefund, RefundRequest};
use super::sale::Sales;
use crate::CreditError;

pub(crate) const REFUNDS: Table<ReceiptId, RefundedTotal> = schema::REFUNDS.holding();
/// Micro-dollars of refunds that a builder owes and that no payout has withheld yet.
pub(crate) const REFUNDS_OWED: Counter<BuilderId> = schema::REFUNDS_OWED.counting();
tollhouse_store::json_values!(RefundedTotal);

/// The refunds of a receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundedTotal {
    /// The refunds, oldest first.
    pub refunds: Vec<Refund>,
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// Its number within the receipt. For a credit also the number of its movement.
    pub number: u64,
    /// The amount.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// When it was entered.
    pub at: Timestamp,
    /// The transaction that sent it back, for x402.
    pub transaction: Option<String>,
    /// The reason, shown to the owner and admins.
    pub reason: Option<String>,
}

impl RefundedTotal {
    /// Returns the sum of all refunds.
    pub fn sum(&self) -> MicroUsd {
        MicroUsd(self.refunds.iter().fold(0, |sum, refund| sum.saturating_add(refund.amount.0)))
    }
}

impl Refund {
    /// Encodes the public part as JSON.
    pub fn public(&self) -> Value {
        let mut refund = json!({ "amountUsd": self.amount, "at": self.at });
        if let Some(transaction) = &self.transaction {
            refund["transaction"] = json!(transaction);
        }
        refund
    }
}

/// The refunds of all receipts.
pub struct Refunds {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    sales: Arc<Sales>,
}

impl Refunds {
    /// Constructs refunds in this store. Owners get theirs as `events`, and see them in `sales`.
    pub fn new(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, sales: Arc<Sales>) -> Self {
        Self { store, clock, events, sales }
    }

    /// Returns the refunds of a receipt.
    #[boxed]
    pub async fn of(&self, receipt: &ReceiptId) -> Result<RefundedTotal, StoreError> {
        Ok(REFUNDS.get(&*self.store, receipt).await?.unwrap_or_default())
    }
}

const MAX_REASON: usize = public_texts::MAX_MONEY_REASON;

/// Maximum number of refunds per receipt, so that its record stays small.
const MAX_REFUNDS: usize = 50;

/// Why a refund was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum RefundError {
    /// An invalid field. `pointer` is its JSON Pointer.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("a reason must have at most {MAX_REASON} characters and no control characters")]
    Reason,
    #[error("no receipt has this id")]
    Unknown,
    #[error("nothing was paid for this receipt")]
    NothingPaid,
    #[error("the amount exceeds what is left: {paid} USD was paid, of which {refunded} USD was refunded")]
    TooMuch { paid: MicroUsd, refunded: MicroUsd },
    #[error("a receipt can have at most {MAX_REFUNDS} refunds")]
    TooMany,
    #[error("this transaction is already recorded for the receipt with {0} USD")]
    OtherAmount(MicroUsd),
    #[error("this `Idempotency-Key` was used for another refund")]
    Reused,
    #[error(transparent)]
    Credit(CreditError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CreditError> for RefundError {
    fn from(error: CreditError) -> Self {
        match error {
            CreditError::Store(store) => Self::Store(store),
            error => Self::Credit(error),
        }
    }
}
