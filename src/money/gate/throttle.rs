//! Limits on runs that nobody pays for, by payer, by caller's address and by tool.
//!
//! A run takes a [`Place`] before its handler starts, so that runs under way count like those that have failed. A place ends in one
//! of three ways: the run is paid for, which forgives one earlier failure of at most that price; the run is not paid for, which counts
//! for a minute; or there was no run, which counts nothing.
//!
//! A payer who pays can have more runs under way: ten paid runs allow one more. Each unpaid run takes one of
//! these back.
//!
//! A tool's limit holds for x402 payers who have not paid for that tool recently. So payers with fresh addresses cannot run one tool
//! without end, and they shut out nobody who has paid. Half of it is kept for addresses that have no unpaid run.

mod account;
mod customers;
mod shared;
#[cfg(test)]
mod tests;
mod untold;

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;
use tollhouse_telemetry::counted::UNPAID_RUNS;
use tollhouse_tool::{MicroUsd, Slug};

pub(super) use self::account::Funds;
use self::{
    account::{Account, Customer, Now, SOON, ToolAccount, WINDOW},
    customers::Unwritten,
    untold::Untold,
};
use super::slowed::{Bound, Slowed};

/// Runs under way at once of a payer whose balance nobody tells, before its first paid run.
const UNTOLD_AT_ONCE: u32 = 8;

/// Payers, addresses and tools that are remembered, each. Beyond that, those that failed least are forgotten.
const MAX_KEYS: usize = 16_384;

/// Payers' histories with tools that are remembered.
const MAX_CUSTOMERS: usize = 65_536;

/// Unpaid runs within a minute before further runs get 429. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRuns {
    /// Of one payer, of all tools together. Default: 30.
    pub of_payer: Option<NonZeroU32>,
    /// From one caller's address, of all payers together. Default: 60.
    pub of_address: Option<NonZeroU32>,
    /// Of one tool, by all x402 payers together who have not paid for it before. Default: 100.
    pub of_tool: Option<NonZeroU32>,
}

impl Default for FailedRuns {
    fn default() -> Self {
        Self { of_payer: NonZeroU32::new(30), of_address: NonZeroU32::new(60), of_tool: NonZeroU32::new(100) }
    }
}

/// Who runs what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    /// An address of a network, or the id of a credit.
    pub(super) payer: String,
    pub(super) tool: Slug,
    /// What the run costs.
    pub(super) price: MicroUsd,
    /// Whose tool that is, as shares name them.
    pub(super) builder: String,
    /// Where the call comes from: an address of IPv4, or the first of a /64.
    pub(super) from: Option<IpAddr>,
    pub(super) funds: Funds,
    /// The payer has paid for this tool before.
    pub(super) is_customer: bool,
}

/// All accounts.
#[derive(Debug, Default)]
struct Accounts {
    payers: HashMap<String, Account>,
    addresses: HashMap<IpAddr, Account>,
    tools: HashMap<Slug, ToolAccount>,
    customers: HashMap<(String, Slug), Customer>,
    untold: Untold,
    unwritten: Unwritten,
}

/// The limits on runs that nobody pays for.
#[derive(Debug)]
pub(super) struct Throttle {
    limits: FailedRuns,
    begun: Instant,
    accounts: Mutex<Accounts>,
}

/// A run that has a place among those that may fail. Dropped, it was no run.
#[derive(Debug)]
#[must_use]
pub(super) struct Place {
    throttle: Arc<Throttle>,
    pub(super) running: Running,
    /// The payer has paid for this tool more often than such runs are under way.
    is_customer: bool,
    is_over: bool,
}

impl Throttle {
    pub(super) fn new(limits: FailedRuns) -> Arc<Self> {
        Arc::new(Self { limits, begun: Instant::now(), accounts: Mutex::default() })
    }

    /// Whether a run may begin now. Takes no place: the payment may be anybody's still.
    pub(super) fn check(&self, running: &Running) -> Result<(), Slowed> {
        self.accounts().admit(&self.limits, running, self.now()).map(drop)
    }

    /// Takes a place for a run whose payment is the payer's.
    pub(super) fn begin(self: &Arc<Self>, running: Running) -> Result<Place, Slowed> {
        let (mut accounts, now) = (self.accounts(), self.now());
        let is_customer = accounts.admit(&self.limits, &running, now)?;
        accounts.begin(&self.limits, &running, is_customer, now);
        drop(accounts);
        Ok(Place { throttle: Arc::clone(self), running, is_customer, is_over: false })
    }

