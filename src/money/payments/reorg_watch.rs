//! Watches settlements until their blocks are final.
//!
//! Replacing a block replaces all blocks above it. So while the newest block with a settlement is the recorded one, all
//! below are too, and one request per round is enough. Otherwise each settlement in a differing block is looked up by
//! its transaction.

use std::time::Duration;

use tollhouse_api::Reorganization;
use tollhouse_base::{boxed, id::ReceiptId};
use tollhouse_store::{Batch, Durability, Range, Row, StoreError};
use tollhouse_telemetry::counters::SETTLEMENT_FAULTS;

use super::{Payments, resettle::MAX_LOOKUPS};
use crate::{
    Evidence, Network,
    facilitator::chain::{node::Node, search::Undecided},
    reorganized::{REORGANIZED, Recovery, ReorganizedSettlement, WATCHED, WatchedSettlement, reorganization_of, watched_on},
};

/// How long a transaction must be missing before its settlement counts as undone. A node may lag, and transactions of a
/// replaced block are usually in one of the next blocks.
const MISSING_FOR: Duration = Duration::from_secs(15);

/// Number of rows read at once, and looked up per round.
const PAGE: usize = 256;

const MAX_BLOCKS: usize = 64;

/// How long an undone settlement is looked up again, since its transaction may be in a block again.
const LOOKED_UP_FOR: Duration = Duration::from_secs(24 * 60 * 60);

type Watched = Row<String, WatchedSettlement>;

#[derive(Debug, thiserror::Error)]
enum RoundEnd {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Chain(#[from] Undecided),
}

impl Payments {
    /// Returns the state of a receipt's settlement if a reorganization of the chain has undone it, even if another
    /// transaction has made it since.
    #[boxed]
    pub async fn reorganization(&self, receipt: &ReceiptId) -> Result<Option<Reorganization>, StoreError> {
        reorganization_of(&*self.store, receipt).await
    }

    /// Checks that the blocks of recent settlements still exist, on every network with a readable chain. Also looks up
    /// settlements that reorganizations have undone, and unresolved ones. Sends no requests without such settlements.
    #[boxed]
    pub async fn watch_settlements(&self) -> Result<(), StoreError> {
        for (network, chain) in self.facilitators.chains() {
            match self.watch_network(network, &chain).await {
                Ok(()) => {}
                Err(RoundEnd::Store(error)) => return Err(error),
                Err(RoundEnd::Chain(error)) => {
                    tracing::warn!(network = network.caip2, %error, "recent settlements could not be compared with the chain");
                }
            }
        }
        self.look_up_some_unresolved().await
    }

    async fn watch_network(&self, network: &'static Network, chain: &Node) -> Result<(), RoundEnd> {
        self.find_missing(network, chain).await?;
        let range = watched_on(network.caip2);
        if WATCHED.first(&*self.store, &range).await?.is_none() {
            return Ok(());
        }
        let safe = chain.safe().await?;
        let (same, suspects) = self.compare(chain, &range).await?;
        for row in suspects.into_iter().take(PAGE) {
            let placed = chain.placed(&row.value.transaction).await?;
            self.check_settlement(row, placed).await?;
        }
        // Final settlements are no longer watched. A block that was not compared may differ from the recorded one.
        for rows in same.iter().filter(|row| row.value.block <= safe).collect::<Vec<_>>().chunks(PAGE) {
            let mut batch = Batch::new();
            for row in rows {
                batch.remove(&WATCHED, *row);
            }
            batch.commit_if_unchanged(&*self.store, Durability::Buffered).await?;
        }
        Ok(())
    }

