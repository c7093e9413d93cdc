//! Budgets of a credit: limits per day, per call and per tool, and a switch that freezes it.
//!
//! Spending is summed per UTC day, and per tool and day. Both budgets are checked before a call, together with what
//! calls in flight hold. The commit of the debit adds to the sums, and the store refuses it above an admin's limit. So no
//! budget of an admin is exceeded, however many calls end at the same time. One of the holder can be, by calls that hosts
//! of one store admit at the same time.

use tollhouse_api::{Budget, CreditDay, CreditToolDay};
use tollhouse_base::{boxed, clock::Timestamp, id::CreditId};
use tollhouse_store::{Batch, Counter, Direction, Store, StoreError, SumLimit, schema};
use tollhouse_tool::{MicroUsd, Slug};

use super::{
    CreditError, Credits,
    balance::{BudgetKind, Credit, OverBudget, SetBy},
};
use crate::sale::{day, end_of_day};

const DAYS: Counter<(u32, CreditId, String)> = schema::CREDIT_DAYS.counting();

/// Key of the sum over all tools of a day. No slug is empty.
const ALL_TOOLS: &str = "";

/// Days for which the sums are stored.
const RETAINED_DAYS: u32 = 7;

const MAX_LISTED_TOOLS: usize = 1_000;

/// Amount that a call is about to spend, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedSpend<'a> {
    pub(super) id: &'a CreditId,
    pub(super) slug: &'a Slug,
    pub(super) price: MicroUsd,
    pub(super) at: Timestamp,
}

impl PlannedSpend<'_> {
    /// Returns the additions to the sums of its day and its tool, in this order, which must stay within `budget`.
    pub(super) fn added(self, budget: &Budget) -> Batch {
        let (day, by) = (day(self.at), i128::from(self.price.0));
        let within = |limit: Option<MicroUsd>| SumLimit::Ceiling(limit.map_or(i128::MAX, |limit| limit.0.into()));
        let mut batch = Batch::new();
        batch.add(&DAYS, &(day, self.id.clone(), ALL_TOOLS.to_owned()), by, within(budget.per_day_usd)).add(
            &DAYS,
            &(day, self.id.clone(), self.slug.to_string()),
            by,
            within(budget.per_tool_usd),
        );
        batch
    }

    pub(super) async fn spent(self, store: &dyn Store, budget: &Budget) -> Result<DaySpend, StoreError> {
        let of = async |limit: Option<MicroUsd>, tool: &str| match limit {
            Some(_) => spent(store, &(day(self.at), self.id.clone(), tool.to_owned())).await,
            None => Ok(0),
        };
        Ok(DaySpend { all: of(budget.per_day_usd, ALL_TOOLS).await?, tool: of(budget.per_tool_usd, self.slug.as_str()).await? })
    }

    /// Fails if it exceeds the budget, given the sums so far.
    pub(super) fn check(self, budget: &Budget, spent: &DaySpend) -> Result<(), OverBudget> {
        let limits = [
            (BudgetKind::PerCall, budget.per_call_usd, 0),
            (BudgetKind::PerDay, budget.per_day_usd, spent.all),
            (BudgetKind::PerTool, budget.per_tool_usd, spent.tool),
        ];
        for (kind, limit, spent) in limits {
            if let Some(limit_usd) = limit
                && spent.saturating_add(self.price.0) > limit_usd.0
            {
                let resets_at = (kind != BudgetKind::PerCall).then(|| end_of_day(self.at));
                return Err(OverBudget { kind, limit_usd, spent_usd: MicroUsd(spent), price_usd: self.price, resets_at });
            }
        }
        Ok(())
    }
}

/// Micro-dollars spent in a day: for all tools, and for one.
#[derive(Debug)]
pub(super) struct DaySpend {
    all: u64,
    tool: u64,
}

impl DaySpend {
    /// Adds the amounts held by calls in flight.
    pub(super) fn with(self, all: u64, tool: u64) -> Self {
        Self { all: self.all.saturating_add(all), tool: self.tool.saturating_add(tool) }
    }
}

impl Credits {
    /// Replaces the budget set by one party. With `onto`, fails unless the budgets are at that revision.
    #[boxed]
    pub async fn set_budget(&self, id: &CreditId, by: SetBy, budget: &Budget, onto: Option<u64>) -> Result<Credit, CreditError> {
        let setting = self.change(id, |holder| {
            let revision = &mut holder.budgets.revision;
            if onto.is_some_and(|onto| onto != *revision) {
                return Err(CreditError::Changed(*revision));
            }
            *revision += 1;
            match by {
                SetBy::Admin => holder.budgets.admin = budget.clone(),
                SetBy::Holder => holder.budgets.holder = budget.clone(),
            }
            Ok(Batch::new())
        });
        setting.await
    }

    /// Returns today's spending of a credit, in total and per tool, and the rest of its budget.
    #[boxed]
    pub async fn today(&self, credit: &Credit) -> Result<CreditDay, StoreError> {
        let (now, budget) = (self.clock.now(), credit.budget());
        let rows = DAYS.rows();
        let range = rows.under(&(day(now), credit.id.clone()));
        let (mut spent, mut by_tool) = (0, vec![]);
        for row in rows.page(&*self.store, &range, MAX_LISTED_TOOLS + 1, Direction::Forward).await? {
            let sum = u64::try_from(row.value.0).unwrap_or(0);
            if row.key.2 == ALL_TOOLS {
                spent = sum;
            } else {
                by_tool.push(CreditToolDay { slug: row.key.2, spent_usd: MicroUsd(sum), left_usd: remaining(budget.per_tool_usd, sum) });
            }
        }
        Ok(CreditDay {
            spent_usd: MicroUsd(spent),
            left_usd: remaining(budget.per_day_usd, spent),
            by_tool,
            alert: budget.alert_at_usd.is_some_and(|at| spent >= at.0),
            resets_at: end_of_day(now),
        })
    }

    /// Deletes sums of expired days.
    #[boxed]
    pub async fn forget_days(&self) -> Result<(), StoreError> {
        let rows = DAYS.rows();
        let removed = rows.all().before(&day(self.clock.now()).saturating_sub(RETAINED_DAYS));
        rows.expire(&*self.store, &removed).await
    }
}

async fn spent(store: &dyn Store, key: &(u32, CreditId, String)) -> Result<u64, StoreError> {
    Ok(u64::try_from(DAYS.get(store, key).await?).unwrap_or(0))
}

/// Returns the rest of a limit, or `None` if there is no limit.
fn remaining(limit: Option<MicroUsd>, spent: u64) -> Option<MicroUsd> {
    limit.map(|limit| MicroUsd(limit.0.saturating_sub(spent)))
}
