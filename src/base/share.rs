//! What one address may use of the processor while others want it: whoever uses more is slowed, and nobody else.
//!
//! A limit of requests does not bound what they cost: a check of an input by a schema that somebody wrote to be slow takes
//! a thousand times what a built-in handler takes. So each address owes what is spent for it, and what is owed lapses at the
//! address's share of all cores. Who owes more than a moment's share waits for a turn, but only where that helps somebody:
//! while others ask, and the machine has no processor time left over. A lone address may use everything.
//!
//! What is spent is measured as the time that threads ran for it, not as the time that went by: whoever waits, for a lock, a turn or the
//! store, owes nothing for that. Work of a turn that is done on another thread counts by [`for_turn`], and in another process by [`used`].

mod machine;

use std::{
    collections::HashMap,
    future::poll_fn,
    net::IpAddr,
    num::NonZeroU8,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep};

use self::machine::Machine;

/// How long a turn is waited for before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an address may owe and still have its turn at once: its share of so much time.
const BURST: Duration = Duration::from_millis(500);

/// For so long after its last turn an address counts as one that asks.
const ASKING: Duration = Duration::from_secs(1);

/// Between two looks at whether a turn has come.
const LOOKS: std::ops::RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(100);

/// What addresses owe.
#[derive(Debug)]
pub struct Shares {
    /// Seconds of processor time in a second. `None` is no limit.
    share: Option<f64>,
    machine: Machine,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// Of those alone that owe something, or have a turn.
    accounts: HashMap<IpAddr, Account>,
    /// The two addresses that had a turn last, the last one first.
    newest: [Option<(IpAddr, Instant)>; 2],
}

#[derive(Debug)]
struct Account {
    /// Seconds of processor time that were owed `at` this moment.
    owed: f64,
    at: Instant,
    turns: usize,
}

/// An address uses more of the processor than its share, and others want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what you asked for used more processor time than one address may while others wait for it")]
pub struct OverShare {
    /// Until it may ask again.
    pub seconds: u64,
}

impl Shares {
    /// `percent` of the time of all cores for each address; `None` is no limit.
    #[must_use]
    pub fn new(percent: Option<NonZeroU8>) -> Arc<Self> {
        Self::of(percent, Machine::new())
    }

    fn of(percent: Option<NonZeroU8>, machine: Machine) -> Arc<Self> {
        let share = percent.map(|percent| f64::from(percent.get()) / 100.0 * machine.cores());
        Arc::new(Self { share, machine, now: Mutex::default() })
    }

    /// A turn for `address` of what is expected to cost about `expected`: at once, or when it has waited as long as it must.
    /// Whoever has it says what it really cost.
    ///
    /// # Errors
    ///
    /// [`OverShare`] where that is longer than two seconds.
    pub async fn turn(self: &Arc<Self>, address: IpAddr, expected: Duration) -> Result<Turn, OverShare> {
        let turn = |expected| Turn { shares: Arc::clone(self), address, expected, spent: Arc::default() };
        let Some(share) = self.share else { return Ok(turn(0.0)) };
        let expected = expected.as_secs_f64();
        let until = Instant::now() + PATIENCE;
        loop {
            let Some(wait) = self.take(share, address, expected, false) else { return Ok(turn(expected)) };
            if !self.is_contended(address) {
                self.take(share, address, expected, true);
                return Ok(turn(expected));
            }
            if Instant::now() + wait > until {
                return Err(OverShare { seconds: wait.as_secs() + 1 });
            }
            sleep(wait.clamp(*LOOKS.start(), *LOOKS.end())).await;
        }
    }

    /// Takes a turn, whatever is owed or if that is not too much: else how long it takes until it is not.
    fn take(&self, share: f64, address: IpAddr, expected: f64, whatever: bool) -> Option<Duration> {
        let (at, mut now) = (Instant::now(), self.now());
        now.asks(address, at);
        let owed = now.accounts.get(&address).map_or(0.0, |account| account.owed(share, at));
        // What costs more than the burst by itself has its turn when nothing is owed.
        let too_much = owed.min(owed + expected - BURST.as_secs_f64() * share);
        if too_much > 0.0 && !whatever {
            return Some(Duration::from_secs_f64(too_much / share));
        }
        let account = now.accounts.entry(address).or_insert(Account { owed, at, turns: 0 });
        *account = Account { owed: owed + expected, at, turns: account.turns + 1 };
        None
    }

    /// Whether others ask, and there is no processor time left over.
    fn is_contended(&self, address: IpAddr) -> bool {
        self.now().others_ask(address) && self.machine.is_busy()
    }

