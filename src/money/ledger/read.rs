//! The ledger as admins read it, while the host runs: balances, and whether those that can be held against rows of their own
//! agree with them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, CreditId, ReceiptId},
};
use tollhouse_store::{Direction, Ended, Store, StoreError, Sum, Table};
use tollhouse_tool::UsdChange;

use super::{
    account::{ACCOUNTS, Account, Dollars},
    opening::OPENED,
};
use crate::{
    credit::{
        balance::CREDITS,
        line::{LINES, Line},
    },
    refund::REFUNDS_OWED,
    reorganized::{ReorganizedSettlement, list_reorganized},
    sale::UNPAID,
    unresolved::count_unresolved,
};

const ROWS: Table<String, Sum> = ACCOUNTS.rows();

/// Rows that one reading adds up for the accounts that it tells of; what would take more is not looked at. As many accounts it adds up by
/// their units; of more only those that it tells of are read.
const LOOKED_AT: usize = 50_000;

/// Settlements that were taken back and are listed.
const MOST_REORGANIZED: usize = 100;

/// Unresolved settlements that are counted.
const MOST_UNRESOLVED: usize = 10_000;

/// What all accounts of dollars count.
const DOLLARS: &str = "micro-USD";

/// A part of the ledger.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// Since when every movement of money has a posting.
    pub opened_at: Option<Timestamp>,
    /// What all accounts of each unit come to: nothing, each of them. Nothing is told where there are more than can be read in one moment.
    pub units: Vec<UnitLine>,
    /// Some of the accounts.
    pub accounts: Vec<AccountLine>,
    /// The place to go on from, while there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Whether all that was looked at agrees, and no settlement was taken back.
    pub agrees: bool,
    /// Settlements of which nobody said how they ended, up to 10,000: their money is in no account.
    #[serde(skip_serializing_if = "is_none_of")]
    pub unresolved_settlements: usize,
    /// The newest settlements that a reorganization of the chain took back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reorganized: Vec<ReorganizedLine>,
}

fn is_none_of(count: &usize) -> bool {
    *count == 0
}

/// A settlement that a reorganization of the chain took back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorganizedLine {
    /// What it paid for.
    pub receipt_id: ReceiptId,
    /// CAIP-2.
    pub network: String,
    /// The transaction that is in no block any more.
    pub transaction: String,
    /// When that was noticed.
    pub since: Timestamp,
}

/// What all accounts of a unit come to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitLine {
    /// Micro-dollars, or a token.
    pub unit: String,
    /// A text: it may be more than a number of JSON holds.
    pub sum: String,
}

/// An account.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountLine {
    /// Its name.
    pub account: String,
    /// What it counts.
    pub unit: String,
    /// How many of them it has.
    pub balance: String,
    /// The same in dollars, where it counts those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance_usd: Option<UsdChange>,
    /// What the rows that it is the sum of come to, where it has such and they could be looked at in one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Whether that is its balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
}

/// Reads at most `limit` accounts, from behind `cursor`: all others by name, then credits by id.
///
/// # Errors
///
/// The store's.
pub async fn read(store: &dyn Store, limit: usize, cursor: Option<&str>) -> Result<Reading, StoreError> {
    read_most(store, limit, cursor, LOOKED_AT).await
}