    /// Makes up for a run that was not known to be paid for when it ended.
    pub(super) fn settled_late(&self, running: &Running) {
        let (mut accounts, now) = (self.accounts(), self.now());
        if let Some(account) = accounts.payers.get_mut(&running.payer) {
            account.paid_late(now);
        }
        accounts.paid(running, now);
    }

    /// Takes back one failure of a run that its payer had no part in.
    pub(super) fn excuse(&self, running: &Running) {
        let (mut accounts, now) = (self.accounts(), self.now());
        let Running { payer, tool, from, .. } = running;
        let Accounts { payers, addresses, tools, .. } = &mut *accounts;
        let accounts = [payers.get_mut(payer), from.and_then(|from| addresses.get_mut(&from))];
        accounts.into_iter().flatten().for_each(|account| account.excuse(now));
        if let Some(tool) = tools.get_mut(tool) {
            tool.failed.forgive(now.at);
        }
    }

    /// Unpaid runs of the last minute, of all payers. Those that were forgiven stay in it: nobody paid for them.
    pub(super) fn unpaid(&self) -> u64 {
        let now = self.now();
        self.accounts().payers.values().map(|account| account.unpaid(now)).sum()
    }

    /// Forgets who has been quiet, so that memory stays flat.
    pub(super) fn forget_quiet(&self) {
        let now = self.now();
        let Accounts { payers, addresses, tools, customers, .. } = &mut *self.accounts();
        payers.retain(|_, account| !account.is_quiet(now));
        addresses.retain(|_, account| !account.is_quiet(now));
        tools.retain(|_, tool| tool.under_way > 0 || tool.failed.total(now.at) > 0);
        customers.retain(|_, customer| !customer.is_quiet(now));
    }

