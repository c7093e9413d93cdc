//! The accounts of the ledger.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, money::UsdChange, receipt::SettlementLoss, time::Timestamp};

/// The accounts of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Always true.
    pub ok: True,
    /// When the ledger was opened.
    pub opened_at: Option<Timestamp>,
    /// The sum of all accounts, by unit.
    pub units: Vec<LedgerUnit>,
    /// The accounts.
    pub accounts: Vec<LedgerAccount>,
    /// Whether all checks agree, and no reorganization undid a settlement.
    pub agrees: bool,
    /// Number of settlements with an unknown outcome, up to 10,000. Their money is in no account. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub unresolved_settlements: Option<u64>,
    /// The newest settlements that a reorganization undid, at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorganized: Option<Vec<ReorganizedSettlement>>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The sum of all accounts in one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct LedgerUnit {
    /// The unit.
    pub unit: String,
    /// The sum, as a decimal text.
    pub sum: String,
}

/// An account of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct LedgerAccount {
    /// Name of the account.
    pub account: String,
    /// Its unit.
    pub unit: String,
    /// Its balance, as a decimal text: it can exceed the numbers of JSON.
    pub balance: String,
    /// Its balance in dollars, if that is its unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance_usd: Option<UsdChange>,
    /// The sum of its rows, as a decimal text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Whether the sum of its rows is its balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
}

/// A settlement that a reorganization undid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ReorganizedSettlement {
    /// Receipt of the payment.
    pub receipt_id: String,
    /// The network.
    pub network: String,
    /// The transaction that is no longer in any block.
    pub transaction: String,
    /// When the host noticed.
    pub since: Timestamp,
    /// Why the money can no longer move. Present once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<SettlementLoss>,
}
