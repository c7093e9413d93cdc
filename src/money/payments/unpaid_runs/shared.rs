//! Shares counts of unpaid runs between the hosts of a store.

use std::sync::Arc;

use tollhouse_base::gcra::Tally;

use super::{PartyKind, ToolKey, UnpaidRunLimiter};

/// Prefix of the shared name of a tool's runs on credit. No slug contains a slash.
const ON_CREDIT: &str = "credit/";

/// Shares the failures of one kind of party with other hosts.
struct SharedFailures(Arc<UnpaidRunLimiter>, PartyKind);

impl Tally for SharedFailures {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.accounts.lock().unsent[self.1 as usize].take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        let (limits, now, mut accounts) = (&self.0.limits, self.0.now(), self.0.accounts.lock());
        match self.1 {
            PartyKind::Payers => accounts.of_payer(name, limits, now).fail_elsewhere(used, now),
            PartyKind::Addresses => {
                let (Ok(address), Some(_)) = (name.parse(), limits.of_address) else { return };
                accounts.of_address(address, limits, now).fail_elsewhere(used, now);
            }
            PartyKind::Tools => {
                let Some(key) = ToolKey::of_shared(name) else { return };
                accounts.of_tool(key, now).fail_elsewhere(used, now);
            }
        }
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
        [("failed-payers", PartyKind::Payers), ("failed-addresses", PartyKind::Addresses), ("failed-tools", PartyKind::Tools)]
            .map(|(name, kind)| (name, Arc::new(SharedFailures(Arc::clone(self), kind)) as Arc<dyn Tally>))
    }
}
