//! Shares counts of unpaid runs between the hosts of a store.

use std::sync::Arc;

use tollhouse_base::{gcra::Tally, id::CreditId};
use tollhouse_tool::Slug;

use super::{
    MAX_KEYS, UnpaidRunLimiter,
    account::{KnownFunds, RunAccount},
    evict,
};

/// The unpaid runs of payers.
struct PayerAccounts(Arc<UnpaidRunLimiter>);

/// The unpaid runs of tools.
struct ToolAccounts(Arc<UnpaidRunLimiter>);

impl Tally for PayerAccounts {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.accounts().unreported.take_payers(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        evict(&mut accounts.payers, &name.to_owned(), MAX_KEYS, |account| account.weight(now));
        let funds = if name.starts_with(CreditId::PREFIX) { KnownFunds::Credit } else { KnownFunds::Untold };
        let new = || RunAccount::new(self.0.limits.of_payer, funds, now);
        accounts.payers.entry(name.to_owned()).or_insert_with(new).fail_elsewhere(used, now);
    }
}

impl Tally for ToolAccounts {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.accounts().unreported.take_tools(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        let Ok(tool) = name.parse::<Slug>() else { return };
        evict(&mut accounts.tools, &tool, MAX_KEYS, |tool| (tool.in_flight, tool.failed.total(now.at)));
        accounts.tools.entry(tool).or_default().failed.add(used, now.at);
    }
}

impl UnpaidRunLimiter {
    /// Returns the counts that hosts of a store share.
    pub(in crate::payments) fn tallies(self: &Arc<Self>) -> [(&'static str, Arc<dyn Tally>); 2] {
        [("failed-payers", Arc::new(PayerAccounts(Arc::clone(self)))), ("failed-tools", Arc::new(ToolAccounts(Arc::clone(self))))]
    }
}