    /// Compares the recorded blocks of settlements with the chain, from the lowest up to the maximum number of blocks.
    /// Returns the settlements with the same block, and the others. A matching block does not prove those below,
    /// because it may be newer than the reorganization that replaced them.
    async fn compare(&self, chain: &Node, all: &Range<String>) -> Result<(Vec<Watched>, Vec<Watched>), RoundEnd> {
        let (mut same, mut suspects, mut last, mut blocks) = (Vec::new(), Vec::new(), None::<(u64, Option<String>)>, 0);
        let mut range = all.clone();
        while let Some(page) = WATCHED.next(&*self.store, &mut range, PAGE).await? {
            for row in page {
                let row = match row {
                    Ok(row) => row,
                    Err(error) => {
                        tracing::error!(%error, "the row of a watched settlement is malformed and is skipped");
                        continue;
                    }
                };
                let block = row.value.block;
                if last.as_ref().is_none_or(|(seen, _)| *seen != block) {
                    if blocks == MAX_BLOCKS {
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

    /// Handles a settlement whose block is not the recorded one, given its transaction's current block.
    async fn check_settlement(&self, row: Watched, placed: Option<Evidence>) -> Result<(), StoreError> {
        let (now, mut batch, mut watched) = (self.clock.now(), Batch::new(), row.value.clone());
        if let Some(placed) = placed {
            (watched.block, watched.block_hash, watched.missing_since) = (placed.block, placed.block_hash, None);
            if watched == row.value {
                return Ok(());
            }
            // A batch can write a key only once.
            match watched.key() == row.key {
                true => batch.replace(&WATCHED, &row, &watched),
                false => batch.remove(&WATCHED, &row).put(&WATCHED, &watched.key(), &watched),
            };
            return batch.commit_if_unchanged(&*self.store, Durability::Buffered).await.map(drop);
        }
        match watched.missing_since {
            None => {
                watched.missing_since = Some(now);
                batch.replace(&WATCHED, &row, &watched);
                batch.commit_if_unchanged(&*self.store, Durability::Buffered).await.map(drop)
            }
            Some(since) if now < since.plus(MISSING_FOR) => Ok(()),
            Some(_) => {
                let reorganized = ReorganizedSettlement { settlement: watched, at: now, recovery: Recovery::default(), lost: None };
                let (rows, news) = self.finisher.reorganized(&reorganized);
                batch.remove(&WATCHED, &row).put(&REORGANIZED, &reorganized.settlement.receipt_id, &reorganized).append(rows);
                if batch.commit_if_unchanged(&*self.store, Durability::Buffered).await? {
                    SETTLEMENT_FAULTS.count(["reorganized"]);
                    tracing::warn!(
                        receipt.id = %reorganized.settlement.receipt_id,
                        transaction = reorganized.settlement.transaction,
                        network = reorganized.settlement.network,
                        "a reorganization of the chain undid a settlement: its transaction is no longer in a block"
                    );
                    self.finisher.announce(news);
                }
                Ok(())
            }
        }
    }

    /// Checks whether undone settlements are in a block again: by their transaction, and less often by their nonce.
    async fn find_missing(&self, network: &'static Network, chain: &Node) -> Result<(), RoundEnd> {
        let (now, mut due, mut request, mut range) = (self.clock.now(), Vec::new(), 0, REORGANIZED.all());
        while let Some(page) = REORGANIZED.sound(&*self.store, &mut range, PAGE).await? {
            for row in page {
                if row.value.settlement.network != network.caip2 || row.value.lost.is_some() {
                    continue;
                }
                if request < PAGE && now <= row.value.at.plus(LOOKED_UP_FOR) {
                    request += 1;
                    if let Some(placed) = chain.placed(&row.value.settlement.transaction).await? {
                        if let Err(error) = self.write_settled(&row, &placed, None).await {
                            tracing::warn!(receipt.id = %row.key, %error, "could not record that a settlement is in a block again");
                        }
                        continue;
                    }
                }
                if due.len() < MAX_LOOKUPS && self.is_due(&row.value) {
                    due.push(row);
                }
            }
        }
        self.find_reorganized(network, due).await?;
        Ok(())
    }
}
