//! Shares processor time among client addresses. Only an address that uses more than its share is slowed, and only while others need the
//! time.
//!
//! A request limit does not bound what requests cost: validating an input against a deliberately slow schema takes a thousand times as
//! long as a built-in handler. So each address owes the processor time spent for it, and the debt decays at the address's share of all
//! cores. An address that owes more than its share of a short burst waits for its turn, but only if others make requests and the machine
//! has no idle processor time. A single address may use everything.
//!
//! Cost is measured as thread CPU time, not wall time, so that waiting for a lock, a turn or the store is free. Work of a turn that runs
//! on another thread is counted by [`turn_for`], and work in another process by [`used`].

mod machine;

use std::{
    collections::HashMap,
    future::poll_fn,
    net::IpAddr,
    num::NonZeroU8,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep};

use self::machine::Machine;
use crate::lock::Lock;

/// Maximum time that an address waits for a turn before it is refused.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How much an address may owe and still get its turn at once: its share of this time.
const BURST: Duration = Duration::from_millis(500);

/// How long after its last turn an address counts as active.
const ACTIVE_FOR: Duration = Duration::from_secs(1);

/// Interval between two checks whether a turn can begin.
const CHECK_INTERVAL: std::ops::RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(100);

/// The processor time that each address owes.
#[derive(Debug)]
pub struct CpuShares {
    /// Processor seconds per second for each address. `None` means no limit.
    share: Option<f64>,
    machine: Machine,
    now: Lock<CpuState>,
}

#[derive(Debug, Default)]
struct CpuState {
    /// Accounts of addresses that owe something or have a turn.
    accounts: HashMap<IpAddr, CpuAccount>,
    /// The two addresses that most recently had a turn, the latest first.
    newest: [Option<(IpAddr, Instant)>; 2],
}

#[derive(Debug)]
struct CpuAccount {
    /// Processor seconds owed at the time `at`.
    owed: f64,
    at: Instant,
    turns: usize,
}

/// An address uses more than its share of the processor while others need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request used more CPU time than one address can use while others wait")]
pub struct OverCpuShare {
    /// Seconds until it may try again.
    pub seconds: u64,
}

impl CpuShares {
    /// Gives each address `percent` of the time of all cores. `None` means no limit.
    #[must_use]
    pub fn new(percent: Option<NonZeroU8>) -> Arc<Self> {
        Self::of(percent, Machine::new())
    }

    fn of(percent: Option<NonZeroU8>, machine: Machine) -> Arc<Self> {
        let share = percent.map(|percent| f64::from(percent.get()) / 100.0 * machine.cores());
        Arc::new(Self { share, machine, now: Lock::default() })
    }

    /// Waits for a turn of `address` for work that is expected to cost `expected`. The holder reports the real cost.
    ///
    /// # Errors
    ///
    /// [`OverCpuShare`] if the wait would be longer than two seconds.
    pub async fn turn(self: &Arc<Self>, address: IpAddr, expected: Duration) -> Result<CpuTurn, OverCpuShare> {
        let turn = |expected| CpuTurn { shares: Arc::clone(self), address, expected, spent: Arc::default() };
        let Some(share) = self.share else { return Ok(turn(0.0)) };
        let expected = expected.as_secs_f64();
        let until = Instant::now() + TIMEOUT;
        loop {
            let Some(wait) = self.take(share, address, expected, false) else { return Ok(turn(expected)) };
            if !self.is_contended(address) {
                self.take(share, address, expected, true);
                return Ok(turn(expected));
            }
            if Instant::now() + wait > until {
                return Err(OverCpuShare { seconds: wait.as_secs() + 1 });
            }
            sleep(wait.clamp(*CHECK_INTERVAL.start(), *CHECK_INTERVAL.end())).await;
        }
    }

    /// Takes a turn of `address` if it need not wait for one. No other address waits because of it.
    pub fn turn_now(self: &Arc<Self>, address: IpAddr) -> Option<CpuTurn> {
        if let Some(share) = self.share {
            let begins = |force| self.now.lock().take(share, address, 0.0, force, Instant::now()).is_none();
            if !begins(false) && (self.is_contended(address) || !begins(true)) {
                return None;
            }
        }
        Some(CpuTurn { shares: Arc::clone(self), address, expected: 0.0, spent: Arc::default() })
    }

    /// Takes a turn if the debt is small enough or `force` is set. Otherwise returns how long to wait. If nobody waits for the processor
    /// (`force`), the debt is reduced to a burst.
    fn take(&self, share: f64, address: IpAddr, expected: f64, force: bool) -> Option<Duration> {
        let (at, mut now) = (Instant::now(), self.now.lock());
        now.record_turn(address, at);
        now.take(share, address, expected, force, at)
    }

    /// Returns whether other addresses are active and no processor time is idle.
    fn is_contended(&self, address: IpAddr) -> bool {
        self.now.lock().is_contended_by_others(address) && self.machine.is_busy()
    }

    /// Ends a turn, replacing its `expected` cost with its real `cost`.
    fn end(&self, address: IpAddr, expected: f64, cost: f64) {
        let Some(share) = self.share else { return };
        let burst = BURST.as_secs_f64() * share;
        let is_costly = cost > burst;
        let contended = is_costly && self.is_contended(address);
        let (at, mut now) = (Instant::now(), self.now.lock());
        let Some(account) = now.accounts.get_mut(&address) else { return };
        let mut owed = (account.owed(share, at) + cost - expected).max(0.0);
        if is_costly && !contended {
            // Nobody had to wait for it.
            owed = owed.min(burst);
        }
        *account = CpuAccount { owed, at, turns: account.turns - 1 };
        if account.turns == 0 && owed <= 0.0 {
            now.accounts.remove(&address);
        }
    }

