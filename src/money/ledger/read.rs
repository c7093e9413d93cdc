//! Reads the ledger for admins while the host runs: balances, and whether they agree with their rows.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tollhouse_api::{Ledger, LedgerAccount, LedgerUnit, ReorganizedSettlement, True};
use tollhouse_base::id::{BuilderId, CreditId};
use tollhouse_store::{Direction, Store, StoreError, Sum, Table, TerminatedText};
use tollhouse_tool::UsdChange;

use super::{
    OPENED,
    account::{ACCOUNTS, Account, DOLLARS, Dollars},
};
use crate::{
    credit::{
        balance::CREDITS,
        row::{CreditRow, LINES},
    },
    payments::record::count_unresolved,
    refund::REFUNDS_OWED,
    reorganized::list_reorganized,
    sale::UNPAID,
};

const ROWS: Table<String, Sum> = ACCOUNTS.rows();

/// Maximum number of rows summed per reading to verify accounts. Accounts that need more are not verified. It is also
/// the maximum number of accounts summed by unit; if there are more, only the listed ones are read.
const LOOKED_AT: usize = 50_000;

/// Maximum number of listed settlements that a reorganization of the chain has undone.
const MAX_REORGANIZED: usize = 100;

const MAX_UNRESOLVED: usize = 10_000;

/// Reads at most `limit` accounts after `cursor`: first all others by name, then credits by id.
pub async fn read(store: &dyn Store, limit: usize, cursor: Option<&str>) -> Result<Ledger, StoreError> {
    read_most(store, limit, cursor, LOOKED_AT).await
}

async fn read_most(store: &dyn Store, limit: usize, cursor: Option<&str>, max: usize) -> Result<Ledger, StoreError> {
    let opened_at = OPENED.get(store, &()).await?.map(|opened| opened.at);
    let behind = |cursor: &str| ROWS.all().after(&cursor.to_owned());
    // One scan reads one snapshot. If there are too many accounts, only those of the page are read.
    let mut balances = ROWS.page(store, &ROWS.all(), max + 1, Direction::Forward).await?;
    let mut units = BTreeMap::<String, i128>::new();
    if balances.len() <= max {
        balances.iter().for_each(|row| *units.entry(unit_of(&row.key)).or_default() += row.value.0);
    } else {
        balances = ROWS.page(store, &cursor.map_or_else(|| ROWS.all(), behind), limit, Direction::Forward).await?;
    }
    let mut reader = LedgerReader { store, remaining: LOOKED_AT, lines: Vec::with_capacity(limit) };
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
    let reorganized = list_reorganized(store, MAX_REORGANIZED).await?;
    let unresolved_settlements = Some(count_unresolved(store, MAX_UNRESOLVED).await?).filter(|count| *count > 0);
    let sums_agree = units.values().all(|sum| *sum == 0) && accounts.iter().all(|line| line.agrees != Some(false));
    let agrees = sums_agree && reorganized.is_empty();
    let reorganized = reorganized.into_iter().map(|undone| ReorganizedSettlement {
        receipt_id: undone.settlement.receipt_id,
        network: undone.settlement.network,
        transaction: undone.settlement.transaction,
        since: undone.at,
        lost: undone.lost,
    });
    let reorganized = reorganized.collect();
    let units = units.into_iter().map(|(unit, sum)| LedgerUnit { unit, sum: sum.to_string() }).collect();
    Ok(Ledger { ok: True, opened_at, units, accounts, next_cursor, agrees, unresolved_settlements, reorganized })
}

/// Prefix of credits' accounts.
const CREDIT: &str = "credit/";

fn unit_of(name: &str) -> String {
    let token = ["payers/", "treasury/"].into_iter().find_map(|start| name.strip_prefix(start));
    token.unwrap_or(DOLLARS).to_owned()
}

struct LedgerReader<'a> {
    store: &'a dyn Store,
    remaining: usize,
    lines: Vec<LedgerAccount>,
}

impl LedgerReader<'_> {
    async fn account(&mut self, name: String, balance: i128) -> Result<(), StoreError> {
        let builder = name.strip_prefix("builder/").and_then(|id| id.parse::<BuilderId>().ok());
        let credit = name.strip_prefix("revoked/").and_then(|id| id.parse::<CreditId>().ok());
        let rows = match (builder, credit) {
            (Some(builder), _) => self.waiting(&name, &builder, balance).await?,
            (None, Some(credit)) => self.revoked(&name, &credit, balance).await?,
            (None, None) => None,
        };
        self.push_account(name, balance, rows);
        Ok(())
    }

    /// Returns unpaid earnings minus owed refunds, or `None` if they changed meanwhile or are too many.
    async fn waiting(&mut self, name: &str, builder: &BuilderId, balance: i128) -> Result<Option<i128>, StoreError> {
        let range = UNPAID.under(&TerminatedText(builder.clone()));
        let rows = UNPAID.page(self.store, &range, self.remaining + 1, Direction::Forward).await?;
        let Some(remaining) = self.remaining.checked_sub(rows.len()) else { return Ok(None) };
        self.remaining = remaining;
        let owed = REFUNDS_OWED.get(self.store, builder).await?;
        let waits = rows.iter().map(|row| i128::from(row.value.net)).sum::<i128>() - owed;
        let now = ACCOUNTS.get(self.store, &name.to_owned()).await?;
        Ok(Some(waits).filter(|_| now == balance))
    }

    /// Returns the amount that the record of a revoked credit has, or `None` if it changed meanwhile.
    async fn revoked(&self, name: &str, credit: &CreditId, balance: i128) -> Result<Option<i128>, StoreError> {
        let revocation = CREDITS.get(self.store, credit).await?.and_then(|holder| holder.revoked);
        let taken = revocation.map_or(0, |revocation| i128::from(revocation.amount_usd.0));
        let now = ACCOUNTS.get(self.store, &name.to_owned()).await?;
        Ok(Some(taken).filter(|_| now == balance))
    }

    /// Reads a credit's account. Balance and movements are in one range, and so from one snapshot.
    async fn credit(&mut self, id: &CreditId) -> Result<(), StoreError> {
        let rows = LINES.page(self.store, &LINES.under(id), self.remaining + 1, Direction::Backward).await?;
        let remaining = self.remaining.checked_sub(rows.len());
        let (mut balance, mut moved) = (0, 0);
        for row in rows {
            match row.value {
                CreditRow::Balance(sum) => balance = sum,
                CreditRow::Movement(movement) => moved += movement.change(),
            }
        }
        self.remaining = remaining.unwrap_or(self.remaining);
        self.push_account(Account::Dollars(Dollars::Credit(id.clone())).to_string(), balance, remaining.map(|_| moved));
        Ok(())
    }

    fn push_account(&mut self, account: String, balance: i128, rows: Option<i128>) {
        let unit = unit_of(&account);
        let balance_usd = (unit == DOLLARS).then(|| UsdChange::of(balance));
        let agrees = rows.map(|rows| rows == balance);
        let rows = rows.map(|rows| rows.to_string());
        self.lines.push(LedgerAccount { account, unit, balance: balance.to_string(), balance_usd, rows, agrees });
    }
}
