//! Refunds: what an admin gives back of what a receipt paid.
//!
//! To a credit it is given here: a posting, and a movement of the credit. What x402 paid the admin sends back, and enters with
//! the transaction that did. Either way the host's share and the builder's go back in the proportions of the sale, and the
//! receipt stays as it was signed; what was given back is told beside it.
//!
//! **Invariant: the refunds of a receipt are together no more than it paid.** They are in one record, and each is made in a
//! commit that wants this record as it was read, with the posting of it.
//!
//! What a builder has to give of it is owed: payouts take it from what waits before they make a packet. Where more is owed than
//! waits, that is a debt, which later sales pay.

mod error;
mod give;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{BuilderId, ReceiptId},
};
use tollhouse_event::Events;
use tollhouse_store::{Counter, Store, StoreError, Table, schema};
use tollhouse_tool::MicroUsd;

pub use self::{
    error::RefundError,
    give::{Given, Refunding},
};
use super::sale::Sales;

pub(crate) const REFUNDS: Table<ReceiptId, Refunded> = schema::REFUNDS.holding();
/// Micro-dollars that a builder has to give of what was given back, and that no packet has left out yet.
pub(crate) const REFUNDS_OWED: Counter<BuilderId> = schema::REFUNDS_OWED.counting();
tollhouse_store::json_values!(Refunded);

/// What was given back of what one receipt paid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refunded {
    /// The oldest first.
    pub refunds: Vec<Refund>,
}

/// Money that was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// Tells it from others of the receipt; of a credit also the number of its movement.
    pub number: u64,
    /// How much.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// When it was entered.
    pub at: Timestamp,
    /// What sent it back, of x402.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// For who earned it, and for admins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Refunded {
    /// All of it together.
    #[must_use]
    pub fn sum(&self) -> MicroUsd {
        MicroUsd(self.refunds.iter().fold(0, |sum, refund| sum.saturating_add(refund.amount.0)))
    }
}

impl Refund {
    /// As everyone may see it.
    #[must_use]
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

impl fmt::Debug for Refunds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refunds").finish_non_exhaustive()
    }
}

impl Refunds {
    /// Refunds in this store; owners are told of theirs by `events`, and find them in `sales`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, sales: Arc<Sales>) -> Self {
        Self { store, clock, events, sales }
    }

    /// What was given back of what a receipt paid.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn of(&self, receipt: &ReceiptId) -> Result<Refunded, StoreError> {
        Ok(REFUNDS.get(&*self.store, receipt).await?.unwrap_or_default())
    }
}
