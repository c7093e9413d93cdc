//! A balance, and what moved it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    account::credential::SecretHash,
    base::{clock::Timestamp, id::CreditId},
    store::{Batch, Table, schema},
    tool::{MicroUsd, Slug},
};

pub(super) const CREDITS: Table<CreditId, Credit> = schema::CREDITS.holding();
pub(super) const MOVEMENTS: Table<(CreditId, u64), Movement> = schema::CREDIT_MOVEMENTS.holding();
crate::store::json_values!(Credit, Movement);

/// A prepaid balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    /// Never given twice.
    pub id: CreditId,
    /// For admins, and nobody else.
    pub label: String,
    /// What is left of it.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// When it was minted.
    pub created_at: Timestamp,
    /// While an admin has revoked it: it pays for nothing, and what it held is kept here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// How many movements it has had: the number of the next.
    #[serde(default)]
    pub(super) movements: u64,
    pub(super) secret_sha256: SecretHash,
}

/// Since when a credit is revoked, and what is given back when it is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// When an admin decided.
    pub since: Timestamp,
    /// What was taken.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// Shown to the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One change of a balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Movement {
    /// When it moved.
    pub at: Timestamp,
    /// Why it moved.
    pub kind: MovementKind,
    /// What moved, whichever way.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// The balance after it.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// What was bought, of a debit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// The tool that was paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
}

/// Which way a movement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MovementKind {
    /// Adds to the balance.
    Mint,
    /// Takes from it.
    Debit,
    /// Takes all of it.
    Revoke,
    /// Adds what was revoked.
    Restore,
}

impl Credit {
    /// As its holder and admins see it.
    #[must_use]
    pub fn public(&self) -> Value {
        json!({
            "creditId": self.id,
            "label": self.label,
            "balanceUsd": self.balance,
            "createdAt": self.created_at,
            "revoked": self.revoked,
        })
    }

    /// Makes the balance `balance`: the movement that the commit of the credit has beside it. The credit counts them, so each
    /// commit checks its number too.
    pub(super) fn moved(&mut self, balance: MicroUsd, movement: &Movement) -> Batch {
        let number = self.movements;
        self.balance = balance;
        self.movements += 1;
        MOVEMENTS.put(&(self.id.clone(), number), movement)
    }
}

impl Movement {
    /// One that bought nothing.
    pub(super) fn plain(at: Timestamp, kind: MovementKind, amount: MicroUsd, balance: MicroUsd) -> Self {
        Self { at, kind, amount, balance, receipt_id: None, slug: None }
    }
}
