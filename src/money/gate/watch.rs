//! Watching settlements until their blocks stay.
//!
//! A block that is replaced takes all blocks above it with it. So while the newest block with a settlement in it is the one that was
//! recorded, all below are as well, and one question a round is enough. Below the first that is not, each settlement is looked up by its
//! transaction.

use std::time::Duration;

use tollhouse_base::id::ReceiptId;
use tollhouse_store::{Batch, Direction, Durability, Range, Row, StoreError};
use tollhouse_telemetry::counted::SETTLEMENT_FAULTS;

use super::Gate;
use crate::{
    Network,
    facilitator::view::{ChainError, ChainView, Placed},
    reorganized::{REORGANIZED, ReorganizedSettlement, WATCHED, WatchedSettlement, watched_on},
};

/// How long a transaction has to be missing before its settlement counts as taken back: a node may lag, and what a block loses is in one
/// of the next as a rule.
const MISSING_FOR: Duration = Duration::from_secs(15);

/// Rows that are read at once, and looked up in one round.
const PAGE: usize = 256;

/// Blocks that are compared in one round.
const MOST_BLOCKS: usize = 64;

/// How long a settlement that was taken back is looked up again: its transaction may be in a block again.
const LOOKED_UP_FOR: Duration = Duration::from_secs(24 * 60 * 60);

type Watched = Row<String, WatchedSettlement>;

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Chain(#[from] ChainError),
}