async fn read_most(store: &dyn Store, limit: usize, cursor: Option<&str>, most: usize) -> Result<Reading, StoreError> {
    let opened_at = OPENED.get(store, &()).await?.map(|opened| opened.at);
    let behind = |cursor: &str| ROWS.all().after(&cursor.to_owned());
    // One scan, which is one moment; where there are too many, of those that are told.
    let mut balances = ROWS.page(store, &ROWS.all(), most + 1, Direction::Forward).await?;
    let mut units = BTreeMap::<String, i128>::new();
    if balances.len() <= most {
        balances.iter().for_each(|row| *units.entry(unit_of(&row.key)).or_default() += row.value.0);
    } else {
        balances = ROWS.page(store, &cursor.map_or_else(|| ROWS.all(), behind), limit, Direction::Forward).await?;
    }
    let mut reader = Reader { store, left: LOOKED_AT, lines: Vec::with_capacity(limit) };
    let mut after_credit = cursor.and_then(|cursor| cursor.strip_prefix(CREDIT)?.parse::<CreditId>().ok());
    if after_credit.is_none() {
        let behind = |name: &str| cursor.is_none_or(|cursor| name > cursor);
        for row in balances.into_iter().filter(|row| behind(&row.key)).take(limit) {
            reader.account(row.key, row.value.0).await?;
        }
    }
    let mut next_cursor = reader.lines.last().filter(|_| reader.lines.len() == limit).map(|line| line.account.clone());
    while reader.lines.len() < limit {
        let range = after_credit.as_ref().map_or_else(|| CREDITS.all(), |after| CREDITS.all().after(after));
        let Some(id) = CREDITS.first(store, &range).await? else { break };
        reader.credit(&id).await?;
        after_credit = Some(id);
        next_cursor = reader.lines.last().filter(|_| reader.lines.len() == limit).map(|line| line.account.clone());
    }
    let accounts = reader.lines;
    let reorganized = list_reorganized(store, MOST_REORGANIZED).await?;
    let unresolved_settlements = count_unresolved(store, MOST_UNRESOLVED).await?;
    let sums_agree = units.values().all(|sum| *sum == 0) && accounts.iter().all(|line| line.agrees != Some(false));
    let agrees = sums_agree && reorganized.is_empty();
    let reorganized = reorganized.into_iter().map(ReorganizedLine::of).collect();
    let units = units.into_iter().map(|(unit, sum)| UnitLine { unit, sum: sum.to_string() }).collect();
    Ok(Reading { opened_at, units, accounts, next_cursor, agrees, unresolved_settlements, reorganized })
}

impl ReorganizedLine {
    fn of(settlement: ReorganizedSettlement) -> Self {
        Self {
            receipt_id: settlement.receipt_id().clone(),
            network: settlement.network().to_owned(),
            transaction: settlement.transaction().to_owned(),
            since: settlement.at,
        }
    }
}

/// What the names of credits' accounts start with.
const CREDIT: &str = "credit/";

/// The unit of the account with this name.
fn unit_of(name: &str) -> String {
    let token = ["payers/", "treasury/"].into_iter().find_map(|start| name.strip_prefix(start));
    token.unwrap_or(DOLLARS).to_owned()
}

struct Reader<'a> {
    store: &'a dyn Store,
    /// Rows that may still be looked at.
    left: usize,
    lines: Vec<AccountLine>,
}

impl Reader<'_> {
    async fn account(&mut self, name: String, balance: i128) -> Result<(), StoreError> {
        let builder = name.strip_prefix("builder/").and_then(|id| id.parse::<BuilderId>().ok());
        let rows = match builder {
            Some(builder) => self.waiting(&name, &builder, balance).await?,
            None => None,
        };
        self.tell(name, balance, rows);
        Ok(())
    }

    /// What waits to be paid out, less what is to be given back: `None` if it moved meanwhile.
    async fn waiting(&mut self, name: &str, builder: &BuilderId, balance: i128) -> Result<Option<i128>, StoreError> {
        let range = UNPAID.under(&Ended(builder.clone()));
        let rows = UNPAID.page(self.store, &range, self.left + 1, Direction::Forward).await?;
        let Some(left) = self.left.checked_sub(rows.len()) else { return Ok(None) };
        self.left = left;
        let owed = REFUNDS_OWED.get(self.store, builder).await?;
        let waits = rows.iter().map(|row| i128::from(row.value.net)).sum::<i128>() - owed;
        let now = ACCOUNTS.get(self.store, &name.to_owned()).await?;
        Ok(Some(waits).filter(|_| now == balance))
    }

    /// Balance and movements lie in one range: both are of one moment.
    async fn credit(&mut self, id: &CreditId) -> Result<(), StoreError> {
        let rows = LINES.page(self.store, &LINES.under(id), self.left + 1, Direction::Backward).await?;
        let left = self.left.checked_sub(rows.len());
        let (mut balance, mut moved) = (0, 0);
        for row in rows {
            match row.value {
                Line::Balance(sum) => balance = sum,
                Line::Movement(movement) => moved += movement.change(),
            }
        }
        self.left = left.unwrap_or(self.left);
        self.tell(Account::Dollars(Dollars::Credit(id.clone())).to_string(), balance, left.map(|_| moved));
        Ok(())
    }

    fn tell(&mut self, account: String, balance: i128, rows: Option<i128>) {
        let unit = unit_of(&account);
        let balance_usd = (unit == DOLLARS).then(|| UsdChange::of(balance));
        let agrees = rows.map(|rows| rows == balance);
        let rows = rows.map(|rows| rows.to_string());
        self.lines.push(AccountLine { account, unit, balance: balance.to_string(), balance_usd, rows, agrees });
    }
}