    fn now(&self) -> Now {
        Now::new(self.begun.elapsed())
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    /// Whether a run may begin; true where its payer has paid for the tool.
    fn admit(&self, limits: &FailedRuns, running: &Running, now: Now) -> Result<bool, Slowed> {
        let Running { payer, tool, from, funds, .. } = running;
        let slowed = |bound, most, wait| Slowed { bound, most, window: WINDOW, wait };
        let account = self.payers.get(payer).copied().unwrap_or_else(|| Account::new(limits.of_payer, *funds, now));
        if let Some(most) = limits.of_payer {
            account.admit(most, now).map_err(|wait| slowed(Bound::Payer, most, wait))?;
            if *funds == Funds::Untold && !account.has_paid && account.under_way >= UNTOLD_AT_ONCE {
                let most = NonZeroU32::new(UNTOLD_AT_ONCE).unwrap_or(most);
                return Err(slowed(Bound::Unproven, most, SOON));
            }
        }
        let address = from.and_then(|from| self.addresses.get(&from));
        if let (Some(most), Some(address)) = (limits.of_address, address) {
            address.admit(most, now).map_err(|wait| slowed(Bound::Address, most, wait))?;
        }
        let customer = self.customers.get(&(payer.clone(), tool.clone())).is_some_and(Customer::is_trusted);
        if customer || *funds == Funds::Credit {
            return Ok(customer);
        }
        if let (Some(most), Some(of_tool)) = (limits.of_tool, self.tools.get(tool)) {
            // An address that has failed, or may be about to, leaves half of the places to others.
            let is_clean = limits.of_address.is_none() || address.is_none_or(|address| address.is_clean(now));
            let places = if is_clean { most.get() } else { most.get().div_ceil(2) };
            of_tool.admit(places, now).map_err(|wait| slowed(Bound::Tool(tool.clone()), most, wait))?;
        }
        Ok(false)
    }

    fn begin(&mut self, limits: &FailedRuns, running: &Running, is_customer: bool, now: Now) {
        let Running { payer, tool, from, funds, .. } = running;
        make_room(&mut self.payers, payer, MAX_KEYS, |account| account.weight(now));
        let account = self.payers.entry(payer.clone()).or_insert_with(|| Account::new(limits.of_payer, *funds, now));
        account.begin(now);
        if let Some(from) = from.filter(|_| limits.of_address.is_some()) {
            make_room(&mut self.addresses, &from, MAX_KEYS, |account| account.weight(now));
            // What one of its payers pays with says nothing of the address.
            self.addresses.entry(from).or_insert_with(|| Account::new(limits.of_address, Funds::Balance, now)).begin(now);
        }
        if is_customer {
            if let Some(customer) = self.customers.get_mut(&(payer.clone(), tool.clone())) {
                customer.under_way += 1;
            }
        } else if running.counts_for_tool() {
            make_room(&mut self.tools, tool, MAX_KEYS, |tool| (tool.under_way, tool.failed.total(now.at)));
            self.tools.entry(tool.clone()).or_default().under_way += 1;
        }
    }

    /// A run is no longer under way.
    fn end(&mut self, running: &Running, is_customer: bool) {
        let Running { payer, tool, from, .. } = running;
        let accounts = [self.payers.get_mut(payer), from.and_then(|from| self.addresses.get_mut(&from))];
        accounts.into_iter().flatten().for_each(|account| account.under_way = account.under_way.saturating_sub(1));
        if is_customer {
            if let Some(customer) = self.customers.get_mut(&(payer.clone(), tool.clone())) {
                customer.under_way = customer.under_way.saturating_sub(1);
            }
        } else if let Some(tool) = self.tools.get_mut(tool).filter(|_| running.counts_for_tool()) {
            tool.under_way = tool.under_way.saturating_sub(1);
        }
    }

    fn failed(&mut self, running: &Running, is_customer: bool, now: Now) {
        let Running { payer, tool, from, .. } = running;
        let accounts = [self.payers.get_mut(payer), from.and_then(|from| self.addresses.get_mut(&from))];
        accounts.into_iter().flatten().for_each(|account| account.fail(running.price.0, now));
        self.untold.payer_failed(payer);
        if let Some(customer) = self.customers.get_mut(&(payer.clone(), tool.clone())) {
            customer.paid = customer.paid.saturating_sub(1);
        }
        if !is_customer && running.counts_for_tool() {
            self.tools.entry(tool.clone()).or_default().failed.add(1, now.at);
            self.untold.tool_failed(tool);
        }
    }

    fn paid(&mut self, running: &Running, now: Now) {
        let Running { payer, tool, from, .. } = running;
        let accounts = [self.payers.get_mut(payer), from.and_then(|from| self.addresses.get_mut(&from))];
        accounts.into_iter().flatten().for_each(|account| account.pay(running.price.0, now));
        if running.counts_for_tool() {
            let key = (payer.clone(), tool.clone());
            make_room(&mut self.customers, &key, MAX_CUSTOMERS, |customer| (customer.under_way, customer.last));
            let customer = self.customers.entry(key).or_default();
            if customer.pay(now) {
                self.unwritten.add(payer, tool);
            }
        }
    }
}

impl Running {
    /// What is paid with credit is bounded by who minted it: it counts neither for nor against other payers of a tool.
    fn counts_for_tool(&self) -> bool {
        self.funds != Funds::Credit
    }
}

impl Place {
    /// The run was paid for.
    pub(super) fn paid(mut self) {
        self.finish();
        self.throttle.accounts().paid(&self.running, self.throttle.now());
    }

    /// The run was not paid for.
    pub(super) fn failed(mut self, why: &'static str) {
        UNPAID_RUNS.count([why]);
        self.finish();
        self.throttle.accounts().failed(&self.running, self.is_customer, self.throttle.now());
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.throttle.accounts().end(&self.running, self.is_customer);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Makes room for a key among `most`: an eighth of the keys goes, those of least weight first.
fn make_room<K: Hash + Eq + Clone, V, W: Ord>(keys: &mut HashMap<K, V>, key: &K, most: usize, weight: impl Fn(&V) -> W) {
    if keys.len() < most || keys.contains_key(key) {
        return;
    }
    let mut weights: Vec<_> = keys.iter().map(|(key, value)| (weight(value), key.clone())).collect();
    let gone = (most / 8).max(1).min(weights.len());
    weights.select_nth_unstable_by(gone - 1, |(a, _), (b, _)| a.cmp(b));
    for (_, key) in weights.into_iter().take(gone) {
        keys.remove(&key);
    }
}
