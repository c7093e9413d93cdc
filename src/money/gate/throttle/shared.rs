//! Shares counts of unpaid runs between the hosts of a store.

use std::sync::Arc;

use tollhouse_base::{id::CreditId, uses::Tally};
use tollhouse_tool::Slug;

use super::{
    MAX_KEYS, Throttle,
    account::{Account, Funds},
    make_room,
};

/// The unpaid runs of payers.
struct Payers(Arc<Throttle>);

/// The unpaid runs of tools.
struct Tools(Arc<Throttle>);

impl Tally for Payers {
    fn take_used(&self, most: usize) -> Vec<(String, u64)> {
        self.0.accounts().untold.take_payers(most)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        make_room(&mut accounts.payers, &name.to_owned(), MAX_KEYS, |account| account.weight(now));
        let funds = if name.starts_with(CreditId::PREFIX) { Funds::Credit } else { Funds::Untold };
        let new = || Account::new(self.0.limits.of_payer, funds, now);
        accounts.payers.entry(name.to_owned()).or_insert_with(new).fail_elsewhere(used, now);
    }
}

impl Tally for Tools {
    fn take_used(&self, most: usize) -> Vec<(String, u64)> {
        self.0.accounts().untold.take_tools(most)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        let Ok(tool) = name.parse::<Slug>() else { return };
        make_room(&mut accounts.tools, &tool, MAX_KEYS, |tool| (tool.under_way, tool.failed.total(now.at)));
        accounts.tools.entry(tool).or_default().failed.add(used, now.at);
    }
}

impl Throttle {
    /// Returns the counts that hosts of a store share.
    pub(in crate::gate) fn tallies(self: &Arc<Self>) -> [(&'static str, Arc<dyn Tally>); 2] {
        [("failed-payers", Arc::new(Payers(Arc::clone(self)))), ("failed-tools", Arc::new(Tools(Arc::clone(self))))]
    }
}
