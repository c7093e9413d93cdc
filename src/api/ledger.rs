//! The accounts of the ledger, settlements with an unknown outcome, and the comparison with a chain.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{PaymentId, ReceiptId},
};
use tollhouse_tool::{MicroUsd, Slug, UsdChange};

use crate::{SettlementLoss, True};

/// The accounts of the ledger.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    pub ok: True,
    /// When the ledger was opened.
    pub opened_at: Option<Timestamp>,
    /// The sum of all accounts, by unit.
    pub units: Vec<LedgerUnit>,
    /// The accounts.
    pub accounts: Vec<LedgerAccount>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Whether all checks agree, and no reorganization undid a settlement.
    pub agrees: bool,
    /// Number of settlements with an unknown outcome, up to 10,000. Their money is in no account. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub unresolved_settlements: Option<usize>,
    /// The newest settlements that a reorganization undid, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reorganized: Vec<ReorganizedSettlement>,
}

/// The sum of all accounts in one unit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LedgerUnit {
    /// The unit.
    pub unit: String,
    /// The sum, as a decimal text.
    pub sum: String,
}

/// An account of the ledger.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ReorganizedSettlement {
    /// Receipt of the payment.
    pub receipt_id: ReceiptId,
    /// The network, as CAIP-2.
    pub network: String,
    /// The transaction that is no longer in any block.
    pub transaction: String,
    /// When the host noticed.
    pub since: Timestamp,
    /// Why the money can no longer move. Present once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<SettlementLoss>,
}

/// A page of settlements with an unknown outcome, by payment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnresolvedPage {
    pub ok: True,
    /// The settlements.
    pub settlements: Vec<UnresolvedSettlement>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<PaymentId>,
}

/// A settlement with an unknown outcome.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UnresolvedSettlement {
    /// Id of the payment.
    pub payment_id: PaymentId,
    /// When the settlement began.
    pub since: Timestamp,
    /// The network, as CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// The amount, in the smallest unit of the token.
    pub amount: String,
    /// The payer's address.
    pub payer: String,
    /// The recipient's address.
    pub pay_to: String,
    /// The tool that was called.
    pub slug: Slug,
    /// The price of the call.
    pub price_usd: MicroUsd,
    /// The facilitator of the settlement.
    pub facilitator: Option<String>,
    /// The transaction that was prepared for it.
    pub transaction: Option<String>,
}

/// An admin's decision about a settlement with an unknown outcome.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettlementVerdict {
    /// The decision.
    pub decision: SettlementDecision,
    /// With `paid`, the transaction of the transfer. It must match the chain if a node is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
}

/// An admin's decision about a settlement. `look_up` looks on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SettlementDecision {
    /// Asks the chain.
    LookUp,
    /// The payment arrived.
    Paid,
    /// The payment did not arrive.
    Unpaid,
}

/// A comparison of a range of blocks with the ledger.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reconciliation {
    pub ok: True,
    /// The network, as CAIP-2.
    pub network: Cow<'static, str>,
    /// The first block.
    pub from_block: u64,
    /// The last block.
    pub to_block: u64,
    /// Number of transfers to the host's address in these blocks.
    pub transfers: u64,
    /// Number of receipts of payments on the network within the time of these blocks.
    pub receipts: u64,
    /// Transfers without a receipt for their amount.
    pub unknown: Vec<UnknownTransfer>,
    /// Receipts whose transaction contains no transfer of their amount.
    pub missing: Vec<MissingTransfer>,
    /// Transactions with fewer transfers of an amount than receipts for it.
    pub doubled: Vec<DoubledTransaction>,
    /// Whether there are more differences than the lists contain, or more events than can be read. Compare a shorter time
    /// then. The host's log names blocks and transactions with too many events.
    pub truncated: bool,
    /// Whether there are no differences.
    pub agrees: bool,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A transfer without a receipt for its amount.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UnknownTransfer {
    /// Its transaction.
    pub transaction: String,
    /// Its block.
    pub block: u64,
    /// Index of its event in the block.
    pub log_index: u64,
    /// The sender.
    pub from: String,
    /// Address of the token.
    pub asset: Cow<'static, str>,
    /// The amount, in the smallest unit of the token.
    pub amount: String,
}

/// A receipt whose transaction contains no transfer of its amount.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MissingTransfer {
    /// Id of the receipt.
    pub receipt_id: ReceiptId,
    /// Its transaction.
    pub transaction: String,
    /// Address of the token.
    pub asset: String,
    /// The amount, in the smallest unit of the token.
    pub amount: String,
}

/// A transaction with fewer transfers of an amount than receipts for it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DoubledTransaction {
    /// The transaction.
    pub transaction: String,
    /// Number of its transfers of that amount.
    pub transfers: u64,
    /// The receipts for that amount that name it.
    pub receipt_ids: Vec<String>,
}
