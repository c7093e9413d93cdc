//! Compares transfers on the chain to the payout address with the ledger's receipts, page by page.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use alloy_primitives::U256;
use serde::Deserialize;
use tollhouse_api::{DoubledTransaction, MissingTransfer, Reconciliation, True, UnknownTransfer};
use tollhouse_base::{boxed, clock::Timestamp, id::ReceiptId};
use tollhouse_store::StoreError;

use super::Payments;
use crate::{
    Asset, Network,
    facilitator::{
        chain::{
            node::{Node, RpcError},
            search::Undecided,
        },
        chain_view::TokenTransfer,
    },
    receipt::RECEIPTS,
    reorganized::RESETTLED,
    transactions,
};

const MAX_BLOCKS: u64 = 20_000;
const MAX_TRANSFERS: usize = 2_000;

const PAGE: usize = 1_000;

/// Maximum number of differences of each kind per page, and of transactions that are looked up individually.
const MOST_LISTED: usize = 200;

/// How much earlier than the first block a receipt may be that names one of its transactions, in milliseconds: its
/// settlement may have been open for that long.
const EARLIER_MS: u64 = 60 * 60 * 1_000;

/// A range of blocks to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRange {
    /// The first block.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// Why ledger and chain could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The network is not configured.
    #[error("this host does not accept payments on `{0}`")]
    UnknownNetwork(String),
    /// No node is configured.
    #[error("no node is set for `{0}`: set `TOLLHOUSE_RPC_URL` or `TOLLHOUSE_NETWORK_RPC_URLS`")]
    NoNode(&'static str),
    /// The node did not answer.
    #[error("the node of the network failed: {0}")]
    Node(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Undecided> for ReconcileError {
    fn from(error: Undecided) -> Self {
        Self::Node(error.to_string())
    }
}

/// The fields of a receipt that describe a transfer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaidTransfer {
    receipt_id: ReceiptId,
    simulated: bool,
    amount: Option<String>,
    asset: Option<String>,
    network: Option<String>,
    transaction: Option<String>,
}

impl Payments {
    /// Returns the blocks since `since` on a network whose chain can be read. The default is the first configured
    /// network.
    #[boxed]
    pub async fn blocks_since(&self, network: Option<&str>, since: Timestamp) -> Result<(&'static Network, BlockRange), ReconcileError> {
        let (network, chain) = self.chain_of(network)?;
        let last = chain.newest().await?;
        let first = chain.block_before(since.as_secs()).await?;
        Ok((network, BlockRange { first: first.min(last), last }))
    }

    /// Compares the first page of these blocks with the ledger. Returns the remaining blocks too.
    #[boxed]
    pub async fn reconcile(
        &self,
        network: Option<&str>,
        range: BlockRange,
    ) -> Result<(Reconciliation, Option<BlockRange>), ReconcileError> {
        let (network, chain) = self.chain_of(network)?;
        let mut last = range.last.min(range.first.saturating_add(MAX_BLOCKS - 1));
        let (mut transfers, mut truncated) = (Vec::<(&'static Asset, TokenTransfer)>::new(), false);
        for accepted in self.config.accepted.iter().filter(|accepted| accepted.asset.network == network) {
            let found = chain.transfers(accepted.asset, &accepted.pay_to, (range.first, last), MAX_TRANSFERS).await?;
            if found.last < range.first {
                return Err(ReconcileError::Node(format!("it returned no events for block {}", range.first)));
            }
            last = last.min(found.last);
            truncated |= !found.is_complete;
            transfers.extend(found.transfers.into_iter().map(|transfer| (accepted.asset, transfer)));
        }
        transfers.retain(|(_, transfer)| transfer.block <= last);
        let from = Timestamp(chain.block_secs(range.first).await?.saturating_mul(1_000));
        let until = match last < range.last {
            true => Timestamp(chain.block_secs(last + 1).await?.saturating_mul(1_000)),
            false => Timestamp(chain.block_secs(last).await?.saturating_mul(1_000).saturating_add(1_000)),
        };
        let receipts = self.receipts_between(network, from, until).await?;
        let own: Vec<_> = receipts.iter().filter(|paid| paid.receipt_id.made_at() >= from).collect();
        let mut page = Reconciliation {
            ok: True,
            network: network.caip2.into(),
            from_block: range.first,
            to_block: last,
            transfers: transfers.len() as u64,
            receipts: own.len() as u64,
            unknown: Vec::new(),
            missing: Vec::new(),
            doubled: Vec::new(),
            truncated,
            agrees: true,
            next_cursor: None,
        };
        let matched = self.match_transfers(&mut page, network, &transfers, &receipts).await?;
        let others: Vec<_> = own.into_iter().filter(|paid| !matched.contains(&paid.receipt_id)).collect();
        self.hold_receipts(&mut page, network, &chain, &others).await?;
        page.agrees = page.unknown.is_empty() && page.missing.is_empty() && page.doubled.is_empty() && !page.truncated;
        Ok((page, (last < range.last).then_some(BlockRange { first: last + 1, last: range.last })))
    }

    fn chain_of(&self, name: Option<&str>) -> Result<(&'static Network, Arc<Node>), ReconcileError> {
        let unknown = |name: &str| ReconcileError::UnknownNetwork(name.to_owned());
        let accepted = |network: &Network| self.config.accepted.iter().any(|accepted| accepted.asset.network == network);
        let network = match name {
            Some(name) => Network::named(name).filter(|network| accepted(network)).ok_or_else(|| unknown(name))?,
            None => self.config.first().asset.network,
        };
        let chain = self.facilitators.chains().find(|(known, _)| *known == network);
        chain.ok_or(ReconcileError::NoNode(network.caip2))
    }

    /// Returns the receipts of payments on a network in a period and in the hour before.
    async fn receipts_between(&self, network: &Network, from: Timestamp, until: Timestamp) -> Result<Vec<PaidTransfer>, StoreError> {
        let mut receipts = Vec::new();
        let early = ReceiptId::first_of(Timestamp(from.0.saturating_sub(EARLIER_MS)));
        let mut range = RECEIPTS.all().from(&early).before(&ReceiptId::first_of(until));
        while let Some(rows) = RECEIPTS.next(&*self.store, &mut range, PAGE).await? {
            for row in rows {
                let Ok(paid) = serde_json::from_slice::<PaidTransfer>(&row?.value.json) else { continue };
                if !paid.simulated && paid.network.as_deref() == Some(network.caip2) && paid.transaction.is_some() {
                    receipts.push(paid);
                }
            }
        }
        Ok(receipts)
    }

    /// Matches the transfers of each transaction with the receipts that name it, by token and amount. Lists transfers
    /// without a receipt, and transactions with too few transfers. Returns the receipts that are matched or listed.
    pub(crate) async fn match_transfers(
        &self,
        page: &mut Reconciliation,
        network: &Network,
        transfers: &[(&'static Asset, TokenTransfer)],
        receipts: &[PaidTransfer],
    ) -> Result<HashSet<ReceiptId>, StoreError> {
        let mut named = HashMap::<String, Vec<&PaidTransfer>>::new();
        for paid in receipts {
            named.entry(paid.transaction().to_ascii_lowercase()).or_default().push(paid);
        }
        let mut by_transaction = BTreeMap::<&str, BTreeMap<(&'static str, U256), Vec<&TokenTransfer>>>::new();
        for (asset, transfer) in transfers {
            let made = by_transaction.entry(&transfer.transaction).or_default();
            made.entry((asset.address, transfer.amount)).or_default().push(transfer);
        }
        let mut matched = HashSet::new();
        for (transaction, made) in by_transaction {
            let named = named.remove(transaction).unwrap_or_default();
            let recorded = self.recorded(network, transaction, &named).await?;
            for ((asset, amount), transfers) in made {
                let all = named.iter().copied().chain(&recorded);
                let mut paid: Vec<_> = all.filter(|paid| paid.is_of(asset, amount)).map(|paid| paid.receipt_id.clone()).collect();
                paid.sort_unstable();
                if paid.len() > transfers.len() {
                    let receipt_ids = paid.iter().map(ToString::to_string).collect();
                    let doubled =
                        DoubledTransaction { transaction: transaction.to_owned(), transfers: transfers.len() as u64, receipt_ids };
                    add(&mut page.doubled, &mut page.truncated, doubled);
                }
                let unpaid = transfers.into_iter().skip(paid.len());
                unpaid.for_each(|transfer| add(&mut page.unknown, &mut page.truncated, unknown(asset, transfer)));
                matched.extend(paid);
            }
        }
        Ok(matched)
    }

    /// Returns the receipts that a transaction is recorded to pay for, except for those that are known to name it.
    async fn recorded(&self, network: &Network, transaction: &str, named: &[&PaidTransfer]) -> Result<Vec<PaidTransfer>, StoreError> {
        let mut others = Vec::new();
        for recorded in transactions::paid_by(&*self.store, network.caip2, transaction).await?.receipts {
            let Ok(id) = recorded.receipt_id.parse::<ReceiptId>() else { continue };
            if named.iter().any(|paid| paid.receipt_id == id) {
                continue;
            }
            let stored = RECEIPTS.get(&*self.store, &id).await?;
            others.extend(stored.and_then(|stored| serde_json::from_slice::<PaidTransfer>(&stored.json).ok()));
        }
        Ok(others)
    }

    /// Looks up the transactions of receipts that no transfer of these blocks matches.
    async fn hold_receipts(
        &self,
        page: &mut Reconciliation,
        network: &Network,
        chain: &Node,
        receipts: &[&PaidTransfer],
    ) -> Result<(), ReconcileError> {
        for (n, paid) in receipts.iter().enumerate() {
            if n == MOST_LISTED {
                page.truncated = true;
                break;
            }
            // After a reorganization, another transaction than the receipt's may have made the payment.
            let resettled = RESETTLED.get(&*self.store, &paid.receipt_id).await?;
            let transaction = resettled.map_or_else(|| paid.transaction().to_owned(), |resettled| resettled.transaction);
            let (asset, amount) = (paid.asset.clone().unwrap_or_default(), paid.amount.clone().unwrap_or_default());
            let accepted =
                self.config.accepted.iter().find(|accepted| accepted.asset.network == network && accepted.asset.address == asset);
            let requested: Option<U256> = amount.parse().ok();
            let paid_at = match (accepted, requested) {
                (Some(accepted), Some(requested)) => chain.paid(accepted.asset, &accepted.pay_to, &transaction, requested).await,
                // The token is no longer accepted, so only the existence of the transaction can be checked.
                _ => chain.placed(&transaction).await.map(|placed| placed.is_some()),
            };
            match paid_at {
                Ok(true) => {}
                Ok(false) => {
                    let receipt_id = paid.receipt_id.clone();
                    page.missing.push(MissingTransfer { receipt_id, transaction, asset, amount });
                }
                Err(error @ Undecided::Node(RpcError::TooLarge { .. })) => {
                    tracing::warn!(receipt.id = %paid.receipt_id, transaction, %error, "a transaction has too many events to read");
                    page.truncated = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Adds an item to a list, or notes that the list is not complete.
fn add<T>(list: &mut Vec<T>, truncated: &mut bool, item: T) {
    if list.len() == MOST_LISTED {
        *truncated = true;
    } else {
        list.push(item);
    }
}

fn unknown(asset: &'static str, transfer: &TokenTransfer) -> UnknownTransfer {
    let TokenTransfer { block, log: log_index, transaction, from, amount } = transfer.clone();
    UnknownTransfer { transaction, block, log_index, from, asset: asset.into(), amount: amount.to_string() }
}

impl PaidTransfer {
    fn transaction(&self) -> &str {
        self.transaction.as_deref().unwrap_or_default()
    }

    /// Returns whether it is for this amount of the token at the address `asset`.
    fn is_of(&self, asset: &str, amount: U256) -> bool {
        self.asset.as_deref() == Some(asset) && self.amount.as_ref().is_some_and(|paid| paid.parse() == Ok(amount))
    }
}
