//! Shares counts of unpaid runs between the hosts of a store.

use std::{net::IpAddr, sync::Arc};

use tollhouse_base::gcra::Tally;

use super::{MAX_KEYS, ToolKey, UnpaidRunLimiter, account::RunAccount, evict};

/// Prefix of the shared name of a tool's runs on credit. No slug contains a slash.
const ON_CREDIT: &str = "credit/";

struct PayerAccounts(Arc<UnpaidRunLimiter>);

struct AddressAccounts(Arc<UnpaidRunLimiter>);

struct ToolAccounts(Arc<UnpaidRunLimiter>);

impl Tally for PayerAccounts {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.accounts().unsent_payers.take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        evict(&mut accounts.payers, &name.to_owned(), MAX_KEYS, |account| account.weight(now));
        let new = || RunAccount::new(self.0.limits.of_payer, now);
        accounts.payers.entry(name.to_owned()).or_insert_with(new).fail_elsewhere(used, now);
    }
}

impl Tally for AddressAccounts {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.accounts().unsent_addresses.take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        let (Ok(address), Some(_)) = (name.parse::<IpAddr>(), self.0.limits.of_address) else { return };
        evict(&mut accounts.addresses, &address, MAX_KEYS, |account| account.weight(now));
        let new = || RunAccount::new(self.0.limits.of_address, now);
        accounts.addresses.entry(address).or_insert_with(new).fail_elsewhere(used, now);
    }
}

impl Tally for ToolAccounts {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.accounts().unsent_tools.take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (now, mut accounts) = (self.0.now(), self.0.accounts());
        let Some(key) = ToolKey::of_shared(name) else { return };
        evict(&mut accounts.tools, &key, MAX_KEYS, |tool| tool.weight(now));
        accounts.tools.entry(key).or_default().fail_elsewhere(used, now);
    }
}

impl ToolKey {
    /// Returns its name among the hosts of a store.
    pub(super) fn shared_name(&self) -> String {
        format!("{}{}", if self.on_credit { ON_CREDIT } else { "" }, self.tool)
    }

    fn of_shared(name: &str) -> Option<Self> {
        let (tool, on_credit) = name.strip_prefix(ON_CREDIT).map_or((name, false), |tool| (tool, true));
        Some(Self { tool: tool.parse().ok()?, on_credit })
    }
}

impl UnpaidRunLimiter {
    pub(in crate::payments) fn tallies(self: &Arc<Self>) -> [(&'static str, Arc<dyn Tally>); 3] {
        [
            ("failed-payers", Arc::new(PayerAccounts(Arc::clone(self)))),
            ("failed-addresses", Arc::new(AddressAccounts(Arc::clone(self)))),
            ("failed-tools", Arc::new(ToolAccounts(Arc::clone(self)))),
        ]
    }
}
