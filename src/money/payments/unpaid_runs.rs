//! Limits on unpaid runs, per payer, per caller's address and per tool.
//!
//! A run takes a [`RunPermit`] before its handler starts, so that runs in flight count like failed ones. A place ends in
//! one of three ways: the run is paid for, which forgives one earlier failure of at most that price; the run is not
//! paid for, which counts for a minute; or there was no run, which counts nothing. A failure counts whoever is to blame,
//! the tool too, because the host cannot tell whether a caller made the tool fail. However many runs are forgiven, there
//! are at most twice as many unpaid runs in a minute as the limit. If a facilitator that fails for everybody did not serve
//! the settlement, the run is excused, but only so often an hour.
//!
//! A payer who pays can have more runs in flight, and more of them unpaid: ten paid runs allow one more of at most their
//! mean price, at the tools of the same owner. Each unpaid run removes one of these. So nobody gains unpaid runs at other
//! owners' tools by paying for their own.
//!
//! A caller can cancel a run only while fewer runs than the limit are unpaid, however many are in flight. Other canceled
//! runs go on, and are charged if they succeed.
//!
//! A tool's limit applies to payers who have not paid for that tool recently. So payers with fresh addresses cannot run
//! a tool endlessly, and they do not shut out anyone who has paid. Half of the limit is reserved for addresses without
//! unpaid runs, in IPv6 networks (/48) without unpaid runs: such a network costs little and has 65,536 addresses of a
//! caller. Runs on credit have a limit of their own, of the same size, because anyone can make fresh addresses. More of
//! them can be in flight, because their price is held.
//!
//! Hosts of one store tell each other of failures a moment later, and of runs in flight never. So a host counts what it
//! has begun recently once for each host, unless the payer has paid here often enough to cover it.

mod account;
mod customers;
mod earned;
mod permit;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::time::Instant;
use tollhouse_base::lock::Lock;
use tollhouse_tool::{MicroUsd, Slug};

use self::{
    account::{Customer, RunAccount, SOON, ThrottleTime, ToolAccount, WINDOW},
    earned::{Allowance, Earned},
};
pub(super) use self::{
    account::{KnownFunds, Standing},
    permit::RunPermit,
};
use super::{
    run_limits::{RunLimit, RunLimitReached},
    sliding_window::SlidingWindow,
    unsent::UnsentCounts,
};
use crate::{CallTerms, FailedRuns};

/// Maximum number of concurrent runs of a payer whose balance is unknown, before its first paid run.
const MAX_UNPROVEN_AT_ONCE: u32 = 8;

/// Maximum number of payers, of addresses, of networks and of tools that are remembered. Beyond it, those that failed
/// least are forgotten.
const MAX_KEYS: usize = 16_384;

/// Maximum number of remembered histories of a payer with a tool, and of a payer or an address with an owner.
const MAX_CUSTOMERS: usize = 65_536;

/// Customers that are not in the store yet, at most [`MAX_KEYS`].
#[derive(Debug, Default)]
struct Unwritten(HashSet<String>);

/// A run: its payer, its tool and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunParties {
    /// An address of a network, or the id of a credit.
    pub(super) payer: String,
    pub(super) tool: Slug,
    pub(super) price: MicroUsd,
    /// The tool's owner, by its share name.
    pub(super) builder: String,
    /// The caller's IPv4 address, or the first address of its IPv6 /64.
    pub(super) from: Option<IpAddr>,
    pub(super) funds: KnownFunds,
    pub(super) standing: Standing,
}

/// Runs of a tool that share a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ToolKey {
    tool: Slug,
    on_credit: bool,
}

/// A party whose runs are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Party {
    Payer(String),
    Address(IpAddr),
}

/// A kind of party whose failures hosts share.
#[derive(Clone, Copy)]
enum PartyKind {
    Payers,
    Addresses,
    Tools,
}

/// The accounts of a run's payer and of its address, if they exist.
type PartyAccounts<'a> = [Option<(Party, &'a mut RunAccount)>; 2];

