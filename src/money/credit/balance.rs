//! A developer credit and its balance, which the ledger keeps.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use tollhouse_account::credential::SecretHash;
use tollhouse_api::{Budget, Budgets, CreditRevocation};
use tollhouse_base::{clock::Timestamp, id::CreditId};
use tollhouse_store::{Store, StoreError, Table, schema};
use tollhouse_tool::MicroUsd;

use super::{
    budgets::in_force,
    number::BALANCE,
    row::{CreditRow, LINES},
};

pub(crate) const CREDITS: Table<CreditId, StoredCredit> = schema::CREDITS.holding();
tollhouse_store::json_values!(StoredCredit);

/// A prepaid balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// The remaining balance.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// The credit's record.
    #[serde(flatten)]
    pub holder: StoredCredit,
}

/// A credit as it is stored. The balance is separate, so payments do not change this record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCredit {
    /// Its id, which is never reused.
    pub id: CreditId,
    /// A label that only admins see.
    pub label: String,
    /// When it was minted.
    pub created_at: Timestamp,
    /// Set while the credit is revoked. It then cannot pay for calls, and its balance is stored here.
    pub revoked: Option<CreditRevocation>,
    /// Its spending limits.
    pub budgets: Budgets,
    pub(super) secret_sha256: SecretHash,
}

impl Deref for Credit {
    type Target = StoredCredit;

    fn deref(&self) -> &StoredCredit {
        &self.holder
    }
}

impl StoredCredit {
    /// Returns its limits in force: the lower of each.
    pub fn budget(&self) -> Budget {
        in_force(&self.budgets)
    }

    pub(super) async fn with_balance(self, store: &dyn Store) -> Result<Credit, StoreError> {
        let line = LINES.get(store, &(self.id.clone(), BALANCE)).await?;
        Ok(Credit { balance: balance(line), holder: self })
    }
}

/// Returns the balance of a row, or zero if there is none. No balance is negative.
pub(super) fn balance(line: Option<CreditRow>) -> MicroUsd {
    match line {
        Some(CreditRow::Balance(sum)) => MicroUsd(u64::try_from(sum).unwrap_or(0)),
        Some(CreditRow::Movement(_)) | None => MicroUsd::ZERO,
    }
}
