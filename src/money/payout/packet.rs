//! The record of a payout: its fields, its states and its public form.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_api::{PayoutDecision, PayoutPeriod, PayoutVerdict};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, PayoutId, ReceiptId},
};
use tollhouse_event::Kind;
use tollhouse_store::KeyPosition;
use tollhouse_tool::{MicroUsd, public_texts};

use super::states::{PayoutError, PayoutStatus};
use crate::Network;

const MAX_REASON: usize = public_texts::MAX_MONEY_REASON;

/// The recipient, token and minimum of payouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettings {
    /// The recipient's address in canonical form.
    pub address: String,
    /// The network's CAIP-2 id.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// Minimum amount of a payout.
    pub minimum_usd: MicroUsd,
    /// When they were last changed.
    pub updated_at: Timestamp,
    /// Number of changes.
    pub revision: u64,
}

/// A stored payout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packet {
    /// Its id, which is never reused.
    pub id: PayoutId,
    /// The builder who is paid.
    pub builder_id: BuilderId,
    /// The state.
    pub status: PayoutStatus,
    /// The amount in micro-USD: the net amounts of its receipts, minus `withheld` once it is complete.
    pub amount: u64,
    /// Refunds of earlier sales that are withheld, in micro-USD.
    pub withheld: u64,
    /// Number of receipts.
    pub receipt_count: u64,
    /// The last row of `Unpaid` that belongs to it, as of its beginning.
    pub(super) until: KeyPosition,
    /// The time span of the receipts.
    pub period: Option<PayoutPeriod>,
    /// SHA-256 of the receipts' ids in order, joined by line feeds. Set once it is complete.
    pub digest: Option<String>,
    /// Compact JWS over the canonical payout, signed by the receipt key. Set once it is complete.
    pub signature: Option<String>,
    /// The recipient's address.
    pub address: String,
    /// CAIP-2 id of the network.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// The transaction that paid it.
    pub transaction: Option<String>,
    /// Why it failed or was rejected.
    pub reason: Option<String>,
    /// The last receipt that its rejection has moved back to the unpaid earnings.
    pub(super) returned: Option<ReceiptId>,
}
tollhouse_store::json_values!(Packet, PayoutSettings);

/// Returns whether a payout of `amount` micro-USD can be made. If the amount is zero, it cannot.
///
/// # Errors
///
/// [`PayoutError::BelowMinimum`].
pub(super) fn is_reached(settings: &PayoutSettings, amount: u64) -> Result<bool, PayoutError> {
    if amount < settings.minimum_usd.0 {
        return Err(PayoutError::BelowMinimum { amount: MicroUsd(amount), minimum: settings.minimum_usd });
    }
    Ok(amount > 0)
}

/// Returns the kind of event of a decision.
pub(super) fn kind_of(decision: PayoutDecision) -> Kind {
    match decision {
        PayoutDecision::Approve => Kind::PayoutApproved,
        PayoutDecision::Paid => Kind::PayoutPaid,
        PayoutDecision::Failed => Kind::PayoutFailed,
        PayoutDecision::Reject => Kind::PayoutRejected,
    }
}

/// Validates the verdict, and returns the transaction in canonical form. `network` is the CAIP-2 id of the payout's.
fn checked(verdict: &PayoutVerdict, network: &str) -> Result<Option<String>, PayoutError> {
    let field = |pointer, message: String| PayoutError::Field { pointer, message };
    if verdict.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control)) {
        return Err(field("/reason", format!("a reason must have at most {MAX_REASON} characters and no control characters")));
    }
    match (verdict.decision, &verdict.transaction) {
        (PayoutDecision::Paid, Some(transaction)) => {
            let named = Network::named(network).and_then(|network| network.checked_transaction(transaction));
            let form = "a transaction must be `0x` and 64 hex digits, or on Solana 64 bytes in base58";
            named.map(Some).ok_or_else(|| field("/transaction", form.to_owned()))
        }
        (PayoutDecision::Paid, None) => Err(field("/transaction", "the decision `paid` needs the transaction that paid".to_owned())),
        (PayoutDecision::Approve | PayoutDecision::Failed | PayoutDecision::Reject, Some(_)) => {
            Err(field("/transaction", "only the decision `paid` takes a transaction".to_owned()))
        }
        (PayoutDecision::Approve | PayoutDecision::Failed | PayoutDecision::Reject, None) => Ok(None),
    }
}

impl Packet {
    /// Constructs a payout of the unpaid earnings up to `until`, minus refunds to withhold, in micro-USD.
    pub(super) fn collecting(builder: &BuilderId, settings: PayoutSettings, until: KeyPosition, withheld: u64, now: Timestamp) -> Self {
        Self {
            id: PayoutId::of_time(now),
            builder_id: builder.clone(),
            status: PayoutStatus::Collecting,
            amount: 0,
            withheld,
            receipt_count: 0,
            until,
            period: None,
            digest: None,
            signature: None,
            address: settings.address,
            network: settings.network,
            asset: settings.asset,
            created_at: now,
            updated_at: now,
            transaction: None,
            reason: None,
            returned: None,
        }
    }

    /// Returns the amount.
    pub fn amount(&self) -> MicroUsd {
        MicroUsd(self.amount)
    }

    /// Returns the signed part: all fields that never change.
    pub(crate) fn canonical(&self) -> Value {
        let mut packet = json!({
            "id": self.id,
            "builderId": self.builder_id,
            "amountUsd": self.amount(),
            "receiptCount": self.receipt_count,
            "digest": self.digest,
            "period": self.period,
            "address": self.address,
            "network": self.network,
            "asset": self.asset,
            "createdAt": self.created_at,
        });
        if self.withheld > 0 {
            packet["withheldUsd"] = json!(MicroUsd(self.withheld));
        }
        packet
    }

    pub(super) fn decide(&mut self, verdict: &PayoutVerdict, now: Timestamp) -> Result<(), PayoutError> {
        let paid = checked(verdict, &self.network)?;
        let to = match verdict.decision {
            PayoutDecision::Approve => PayoutStatus::Approved,
            PayoutDecision::Paid => PayoutStatus::Paid,
            PayoutDecision::Failed => PayoutStatus::Failed,
            PayoutDecision::Reject => PayoutStatus::Rejecting,
        };
        match (self.status, to) {
            (PayoutStatus::Created | PayoutStatus::Failed, PayoutStatus::Approved | PayoutStatus::Rejecting)
            | (PayoutStatus::Approved, PayoutStatus::Paid | PayoutStatus::Failed) => {}
            (from, to) => return Err(PayoutError::WrongState { from, to }),
        }
        self.status = to;
        self.reason.clone_from(&verdict.reason);
        if paid.is_some() {
            self.transaction = paid;
        }
        self.updated_at = now;
        Ok(())
    }
}
