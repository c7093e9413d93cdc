//! The ledger: the balance of each party, and every movement of money between them.
//!
//! A [`Posting`] moves amounts from one account to another and does nothing else, so the accounts of each unit always
//! sum to zero: an unbalanced posting cannot be written. It is written once, in the commit that makes it true (the
//! receipt of a call, a minting, a payout), and never changed. The same commit adds to the balances of its accounts. So
//! each can be verified against the others, which is what [`check()`] does.
//!
//! Dollars and tokens are different units. A call that was paid with tokens moves them from its payer to the treasury,
//! and their worth in dollars from the token's exchange account to the owner. A refund takes the same paths back.
//!
//! ```text
//! issued ──▶ credit/… ─┬─▶ builder/… ──▶ packet/… ──▶ paid-out          payers/… ──▶ treasury/…
//!                      ├─▶ fees                                        (tokens, by network and asset)
//!          exchange/… ─┴─▶ own
//! ```

mod account;
mod check;
mod posting;
mod read;

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
};
use tollhouse_store::{Durability, Store, StoreError, Table, schema};

pub use self::{
    account::{Account, Dollars, Token, Tokens},
    check::{ArchiveGapReport, Check, LedgerMismatch, LedgerReport, check},
    posting::{Cause, Move, Posting, RefundAmounts, SaleAmounts},
    read::read,
};
pub(crate) use self::{
    account::{revoked, unpaid},
    posting::POSTINGS,
};

pub(crate) const OPENED: Table<(), LedgerStart> = schema::LEDGER_OPENED.holding();
tollhouse_store::json_values!(LedgerStart);

/// The time since which every movement of money has a posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerStart {
    /// The first start of a host of this store.
    pub at: Timestamp,
}

/// Returns when the ledger was opened, or `None` if no host has used the store yet.
#[boxed]
pub async fn opened(store: &dyn Store) -> Result<Option<LedgerStart>, StoreError> {
    OPENED.get(store, &()).await
}

/// Records that the ledger is open, unless it is. Call it before anything else uses the store.
#[boxed]
pub async fn open(store: &dyn Store, clock: &Clock) -> Result<(), StoreError> {
    if opened(store).await?.is_some() {
        return Ok(());
    }
    let mut batch = OPENED.put(&(), &LedgerStart { at: clock.now() });
    batch.absent(&OPENED, &());
    // Another host of the store may be faster.
    batch.commit_if_unchanged(store, Durability::Durable).await.map(drop)
}