/// A party, and the owner whose tools it has paid for.
type EarnedKey = (Party, String);

#[derive(Debug, Default)]
struct Accounts {
    payers: HashMap<String, RunAccount>,
    addresses: HashMap<IpAddr, RunAccount>,
    /// By the first address of an IPv6 /48. These accounts have no limit.
    networks: HashMap<Ipv6Addr, RunAccount>,
    tools: HashMap<ToolKey, ToolAccount>,
    customers: HashMap<(String, Slug), Customer>,
    earned: HashMap<EarnedKey, Earned>,
    /// Failures to send to other hosts, by the kind of party.
    unsent: [UnsentCounts; 3],
    unwritten: Unwritten,
}

#[derive(Debug)]
pub(super) struct UnpaidRunLimiter {
    limits: FailedRuns,
    /// Number of hosts that serve the store, including this one.
    hosts: Arc<AtomicU32>,
    started: Instant,
    accounts: Lock<Accounts>,
}

impl UnpaidRunLimiter {
    /// Creates a limiter that divides the limits among the current number of hosts.
    pub(super) fn new(limits: FailedRuns, hosts: Arc<AtomicU32>) -> Arc<Self> {
        Arc::new(Self { limits, hosts, started: Instant::now(), accounts: Lock::default() })
    }