impl Gate {
    /// Whether a reorganization of the chain took the settlement of a receipt back.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn reorganized(&self, receipt: &ReceiptId) -> Result<Option<ReorganizedSettlement>, StoreError> {
        REORGANIZED.get(&*self.store, receipt).await
    }

    /// Looks whether the blocks of recent settlements are still there, on every network whose chain can be asked. Asks a chain nothing
    /// while there is no such settlement.
    ///
    /// # Errors
    ///
    /// The store's. A node that does not answer is logged, and asked the next time.
    pub async fn watch_settlements(&self) -> Result<(), StoreError> {
        for (network, chain) in self.facilitators.chains() {
            match self.watch_network(network, &*chain).await {
                Ok(()) => {}
                Err(Cut::Store(error)) => return Err(error),
                Err(Cut::Chain(error)) => {
                    tracing::warn!(network = network.caip2, %error, "recent settlements could not be compared with the chain");
                }
            }
        }
        Ok(())
    }

    async fn watch_network(&self, network: &'static Network, chain: &dyn ChainView) -> Result<(), Cut> {
        self.look_for_missing(network, chain).await?;
        let range = watched_on(network.caip2);
        if WATCHED.first(&*self.store, &range).await?.is_none() {
            return Ok(());
        }
        let safe = chain.safe().await?;
        let (same, suspects) = self.compare(chain, &range).await?;
        for row in suspects.into_iter().take(PAGE) {
            let placed = chain.placed(&row.value.transaction).await?;
            self.look_at(row, placed).await?;
        }
        // What stays is watched no more. A block that was not compared may be another than the one that was recorded.
        for rows in same.iter().filter(|row| row.value.block <= safe).collect::<Vec<_>>().chunks(PAGE) {
            let mut batch = Batch::new();
            for row in rows {
                batch.remove(&WATCHED, *row);
            }
            self.write(batch).await?;
        }
        Ok(())
    }

    /// Settlements whose block is as it was recorded, and the others, of so many blocks from the lowest on. A settlement says nothing of
    /// those below: it may have come after the reorganization that took them back.
    async fn compare(&self, chain: &dyn ChainView, all: &Range<String>) -> Result<(Vec<Watched>, Vec<Watched>), Cut> {
        let (mut same, mut suspects, mut last, mut blocks) = (Vec::new(), Vec::new(), None::<(u64, Option<String>)>, 0);
        let mut range = all.clone();
        while let Some(page) = WATCHED.next(&*self.store, &mut range, PAGE).await? {
            for row in page {
                let row = match row {
                    Ok(row) => row,
                    Err(error) => {
                        tracing::error!(%error, "the row of a watched settlement does not read; it stays as it is");
                        continue;
                    }
                };
                let block = row.value.block;
                if last.as_ref().is_none_or(|(seen, _)| *seen != block) {
                    if blocks == MOST_BLOCKS {
                        return Ok((same, suspects));
                    }
                    blocks += 1;
                    last = Some((block, chain.block_hash(block).await?));
                }
                let hash = last.as_ref().and_then(|(_, hash)| hash.as_ref());
                let is_same = hash.is_some() && (row.value.block_hash.is_none() || hash == row.value.block_hash.as_ref());
                if is_same && row.value.missing_since.is_none() { same.push(row) } else { suspects.push(row) }
            }
        }
        Ok((same, suspects))
    }

    /// Acts on where the transaction of a settlement is, whose block is not the one that was recorded.
    async fn look_at(&self, row: Watched, placed: Option<Placed>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut batch = Batch::new();
        batch.remove(&WATCHED, &row);
        let mut watched = row.value.clone();
        if let Some(placed) = placed.filter(|placed| placed.succeeded) {
            (watched.block, watched.block_hash, watched.missing_since) = (placed.block, placed.block_hash, None);
            if watched == row.value {
                return Ok(());
            }
            // A batch writes a key once.
            if watched.key() == row.key {
                batch = Batch::new();
                batch.replace(&WATCHED, &row, &watched);
            } else {
                batch.put(&WATCHED, &watched.key(), &watched);
            }
            return self.write(batch).await.map(drop);
        }
        match watched.missing_since {
            None => {
                watched.missing_since = Some(now);
                batch = Batch::new();
                batch.replace(&WATCHED, &row, &watched);
                self.write(batch).await.map(drop)
            }
            Some(since) if now.0.saturating_sub(since.0) < millis(MISSING_FOR) => Ok(()),
            Some(_) => {
                let reorganized = ReorganizedSettlement { settlement: watched, at: now };
                batch.put(&REORGANIZED, reorganized.receipt_id(), &reorganized);
                let (rows, news) = self.finisher.reorganized(&reorganized, true);
                batch.append(rows);
                if self.write(batch).await? {
                    SETTLEMENT_FAULTS.count(["reorganized"]);
                    tracing::warn!(
                        receipt.id = %reorganized.receipt_id(),
                        transaction = reorganized.transaction(),
                        network = reorganized.network(),
                        "a reorganization of the chain took a settlement back: its transaction is in no block any more"
                    );
                    self.finisher.announce(news);
                }
                Ok(())
            }
        }
    }

    /// Looks whether settlements that were taken back are in a block again.
    async fn look_for_missing(&self, network: &'static Network, chain: &dyn ChainView) -> Result<(), Cut> {
        let now = self.clock.now();
        for row in REORGANIZED.page(&*self.store, &REORGANIZED.all(), PAGE, Direction::Backward).await? {
            let reorganized = &row.value;
            if reorganized.network() != network.caip2 || now.0.saturating_sub(reorganized.at.0) > millis(LOOKED_UP_FOR) {
                continue;
            }
            let placed = chain.placed(reorganized.transaction()).await?;
            let Some(placed) = placed.filter(|placed| placed.succeeded) else { continue };
            let mut watched = reorganized.settlement.clone();
            (watched.block, watched.block_hash, watched.missing_since) = (placed.block, placed.block_hash, None);
            let (rows, news) = self.finisher.reorganized(reorganized, false);
            let mut batch = Batch::new();
            batch.remove(&REORGANIZED, &row).put(&WATCHED, &watched.key(), &watched).append(rows);
            if self.write(batch).await? {
                tracing::info!(receipt.id = %watched.receipt_id, watched.transaction, "a settlement that was taken back is in a block again");
                self.finisher.announce(news);
            }
        }
        Ok(())
    }

    /// Whether it was written: another host may have changed it.
    async fn write(&self, batch: Batch) -> Result<bool, StoreError> {
        match batch.commit(&*self.store, Durability::Buffered).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