    /// Ends a turn that was expected to cost one time and cost another.
    fn end(&self, address: IpAddr, expected: f64, cost: f64) {
        let Some(share) = self.share else { return };
        let burst = BURST.as_secs_f64() * share;
        let is_dear = cost > burst;
        let contended = is_dear && self.is_contended(address);
        let (at, mut now) = (Instant::now(), self.now());
        let Some(account) = now.accounts.get_mut(&address) else { return };
        let mut owed = (account.owed(share, at) + cost - expected).max(0.0);
        if is_dear && !contended {
            // Nobody went short for it.
            owed = owed.min(burst);
        }
        *account = Account { owed, at, turns: account.turns - 1 };
        if account.turns == 0 && owed <= 0.0 {
            now.accounts.remove(&address);
        }
    }

    /// Charges an address for processor time that it used outside of its turns, such as for the frames of its connections.
    /// Its next turn waits for that where others want the time, half as long at most as a turn is waited for.
    pub fn spend(&self, address: IpAddr, time: Duration) {
        let Some(share) = self.share else { return };
        let contended = self.is_contended(address);
        let (at, mut now) = (Instant::now(), self.now());
        let account = now.accounts.entry(address).or_insert(Account { owed: 0.0, at, turns: 0 });
        let before = account.owed(share, at);
        let most = if contended { BURST + PATIENCE / 2 } else { BURST }.as_secs_f64() * share;
        account.owed = (before + time.as_secs_f64()).min(most).max(before);
        account.at = at;
    }

    /// Forgets addresses that owe nothing any more, so that memory stays flat.
    pub fn forget_quiet(&self) {
        let (share, at) = (self.share.unwrap_or_default(), Instant::now());
        self.now().accounts.retain(|_, account| account.turns > 0 || account.owed(share, at) > 0.0);
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    fn asks(&mut self, address: IpAddr, at: Instant) {
        if self.newest[0].is_none_or(|(newest, _)| newest != address) {
            self.newest.swap(0, 1);
        }
        self.newest[0] = Some((address, at));
    }

    fn others_ask(&self, address: IpAddr) -> bool {
        self.newest.iter().flatten().any(|(asked, at)| *asked != address && at.elapsed() < ASKING)
    }
}

impl Account {
    fn owed(&self, share: f64, at: Instant) -> f64 {
        (self.owed - share * at.saturating_duration_since(self.at).as_secs_f64()).max(0.0)
    }
}

/// What something costs each time, on average of late. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct UsualCost(Arc<AtomicU64>);

impl UsualCost {
    /// Nothing, where it is not known yet.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Relaxed))
    }

    /// It cost so much this time. One of two that are told at once may be lost.
    pub fn add(&self, cost: Duration) {
        let (before, cost) = (self.0.load(Relaxed), u64::try_from(cost.as_micros()).unwrap_or(u64::MAX));
        self.0.store(before - before / 8 + cost / 8, Relaxed);
    }
}

/// A turn of an address, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    shares: Arc<Shares>,
    address: IpAddr,
    /// Seconds.
    expected: f64,
    spent: Spent,
}

/// Nanoseconds of processor time.
type Spent = Arc<AtomicU64>;

tokio::task_local! {
    /// Of the turn that this is done in.
    static IN_TURN: Spent;
}

/// Counts so much processor time, of another process, as spent in the turn that this is done in, if it is done in one.
pub fn used(time: Duration) {
    _ = IN_TURN.try_with(|spent| add(spent, time));
}

/// Has work that is done on another thread count as spent in the turn that this is called in, if it is called in one.
pub fn for_turn<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let spent = IN_TURN.try_with(Arc::clone).ok();
    move || match spent {
        Some(spent) => measured(&spent, work),
        None => work(),
    }
}

/// Does `work` that waits for nothing, and adds the processor time that it took.
fn measured<T>(spent: &Spent, work: impl FnOnce() -> T) -> T {
    let began = thread_time();
    let made = work();
    add(spent, thread_time().saturating_sub(began));
    made
}

fn add(spent: &Spent, time: Duration) {
    spent.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
}

/// Processor time that this thread has used.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

impl Turn {
    /// So much processor time was spent in it, beside what was said before.
    pub fn spent(&self, time: Duration) {
        add(&self.spent, time);
    }

    /// Whose it is.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What was said to be spent in it so far.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// Does `work` that waits for nothing, in this turn.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        measured(&self.spent, work)
    }

    /// Awaits `work` in this turn: it counts while it computes, and not while it waits.
    pub async fn during<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let counted = poll_fn(|context| measured(&self.spent, || work.as_mut().poll(context)));
        IN_TURN.scope(Arc::clone(&self.spent), counted).await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shares.end(self.address, self.expected, self.total().as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
