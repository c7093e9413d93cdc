//! Shares with other hosts and restarts who has paid for which tool, and the counts of unpaid runs.

use std::sync::Arc;

use tollhouse_base::gcra::Tally;
use tollhouse_store::{Batch, Durability, StoreError, Table, schema};
use tollhouse_tool::Slug;

use super::{
    MAX_CUSTOMERS, MAX_KEYS, PartyKind, RunParties, Standing, ToolKey, UnpaidRunLimiter, Unwritten, account::Customer, evict, network,
};
use crate::payments::{Payments, gas::Burner};

const CUSTOMERS: Table<(u64, String), ()> = schema::CUSTOMERS.holding();

/// Length of an interval with its own rows, in milliseconds: a week.
const INTERVAL_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

impl Unwritten {
    pub(super) fn add(&mut self, payer: &str, tool: &Slug) {
        if self.0.len() < MAX_KEYS {
            self.0.insert(key(payer, tool));
        }
    }
}

fn key(payer: &str, tool: &Slug) -> String {
    format!("{payer}/{tool}")
}

impl UnpaidRunLimiter {
    pub(super) fn standing(&self, running: &RunParties) -> Option<Standing> {
        let (accounts, now) = (self.accounts.lock(), self.now());
        accounts.customers.get(&(running.payer.clone(), running.tool.clone())).map(|customer| customer.standing(now))
    }

    /// Remembers a customer that only the store knew. As for any other customer, the paid run covers its runs.
    fn remember_customer(&self, running: &RunParties) -> Standing {
        let (mut accounts, now) = (self.accounts.lock(), self.now());
        let key = (running.payer.clone(), running.tool.clone());
        evict(&mut accounts.customers, &key, MAX_CUSTOMERS, |customer| (customer.in_flight, customer.last));
        accounts.customers.entry(key).or_insert_with(|| Customer::known(now)).standing(now)
    }
}

impl Payments {
    /// Returns the standing of the payer of a run. Payments at other hosts or before a restart are looked up only if they
    /// matter now.
    pub(in crate::payments) async fn standing(&self, running: &RunParties) -> Result<Standing, StoreError> {
        if let Some(known) = self.throttle.standing(running) {
            return Ok(known);
        }
        if !self.gas.depends_on_standing(&Burner::from(running)) || !self.gas.is_clean(&running.payer) {
            return Ok(Standing::New);
        }
        let (interval, key) = (self.clock.now().0 / INTERVAL_MS, key(&running.payer, &running.tool));
        for interval in [interval, interval.saturating_sub(1)] {
            if CUSTOMERS.get(&*self.store, &(interval, key.clone())).await?.is_some() {
                return Ok(self.throttle.remember_customer(running));
            }
        }
        Ok(Standing::New)
    }

    /// Records in the store who has paid, if settlements cost this host gas.
    pub(in crate::payments) async fn note_customers(&self) {
        let unwritten = std::mem::take(&mut self.throttle.accounts.lock().unwritten).0;
        if unwritten.is_empty() || !self.gas.is_used() {
            return;
        }
        let (interval, mut batch) = (self.clock.now().0 / INTERVAL_MS, Batch::new());
        unwritten.into_iter().for_each(|key| _ = batch.put(&CUSTOMERS, &(interval, key), &()));
        let written = async {
            batch.commit(&*self.store, Durability::Buffered).await?;
            CUSTOMERS.clear(&*self.store, &CUSTOMERS.all().before(&interval.saturating_sub(1)), u64::MAX).await
        };
        if let Err(error) = written.await {
            // The customers are recorded again in a day. Until then, this host remembers them.
            tracing::warn!(%error, "paying customers could not be recorded in the store");
        }
    }
}

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
                if let Some(network) = network(address) {
                    accounts.of_network(network, now).fail_elsewhere(used, now);
                }
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