    fn hosts(&self) -> NonZeroU32 {
        NonZeroU32::new(self.hosts.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns whether a run may begin now. Takes no slot, because the payer is not verified yet.
    pub(super) fn check(&self, running: &RunParties) -> Result<(), RunLimitReached> {
        self.accounts.lock().admit(&self.limits, running, self.hosts(), self.now()).map(drop)
    }

    /// Corrects the count of a run that was found to be paid after it ended.
    pub(super) fn settled_afterwards(&self, running: &RunParties) {
        let (mut accounts, now) = (self.accounts.lock(), self.now());
        accounts.of(running).for_each(|account| account.paid_late(now));
        accounts.paid(running, now);
    }

    /// Removes one failure of a run that was not its payer's fault, if its payer, its address and its tool have an excuse
    /// left.
    pub(super) fn excuse(&self, running: &RunParties) {
        let (mut accounts, now) = (self.accounts.lock(), self.now());
        if !accounts.take_excuse(&self.limits, running, now) {
            return;
        }
        accounts.of(running).for_each(|account| account.excuse(now));
        if let Some(tool) = accounts.tools.get_mut(&running.tool_key()) {
            tool.excuse(now);
        }
    }

    /// Returns the number of unpaid runs of all payers in the last minute, including forgiven ones, for which nobody
    /// paid either.
    pub(super) fn unpaid(&self) -> u64 {
        let now = self.now();
        self.accounts.lock().payers.values().map(|account| account.unpaid(now)).sum()
    }

    /// Forgets inactive parties, to bound memory.
    pub(super) fn prune_idle(&self) {
        let now = self.now();
        let Accounts { payers, addresses, networks, tools, customers, earned, .. } = &mut *self.accounts.lock();
        payers.retain(|_, account| !account.is_quiet(now));
        addresses.retain(|_, account| !account.is_quiet(now));
        networks.retain(|_, account| !account.is_quiet(now));
        tools.retain(|_, tool| !tool.is_quiet(now));
        customers.retain(|_, customer| !customer.is_quiet(now));
        earned.retain(|_, earned| !earned.is_quiet(now.elapsed));
    }

    fn now(&self) -> ThrottleTime {
        ThrottleTime::new(self.started.elapsed())
    }
}

impl Accounts {
    /// Returns the accounts of a run's payer, address and network.
    fn of(&mut self, running: &RunParties) -> impl Iterator<Item = &mut RunAccount> {
        let address = running.from.and_then(|from| self.addresses.get_mut(&from));
        let network = running.network().and_then(|network| self.networks.get_mut(&network));
        [self.payers.get_mut(&running.payer), address, network].into_iter().flatten()
    }

    fn network_of(&mut self, running: &RunParties) -> Option<&mut RunAccount> {
        running.network().and_then(|network| self.networks.get_mut(&network))
    }

    /// Returns the accounts of the payer and the address with their parties, and what all parties have earned.
    fn with_earned(&mut self, running: &RunParties) -> (PartyAccounts<'_>, &mut HashMap<EarnedKey, Earned>) {
        let Self { payers, addresses, earned, .. } = self;
        let payer = payers.get_mut(&running.payer).map(|account| (Party::Payer(running.payer.clone()), account));
        let address = running.from.and_then(|from| addresses.get_mut(&from).map(|account| (Party::Address(from), account)));
        ([payer, address], earned)
    }

    /// Returns what a party is allowed beyond the limit of its account, for this run.
    fn allowance(&self, party: Party, account: &RunAccount, running: &RunParties) -> Allowance {
        let funds = party.funds(running);
        let earned = self.earned.get(&(party, running.builder.clone())).copied().unwrap_or_default();
        account.allowance(earned.allowance(running.price.0), funds)
    }

    /// Returns whether a run may begin. The result is true if its payer has paid for the tool.
    fn admit(&self, limits: &FailedRuns, running: &RunParties, hosts: NonZeroU32, now: ThrottleTime) -> Result<bool, RunLimitReached> {
        let RunParties { payer, tool, from, funds, .. } = running;
        let slowed = |bound, max, wait| RunLimitReached { bound, max, window: WINDOW, wait };
        let account = self.payers.get(payer).copied().unwrap_or_else(|| RunAccount::new(limits.of_payer, now));
        if let Some(max) = limits.of_payer {
            let allowance = self.allowance(Party::Payer(payer.clone()), &account, running);
            account.admit(max, allowance, hosts, now).map_err(|wait| slowed(RunLimit::Payer, max, wait))?;
            if *funds == KnownFunds::Unknown && !account.has_paid && account.in_flight >= MAX_UNPROVEN_AT_ONCE {
                let max = NonZeroU32::new(MAX_UNPROVEN_AT_ONCE).unwrap_or(max);
                return Err(slowed(RunLimit::Unproven, max, SOON));
            }
        }
        let address = from.and_then(|from| self.addresses.get(&from));
        if let (Some(max), Some(from), Some(address)) = (limits.of_address, *from, address) {
            let allowance = self.allowance(Party::Address(from), address, running);
            address.admit(max, allowance, hosts, now).map_err(|wait| slowed(RunLimit::Address, max, wait))?;
        }
        if self.customers.get(&(payer.clone(), tool.clone())).is_some_and(Customer::is_trusted) {
            return Ok(true);
        }
        if let (Some(max), Some(of_tool)) = (limits.of_tool, self.tools.get(&running.tool_key())) {
            // An address or network with failed runs, or with runs that may fail, leaves half of the slots to others.
            let network = running.network().and_then(|network| self.networks.get(&network));
            let is_clean = limits.of_address.is_none() || [address, network].into_iter().flatten().all(|account| account.is_clean(now));
            let positions = if is_clean { max.get() } else { max.get().div_ceil(2) };
            of_tool
                .admit(positions, *funds == KnownFunds::Credit, hosts, now)
                .map_err(|wait| slowed(RunLimit::Tool(tool.clone()), max, wait))?;
        }
        Ok(false)
    }

    fn begin(&mut self, limits: &FailedRuns, running: &RunParties, is_customer: bool, now: ThrottleTime) {
        let RunParties { payer, tool, from, .. } = running;
        self.of_payer(payer, limits, now).begin(now);
        if let Some(from) = from.filter(|_| limits.of_address.is_some()) {
            self.of_address(from, limits, now).begin(now);
            if let Some(network) = network(from) {
                self.of_network(network, now).begin(now);
            }
        }
        if is_customer {
            if let Some(customer) = self.customers.get_mut(&(payer.clone(), tool.clone())) {
                customer.in_flight += 1;
            }
        } else {
            self.of_tool(running.tool_key(), now).in_flight += 1;
        }
    }

    fn of_payer(&mut self, payer: &str, limits: &FailedRuns, now: ThrottleTime) -> &mut RunAccount {
        let payer = payer.to_owned();
        evict(&mut self.payers, &payer, MAX_KEYS, |account| account.weight(now));
        self.payers.entry(payer).or_insert_with(|| RunAccount::new(limits.of_payer, now))
    }

    fn of_address(&mut self, from: IpAddr, limits: &FailedRuns, now: ThrottleTime) -> &mut RunAccount {
        evict(&mut self.addresses, &from, MAX_KEYS, |account| account.weight(now));
        self.addresses.entry(from).or_insert_with(|| RunAccount::new(limits.of_address, now))
    }

    fn of_network(&mut self, network: Ipv6Addr, now: ThrottleTime) -> &mut RunAccount {
        evict(&mut self.networks, &network, MAX_KEYS, |account| account.weight(now));
        self.networks.entry(network).or_insert_with(|| RunAccount::new(None, now))
    }

    fn of_tool(&mut self, key: ToolKey, now: ThrottleTime) -> &mut ToolAccount {
        evict(&mut self.tools, &key, MAX_KEYS, |tool| tool.weight(now));
        self.tools.entry(key).or_default()
    }

    fn end(&mut self, running: &RunParties, is_customer: bool) {
        self.of(running).for_each(|account| account.in_flight = account.in_flight.saturating_sub(1));
        if is_customer {
            if let Some(customer) = self.customers.get_mut(&(running.payer.clone(), running.tool.clone())) {
                customer.in_flight = customer.in_flight.saturating_sub(1);
            }
        } else if let Some(tool) = self.tools.get_mut(&running.tool_key()) {
            tool.in_flight = tool.in_flight.saturating_sub(1);
        }
    }

    /// Takes an excuse of the payer, the address and the tool of a run. Each has as many in an hour as it may have unpaid
    /// runs in a minute. Returns false if one of them has none left.
    fn take_excuse(&mut self, limits: &FailedRuns, running: &RunParties, now: ThrottleTime) -> bool {
        let RunParties { payer, from, .. } = running;
        let mut excuses = [
            self.payers.get_mut(payer).map(|account| (&mut account.excused, limits.of_payer)),
            from.and_then(|from| self.addresses.get_mut(&from)).map(|account| (&mut account.excused, limits.of_address)),
            self.tools.get_mut(&running.tool_key()).map(|tool| (&mut tool.excused, limits.of_tool)),
        ];
        let has_left = |(excused, max): &(&mut SlidingWindow, Option<NonZeroU32>)| {
            max.is_none_or(|max| excused.total(now.hour()) < u64::from(max.get()))
        };
        let may = excuses.iter().flatten().all(has_left);
        if may {
            excuses.iter_mut().flatten().for_each(|(excused, _)| excused.add(1, now.hour()));
        }
        may
    }

    /// Counts a run as unpaid if its payer, and the tool for new payers, may have one more unpaid run. Otherwise returns
    /// false.
    fn cancel(&mut self, limits: &FailedRuns, running: &RunParties, is_customer: bool, hosts: NonZeroU32, now: ThrottleTime) -> bool {
        let (payer, tool) = (self.payers.get(&running.payer), self.tools.get(&running.tool_key()).filter(|_| !is_customer));
        let may = limits.of_payer.is_none_or(|max| payer.is_none_or(|payer| payer.may_fail(max, hosts, now)))
            && limits.of_tool.is_none_or(|max| tool.is_none_or(|tool| tool.may_fail(max, hosts, now)));
        if may {
            self.failed(running, is_customer, now);
        }
        may
    }

    fn failed(&mut self, running: &RunParties, is_customer: bool, now: ThrottleTime) {
        let RunParties { payer, tool, from, price, builder, .. } = running;
        let (parties, earned) = self.with_earned(running);
        for (party, account) in parties.into_iter().flatten() {
            account.fail(price.0, now);
            let on_credit = party.funds(running) == KnownFunds::Credit;
            let is_covered = earned.get_mut(&(party, builder.clone())).is_some_and(|earned| earned.fail(price.0));
            if on_credit && !is_covered {
                account.credit_runs = account.credit_runs.saturating_sub(1);
            }
        }
        if let Some(network) = self.network_of(running) {
            network.fail(price.0, now);
        }
        self.unsent[PartyKind::Payers as usize].add(payer, 1, false);
        if let Some(from) = from {
            self.unsent[PartyKind::Addresses as usize].add(&from.to_string(), 1, false);
        }
        if let Some(customer) = self.customers.get_mut(&(payer.clone(), tool.clone())) {
            customer.paid = customer.paid.saturating_sub(1);
        }
        if !is_customer {
            let key = running.tool_key();
            self.unsent[PartyKind::Tools as usize].add(&key.shared_name(), 1, false);
            self.tools.entry(key).or_default().fail(now);
        }
    }

    fn paid(&mut self, running: &RunParties, now: ThrottleTime) {
        let RunParties { payer, tool, price, builder, funds, .. } = running;
        let (parties, earned) = self.with_earned(running);
        for (party, account) in parties.into_iter().flatten() {
            let (adds, key) = (account.pay(price.0, now), (party, builder.clone()));
            evict(earned, &key, MAX_CUSTOMERS, |earned| earned.last);
            earned.entry(key).or_default().pay(price.0, adds, account.max_more, now.elapsed);
        }
        if let Some(network) = self.network_of(running) {
            network.pay(price.0, now);
        }
        let key = (payer.clone(), tool.clone());
        evict(&mut self.customers, &key, MAX_CUSTOMERS, |customer| (customer.in_flight, customer.last));
        // The store records customers for the limits on gas, which credit does not use.
        if self.customers.entry(key).or_insert_with(|| Customer::new(now)).pay(now) && *funds != KnownFunds::Credit {
            self.unwritten.add(payer, tool);
        }
    }
}

impl Party {
    /// Returns the funds that count for this party of a run. A payer's means of payment does not matter for its address.
    fn funds(&self, running: &RunParties) -> KnownFunds {
        match self {
            Self::Payer(_) => running.funds,
            Self::Address(_) => KnownFunds::Balance,
        }
    }
}

impl RunParties {
    /// Returns the parties of a new payer's call under `terms`.
    pub(super) fn new(payer: String, terms: &CallTerms, from: Option<IpAddr>, funds: KnownFunds) -> Self {
        let (tool, price, builder) = (terms.slug.clone(), terms.price, terms.owner.share().to_owned());
        Self { payer, tool, price, builder, from, funds, standing: Standing::New }
    }

    fn network(&self) -> Option<Ipv6Addr> {
        self.from.and_then(network)
    }

    fn tool_key(&self) -> ToolKey {
        ToolKey { tool: self.tool.clone(), on_credit: self.funds == KnownFunds::Credit }
    }
}

/// Returns the first address of the IPv6 /48 of an address.
fn network(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 80))),
    }
}

/// Makes room for a key if there are `most`: removes an eighth of the keys, those of least weight first.
fn evict<K: Hash + Eq + Clone, V, W: Ord>(keys: &mut HashMap<K, V>, key: &K, max: usize, weight: impl Fn(&V) -> W) {
    if keys.len() < max || keys.contains_key(key) {
        return;
    }
    let mut weights: Vec<_> = keys.iter().map(|(key, value)| (weight(value), key.clone())).collect();
    let removed = (max / 8).max(1).min(weights.len());
    weights.select_nth_unstable_by(removed - 1, |(a, _), (b, _)| a.cmp(b));
    for (_, key) in weights.into_iter().take(removed) {
        keys.remove(&key);
    }
}
