//! One payout packet: its record, its states, its public form.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, PayoutId},
};
use tollhouse_event::Kind;
use tollhouse_store::Place;
use tollhouse_tool::{MicroUsd, texts};

use super::{PayoutError, PayoutSettings, status::Status};
use crate::Network;

/// Longest reason, in characters.
const MAX_REASON: usize = texts::MAX_MONEY_REASON;

/// When the receipts of a packet were issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// Of the first receipt.
    pub from: Timestamp,
    /// Of the last.
    pub to: Timestamp,
}

/// A packet, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packet {
    /// Never given twice.
    pub id: PayoutId,
    /// Who is paid.
    pub builder_id: BuilderId,
    /// How far it is.
    pub status: Status,
    /// Micro-USD: what its receipts bring, less what is withheld once it is complete.
    pub amount: u64,
    /// Micro-USD that were given back of earlier sales, and are left out of it.
    #[serde(default)]
    pub withheld: u64,
    /// How many receipts it pays.
    pub receipt_count: u64,
    /// The last of `Unpaid` that belongs to it, as it was when the packet was begun.
    pub(super) until: Place,
    /// Which time they are of.
    pub period: Option<Period>,
    /// SHA-256 of the receipts' ids in their order, joined by line feeds; there once it is complete.
    pub digest: Option<String>,
    /// Compact JWS of the receipts' key over the canonical packet; there once it is complete.
    pub signature: Option<String>,
    /// Where the money goes.
    pub address: String,
    /// CAIP-2 name of the network.
    pub network: String,
    /// Its dollar token.
    pub asset: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its status was set.
    pub updated_at: Timestamp,
    /// The transaction that paid it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Why it was not paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
tollhouse_store::json_values!(Packet);

/// What a new packet is made of.
pub(super) struct Begun {
    /// The last of `Unpaid` that belongs to it.
    pub(super) until: Place,
    /// Micro-USD to be left out of it: less than what waits.
    pub(super) withheld: u64,
}

/// What an admin says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It is to be paid.
    Approve,
    /// It was.
    Paid,
    /// It was not: its receipts wait again.
    Failed,
}

/// The body of a decision.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verdict {
    /// What an admin decided.
    pub decision: Decision,
    /// With `paid`, and only then.
    pub transaction: Option<String>,
    /// With `failed`: why.
    pub reason: Option<String>,
}

/// A verdict that has what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paid {
    /// Nobody has yet.
    Not,
    /// By this transaction.
    By(String),
}

impl Verdict {
    /// What the event says.
    pub(super) fn kind(&self) -> Kind {
        match self.decision {
            Decision::Approve => Kind::PayoutApproved,
            Decision::Paid => Kind::PayoutPaid,
            Decision::Failed => Kind::PayoutFailed,
        }
    }

    /// `network` is where the packet is paid, CAIP-2.
    fn checked(&self, network: &str) -> Result<Paid, PayoutError> {
        let field = |pointer, message: String| PayoutError::Field { pointer, message };
        if self.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON || reason.chars().any(char::is_control)) {
            return Err(field("/reason", format!("a reason has at most {MAX_REASON} characters, none of them a control character")));
        }
        match (self.decision, &self.transaction) {
            (Decision::Paid, Some(transaction)) => {
                let named = Network::named(network).and_then(|network| network.checked_transaction(transaction));
                let form = "a transaction is `0x` and 64 hex digits; on Solana 64 bytes in base58";
                named.map(Paid::By).ok_or_else(|| field("/transaction", form.to_owned()))
            }
            (Decision::Paid, None) => Err(field("/transaction", "say by which transaction it was paid".to_owned())),
            (Decision::Approve | Decision::Failed, Some(_)) => Err(field("/transaction", "only what is paid has a transaction".to_owned())),
            (Decision::Approve | Decision::Failed, None) => Ok(Paid::Not),
        }
    }
}

impl Packet {
    pub(super) fn collecting(builder: &BuilderId, settings: PayoutSettings, Begun { until, withheld }: Begun, now: Timestamp) -> Self {
        Self {
            id: PayoutId::of_time(now),
            builder_id: builder.clone(),
            status: Status::Collecting,
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
        }
    }

    /// What is paid.
    #[must_use]
    pub fn amount(&self) -> MicroUsd {
        MicroUsd(self.amount)
    }

    /// What the signature covers: all that never changes.
    pub(super) fn canonical(&self) -> Value {
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

    /// As its builder and admins see it.
    #[must_use]
    pub fn public(&self) -> Value {
        let mut packet = self.canonical();
        packet["status"] = json!(self.status);
        packet["signature"] = json!(self.signature);
        packet["updatedAt"] = json!(self.updated_at);
        if let Some(transaction) = &self.transaction {
            packet["transaction"] = json!(transaction);
        }
        if let Some(reason) = &self.reason {
            packet["reason"] = json!(reason);
        }
        packet
    }

    pub(super) fn decide(&mut self, verdict: &Verdict, now: Timestamp) -> Result<(), PayoutError> {
        let paid = verdict.checked(&self.network)?;
        let to = match verdict.decision {
            Decision::Approve => Status::Approved,
            Decision::Paid => Status::Paid,
            Decision::Failed => Status::Failed,
        };
        match (self.status, to) {
            (Status::Created | Status::Failed, Status::Approved) | (Status::Approved, Status::Paid | Status::Failed) => {}
            (from, to) => return Err(PayoutError::WrongState { from, to }),
        }
        self.status = to;
        self.reason.clone_from(&verdict.reason);
        if let Paid::By(transaction) = paid {
            self.transaction = Some(transaction);
        }
        self.updated_at = now;
        Ok(())
    }
}
