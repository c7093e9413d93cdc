//! Watches settlements until their blocks are final.
//!
//! Each round compares the newest blocks with settlements, and some of the older ones in turns. Each settlement in a
//! differing block is looked up by its transaction. A request without a result does not delay the others.

use std::time::Duration;

use tollhouse_api::Reorganization;
use tollhouse_base::{boxed, id::ReceiptId};
use tollhouse_store::{Batch, Direction, Durability, Row, StoreError};
use tollhouse_telemetry::counters::SETTLEMENT_FAULTS;

use super::{Payments, resettle::MAX_LOOKUPS};
use crate::{
    Evidence, Network,
    facilitator::chain::{node::Node, search::Undecided},
    reorganized::{
        REORGANIZED, Recovery, ReorganizedSettlement, WATCHED, WatchedSettlement, block_of, block_prefix, reorganization_of, watched_on,
    },
};

/// How long a transaction must be missing before its settlement counts as undone. A node may lag, and transactions of a
/// replaced block are usually in one of the next blocks.
const MISSING_FOR: Duration = Duration::from_secs(15);

/// Number of rows read at once, and looked up per round.
const PAGE: usize = 256;

/// Maximum number of blocks that are compared per round, and how many of them are the newest ones.
const MAX_BLOCKS: usize = 64;
const NEWEST_BLOCKS: usize = MAX_BLOCKS / 2;

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

/// The requests of a round that failed, although others can succeed.
#[derive(Default)]
struct Unread {
    requests: u64,
    last: Option<Undecided>,
}

impl Unread {
    /// Returns the result of a request, or `None` if it can have failed alone.
    ///
    /// # Errors
    ///
    /// The error, if other requests would fail too.
    fn add<T>(&mut self, result: Result<T, Undecided>) -> Result<Option<T>, Undecided> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_of_one_request() => {
                (self.requests, self.last) = (self.requests + 1, Some(error));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
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
            let mut unread = Unread::default();
            let result = self.watch_network(network, &chain, &mut unread).await;
            if let Some(error) = unread.last {
                tracing::warn!(
                    network = network.caip2,
                    requests = unread.requests,
                    %error,
                    "some settlements could not be compared with the chain; the host will try again"
                );
            }
            match result {
                Ok(()) => {}
                Err(RoundEnd::Store(error)) => return Err(error),
                Err(RoundEnd::Chain(error)) => {
                    tracing::warn!(network = network.caip2, %error, "recent settlements could not be compared with the chain");
                }
            }
        }
        self.look_up_some_unresolved().await
    }

    async fn watch_network(&self, network: &'static Network, chain: &Node, unread: &mut Unread) -> Result<(), RoundEnd> {
        self.find_missing(network, chain, unread).await?;
        if WATCHED.first(&*self.store, &watched_on(network.caip2)).await?.is_none() {
            return Ok(());
        }
        // Without a safe block, all settlements are still watched.
        let safe = unread.add(chain.safe().await)?.unwrap_or(0);
        let (same, suspects) = self.compare(network, chain, unread).await?;
        for row in suspects.into_iter().take(PAGE) {
            if let Some(placed) = unread.add(chain.placed(&row.value.transaction).await)? {
                self.check_settlement(row, placed).await?;
            }
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

    /// Compares the recorded blocks of settlements with the chain. Returns the settlements with the same block, and the
    /// others. A matching block does not prove those below, because it may be newer than the reorganization that replaced
    /// them. Blocks that cannot be read are left out.
    async fn compare(
        &self,
        network: &'static Network,
        chain: &Node,
        unread: &mut Unread,
    ) -> Result<(Vec<Watched>, Vec<Watched>), RoundEnd> {
        let (mut same, mut suspects) = (Vec::new(), Vec::new());
        for block in self.blocks_to_compare(network).await? {
            let Some(hash) = unread.add(chain.block_hash(block).await)? else { continue };
            let mut range = WATCHED.under(&block_prefix(network.caip2, block));
            while let Some(page) = WATCHED.sound(&*self.store, &mut range, PAGE).await? {
                for row in page {
                    let is_same = hash.is_some() && (row.value.block_hash.is_none() || hash == row.value.block_hash);
                    if is_same && row.value.missing_since.is_none() { same.push(row) } else { suspects.push(row) }
                }
            }
        }
        Ok((same, suspects))
    }

    /// Returns the blocks to compare in this round: the newest ones, which a reorganization replaces first, and others
    /// in turns, from the lowest up.
    async fn blocks_to_compare(&self, network: &'static Network) -> Result<Vec<u64>, StoreError> {
        let (mut blocks, mut older) = (Vec::new(), watched_on(network.caip2));
        while blocks.len() < NEWEST_BLOCKS {
            let newest = WATCHED.readable(&*self.store, &older, 1, Direction::Backward).await?;
            let Some(block) = newest.first().and_then(|(key, _)| block_of(key)) else { break };
            older = older.before(&block_prefix(network.caip2, block));
            blocks.push(block);
        }
        let before = self.compared.lock().get(network.caip2).copied();
        let mut turns = before.map_or_else(|| older.clone(), |last| older.clone().behind(&block_prefix(network.caip2, last)));
        let mut last = None;
        while blocks.len() < MAX_BLOCKS && !turns.is_empty() {
            let Some(block) = WATCHED.first(&*self.store, &turns).await?.and_then(|key| block_of(&key)) else { break };
            turns = turns.behind(&block_prefix(network.caip2, block));
            blocks.push(block);
            last = Some(block);
        }
        let mut compared = self.compared.lock();
        match last.filter(|_| blocks.len() == MAX_BLOCKS) {
            Some(last) => _ = compared.insert(network.caip2, last),
            // The turns begin again with the lowest block.
            None => _ = compared.remove(network.caip2),
        }
        Ok(blocks)
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
    async fn find_missing(&self, network: &'static Network, chain: &Node, unread: &mut Unread) -> Result<(), RoundEnd> {
        let (now, mut due, mut request, mut range) = (self.clock.now(), Vec::new(), 0, REORGANIZED.all());
        while let Some(page) = REORGANIZED.sound(&*self.store, &mut range, PAGE).await? {
            for row in page {
                if row.value.settlement.network != network.caip2 || row.value.lost.is_some() {
                    continue;
                }
                if request < PAGE && now <= row.value.at.plus(LOOKED_UP_FOR) {
                    request += 1;
                    if let Some(placed) = unread.add(chain.placed(&row.value.settlement.transaction).await)?.flatten() {
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
