//! What a budget says, and that a call would pass it.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::MicroUsd;

/// What one party allows. Nothing said is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Of a UTC day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day_usd: Option<MicroUsd>,
    /// Of each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_call_usd: Option<MicroUsd>,
    /// Of each tool in a UTC day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_tool_usd: Option<MicroUsd>,
    /// Spent in a UTC day, has it told that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_at_usd: Option<MicroUsd>,
    /// It pays for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
}

/// The budgets of a credit: of what both say the lower holds, and one that has it frozen is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budgets {
    /// Set by admins.
    #[serde(default)]
    pub admin: Budget,
    /// Set by whoever holds the token.
    #[serde(default)]
    pub holder: Budget,
    /// How often either was set.
    #[serde(default)]
    pub revision: u64,
}

/// Who sets a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// An admin.
    Admin,
    /// Whoever holds the token.
    Holder,
}

/// Which limit a call would pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetKind {
    /// Of a UTC day.
    PerDay,
    /// Of each call.
    PerCall,
    /// Of each tool in a UTC day.
    PerTool,
}

/// A budget that a call would pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("the credit's budget {} is {limit_usd} USD, {spent_usd} USD of it are spent or held by calls under way, and the call costs {price_usd} USD", .kind.words())]
pub struct OverBudget {
    /// Which one.
    pub kind: BudgetKind,
    /// Its limit.
    pub limit_usd: MicroUsd,
    /// What of it is gone.
    pub spent_usd: MicroUsd,
    /// What the call costs.
    pub price_usd: MicroUsd,
    /// When it is whole again; never for that of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
}

impl BudgetKind {
    fn words(self) -> &'static str {
        match self {
            Self::PerDay => "of a day",
            Self::PerCall => "of a call",
            Self::PerTool => "of a tool in a day",
        }
    }
}

impl Budgets {
    /// What holds: the lower of each.
    #[must_use]
    pub fn in_force(&self) -> Budget {
        let lower = |of: fn(&Budget) -> Option<MicroUsd>| [of(&self.admin), of(&self.holder)].into_iter().flatten().min();
        Budget {
            per_day_usd: lower(|budget| budget.per_day_usd),
            per_call_usd: lower(|budget| budget.per_call_usd),
            per_tool_usd: lower(|budget| budget.per_tool_usd),
            alert_at_usd: lower(|budget| budget.alert_at_usd),
            frozen: self.admin.frozen || self.holder.frozen,
        }
    }
}