    /// Charges an address for processor time used outside of its turns, for example for the frames of its connections. If others need the
    /// time, the address's next turn waits for it, at most half as long as the maximum wait for a turn.
    pub fn spend(&self, address: IpAddr, time: Duration) {
        let Some(share) = self.share else { return };
        let contended = self.is_contended(address);
        let (at, mut now) = (Instant::now(), self.now.lock());
        let account = now.accounts.entry(address).or_insert(CpuAccount { owed: 0.0, at, turns: 0 });
        let before = account.owed(share, at);
        let max = if contended { BURST + TIMEOUT / 2 } else { BURST }.as_secs_f64() * share;
        account.owed = (before + time.as_secs_f64()).min(max).max(before);
        account.at = at;
    }

    /// Forgets addresses that owe nothing, so that memory use stays flat.
    pub fn prune_idle(&self) {
        let (share, at) = (self.share.unwrap_or_default(), Instant::now());
        self.now.lock().accounts.retain(|_, account| account.turns > 0 || account.owed(share, at) > 0.0);
    }
}

impl CpuState {
    /// See [`CpuShares::take`].
    fn take(&mut self, share: f64, address: IpAddr, expected: f64, force: bool, at: Instant) -> Option<Duration> {
        let burst = BURST.as_secs_f64() * share;
        let mut owed = self.accounts.get(&address).map_or(0.0, |account| account.owed(share, at));
        // Work that costs more than a whole burst gets its turn once nothing is owed.
        let too_much = owed.min(owed + expected - burst);
        if too_much > 0.0 {
            if !force {
                return Some(Duration::from_secs_f64(too_much / share));
            }
            owed = owed.min(burst);
        }
        let account = self.accounts.entry(address).or_insert(CpuAccount { owed, at, turns: 0 });
        *account = CpuAccount { owed: owed + expected, at, turns: account.turns + 1 };
        None
    }

    fn record_turn(&mut self, address: IpAddr, at: Instant) {
        if self.newest[0].is_none_or(|(newest, _)| newest != address) {
            self.newest.swap(0, 1);
        }
        self.newest[0] = Some((address, at));
    }

    fn is_contended_by_others(&self, address: IpAddr) -> bool {
        self.newest.iter().flatten().any(|(request, at)| *request != address && at.elapsed() < ACTIVE_FOR)
    }
}

impl CpuAccount {
    fn owed(&self, share: f64, at: Instant) -> f64 {
        (self.owed - share * at.saturating_duration_since(self.at).as_secs_f64()).max(0.0)
    }
}

/// A moving average of an operation's cost. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct UsualCost(Arc<AtomicU64>);

impl UsualCost {
    /// Returns the average, or zero if there is none yet.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }

    /// Adds a measured cost. One of two concurrent calls may be lost.
    pub fn add(&self, cost: Duration) {
        let (before, cost) = (self.0.load(Relaxed), u64::try_from(cost.as_micros()).unwrap_or(u64::MAX));
        self.0.store(before - before / 8 + cost / 8, Relaxed);
    }
}

/// A turn of an address. Dropping it ends it.
#[derive(Debug)]
pub struct CpuTurn {
    shares: Arc<CpuShares>,
    address: IpAddr,
    /// In seconds.
    expected: f64,
    spent: CpuTime,
}

/// Processor time in nanoseconds.
type CpuTime = Arc<AtomicU64>;

tokio::task_local! {
    /// The time spent in the current turn.
    static IN_TURN: CpuTime;
}

/// Adds processor time of another process to the current turn, if there is one.
pub fn used(time: Duration) {
    _ = IN_TURN.try_with(|spent| add(spent, time));
}

/// Wraps work that runs on another thread, so that its processor time counts toward the current turn, if there is one.
pub fn turn_for<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let spent = IN_TURN.try_with(Arc::clone).ok();
    move || match spent {
        Some(spent) => measured(&spent, work),
        None => work(),
    }
}

/// Runs `work`, which must not wait, and adds its processor time.
fn measured<T>(spent: &CpuTime, work: impl FnOnce() -> T) -> T {
    let started = thread_time();
    let result = work();
    add(spent, thread_time().saturating_sub(started));
    result
}

fn add(spent: &CpuTime, time: Duration) {
    spent.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
}

/// Returns the processor time that this thread has used.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

impl CpuTurn {
    /// Adds processor time to the turn.
    pub fn spent(&self, time: Duration) {
        add(&self.spent, time);
    }

    /// Returns a meter for work that can outlast the turn.
    pub fn meter(&self) -> TurnMeter {
        TurnMeter { shares: Arc::clone(&self.shares), address: self.address, turn: Arc::downgrade(&self.spent) }
    }

    /// Returns the address whose turn it is.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the processor time counted in the turn so far.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// Runs `work`, which must not wait, in this turn.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        measured(&self.spent, work)
    }

    /// Awaits `work` in this turn. Computing counts, waiting does not.
    pub async fn during<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let counted = poll_fn(|context| measured(&self.spent, || work.as_mut().poll(context)));
        IN_TURN.scope(Arc::clone(&self.spent), counted).await
    }
}

impl Drop for CpuTurn {
    fn drop(&mut self) {
        self.shares.end(self.address, self.expected, self.total().as_secs_f64());
    }
}

/// Adds processor time to a turn, and after its end to the account of its address.
#[derive(Debug, Clone)]
pub struct TurnMeter {
    shares: Arc<CpuShares>,
    address: IpAddr,
    turn: Weak<AtomicU64>,
}

impl TurnMeter {
    /// Adds processor time.
    pub fn spent(&self, time: Duration) {
        match self.turn.upgrade() {
            Some(turn) => add(&turn, time),
            None => self.shares.spend(self.address, time),
        }
    }
}

#[cfg(test)]
mod tests;
