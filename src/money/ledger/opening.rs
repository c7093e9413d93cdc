//! Opens the ledger in a store that had none, by entering all existing balances once.
//!
//! It runs before anything else uses the store, in commits of bounded size. Each commit records that its part is done,
//! so that an interrupted opening continues where it stopped.

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::BuilderId,
};
use tollhouse_store::{Batch, Direction, Durability, Row, Store, StoreError, Table, TerminatedText, schema};
use tollhouse_tool::MicroUsd;

use super::{
    account::{Account, Dollars},
    posting::{Cause, POSTINGS, Posting},
};
use crate::{
    credit::balance::CREDITS,
    payout::{PAYOUTS, PayoutStatus},
    sale::UNPAID,
};

pub(crate) const OPENED: Table<(), LedgerStart> = schema::LEDGER_OPENED.holding();
tollhouse_store::json_values!(LedgerStart);

/// Number of rows read or entered at once.
const PAGE: usize = 500;

/// The time since which every movement of money has a posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerStart {
    /// Receipts from before this time may have no posting.
    pub at: Timestamp,
}

/// Returns when the ledger was opened, or `None` in a store of a version without a ledger.
///
/// # Errors
///
/// Errors of the store.
pub async fn opened(store: &dyn Store) -> Result<Option<LedgerStart>, StoreError> {
    OPENED.get(store, &()).await
}

/// Enters all existing balances unless that was done before. Call it before anything else uses the store.
///
/// # Errors
///
/// Errors of the store. The next start continues.
pub async fn open(store: &dyn Store, clock: &Clock) -> Result<(), StoreError> {
    let opening = OpeningEntries { store, at: clock.now() };
    loop {
        if opened(store).await?.is_some() {
            return Ok(());
        }
        match opening.all().await {
            Ok(()) => break,
            // Another host of the store is opening the ledger, or has opened it and already moves money.
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    if POSTINGS.first(store, &POSTINGS.all()).await?.is_some() {
        tracing::info!("the ledger was opened with what was there before it");
    }
    Ok(())
}

struct OpeningEntries<'a> {
    store: &'a dyn Store,
    at: Timestamp,
}

impl OpeningEntries<'_> {
    async fn all(&self) -> Result<(), StoreError> {
        self.credits().await?;
        self.builders().await?;
        self.packets().await?;
        self.commit(OPENED.put(&(), &LedgerStart { at: self.at }), Durability::Durable).await
    }

    /// Commits entries unless the ledger is open, because from then on the same amounts get regular postings.
    async fn commit(&self, mut batch: Batch, durability: Durability) -> Result<(), StoreError> {
        batch.absent(&OPENED, &());
        batch.commit(self.store, durability).await.map(drop)
    }

    /// Enters the balances of credits and the amounts of revoked ones. A record no longer contains a balance after it
    /// was entered.
    async fn credits(&self) -> Result<(), StoreError> {
        let mut range = CREDITS.all();
        loop {
            let page = CREDITS.page(self.store, &range, PAGE, Direction::Forward).await?;
            let Some(last) = page.last() else { return Ok(()) };
            range = range.after(&last.key);
            let mut batch = Batch::new();
            for row in &page {
                if let Some(balance) = row.value.before {
                    let mut holder = row.value.clone();
                    holder.before = None;
                    batch.replace(&CREDITS, row, &holder);
                    batch.append(self.entered(Dollars::Credit(row.key.clone()), balance).stored());
                    let revoked = row.value.revoked.as_ref().map_or(MicroUsd::ZERO, |revoked| revoked.amount);
                    batch.append(self.entered(Dollars::Revoked(row.key.clone()), revoked).stored());
                }
            }
            self.commit(batch, Durability::Buffered).await?;
        }
    }

    /// Enters unpaid earnings.
    async fn builders(&self) -> Result<(), StoreError> {
        let mut rest = UNPAID.all();
        while let Some((builder, _)) = UNPAID.first(self.store, &rest).await? {
            self.enter(Dollars::Builder(builder.0.clone()), self.unpaid(&builder).await?).await?;
            rest = rest.behind(&builder);
        }
        Ok(())
    }

    async fn unpaid(&self, builder: &TerminatedText<BuilderId>) -> Result<MicroUsd, StoreError> {
        let (mut range, mut sum) = (UNPAID.under(builder), 0_u64);
        loop {
            let page = UNPAID.page(self.store, &range, PAGE, Direction::Forward).await?;
            let Some(last) = page.last() else { return Ok(MicroUsd(sum)) };
            range = range.after(&last.key);
            sum = page.iter().fold(sum, |sum, row| sum.saturating_add(row.value.net));
        }
    }

    /// Enters payouts that are not paid yet.
    async fn packets(&self) -> Result<(), StoreError> {
        let mut range = PAYOUTS.all();
        loop {
            let page = PAYOUTS.page(self.store, &range, PAGE, Direction::Forward).await?;
            let Some(last) = page.last() else { return Ok(()) };
            range = range.after(&last.key);
            for Row { value: packet, .. } in &page {
                if packet.status != PayoutStatus::Paid {
                    self.enter(Dollars::Packet(packet.id.clone()), packet.amount()).await?;
                }
            }
        }
    }

    /// Enters an account's balance unless that was done before.
    async fn enter(&self, account: Dollars, amount: MicroUsd) -> Result<(), StoreError> {
        let posting = self.entered(account, amount);
        if POSTINGS.get(self.store, &posting.cause().key()).await?.is_some() {
            return Ok(());
        }
        self.commit(posting.stored(), Durability::Buffered).await
    }

    fn entered(&self, account: Dollars, amount: MicroUsd) -> Posting {
        let name = Account::Dollars(account.clone()).to_string();
        Posting::new(Cause::Opened(name), self.at).dollars(Dollars::Before, account, amount)
    }
}
