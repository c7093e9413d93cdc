//! Limits concurrent settlements at a facilitator. It starts with one and adapts: fewer at once, and each for longer,
//! while the facilitator fails concurrent ones. For example, a facilitator with one signer may give two transactions
//! the same nonce.

use std::{pin::pin, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};
use tollhouse_base::lock::Lock;

/// Maximum number of concurrent settlements.
const MAX: usize = 256;
/// How long a settlement occupies its slot. After that it waits for the chain, where concurrent ones do not interfere.
const SENDING: Duration = Duration::from_millis(250);
/// Maximum time that a busy facilitator gets to send a settlement alone.
const MAX_SENDING: Duration = Duration::from_secs(8);
/// Successes in a row needed to grow after a failure.
const ENOUGH: u32 = 8;

/// An adaptive concurrency limit. It doubles after each success until the first failure. From then on it halves after
/// each failure, and doubles after [`ENOUGH`] successes in a row. If even a single settlement fails, its slot time
/// doubles instead.
#[derive(Debug)]
pub(super) struct ConcurrencyWindow {
    seats: Semaphore,
    size: Lock<Size>,
}

#[derive(Debug)]
struct Size {
    seats: usize,
    /// Successes since the last failure or growth.
    in_a_row: u32,
    /// Successes in a row needed to grow.
    enough: u32,
    /// Number of slots to remove when their holders release them.
    owed: usize,
    /// Maximum time for which a settlement holds its slot.
    sending: Duration,
}

impl ConcurrencyWindow {
    pub(super) fn new() -> Self {
        Self { seats: Semaphore::new(1), size: Lock::new(Size { seats: 1, in_a_row: 0, enough: 1, owed: 0, sending: SENDING }) }
    }

    /// Runs `request` once there is a slot, or at `until` without one. Returns the answer and the time spent waiting
    /// for the slot.
    pub(super) async fn run<T>(&self, until: Instant, request: impl Future<Output = T>) -> (T, Duration) {
        let received = Instant::now();
        let seat = timeout_at(until, self.seats.acquire()).await;
        let waited = received.elapsed();
        let mut request = pin!(request);
        let answered = timeout(self.with(|size| size.sending), &mut request).await;
        if let Ok(Ok(seat)) = seat {
            match self.with(Size::pay) {
                true => seat.forget(),
                false => drop(seat),
            }
        }
        let answer = match answered {
            Ok(answer) => answer,
            Err(_) => request.await,
        };
        (answer, waited)
    }

    pub(super) fn failed(&self) {
        self.with(|size| {
            if size.seats == 1 {
                size.sending = MAX_SENDING.min(2 * size.sending);
            }
            let fewer = size.seats / 2;
            size.seats -= fewer;
            (size.in_a_row, size.enough) = (0, ENOUGH);
            size.owed += fewer - self.seats.forget_permits(fewer);
        });
    }

    pub(super) fn succeeded(&self) {
        self.with(|size| {
            size.in_a_row += 1;
            if size.in_a_row == size.enough {
                let more = size.seats.min(MAX - size.seats);
                let paid = more.min(size.owed);
                self.seats.add_permits(more - paid);
                (size.seats, size.in_a_row, size.owed) = (size.seats + more, 0, size.owed - paid);
                size.sending = SENDING.max(size.sending / 2);
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Size) -> T) -> T {
        change(&mut self.size.lock())
    }
}

impl Size {
    /// Returns true if a slot must be removed and this one is taken for it.
    fn pay(&mut self) -> bool {
        let owes = self.owed > 0;
        self.owed -= usize::from(owes);
        owes
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{Arc, Mutex},
    };

    use futures_util::{FutureExt as _, future::join_all};
    use tokio::task::{JoinHandle, unconstrained, yield_now};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    /// Returns how many of `many` questions run at once.
    async fn at_once(window: &Arc<ConcurrencyWindow>, many: usize) -> usize {
        let request = Arc::new(Mutex::new(0));
        let running: Vec<_> = (0..many)
            .map(|_| {
                let (window, request) = (Arc::clone(window), Arc::clone(&request));
                tokio::spawn(async move {
                    window
                        .run(soon(), async {
                            *request.lock().unwrap() += 1;
                            pending::<()>().await
                        })
                        .await;
                })
            })
            .collect();
        for _ in 0..100 {
            yield_now().await;
        }
        let count = *request.lock().unwrap();
        running.iter().for_each(JoinHandle::abort);
        join_all(running).await;
        count
    }

    /// A window grown to its maximum.
    fn wide() -> ConcurrencyWindow {
        let window = ConcurrencyWindow::new();
        (0..MAX.ilog2()).for_each(|_| window.succeeded());
        window
    }

    #[tokio::test(start_paused = true)]
    async fn each_success_doubles_the_window_until_the_first_failure() {
        let window = Arc::new(ConcurrencyWindow::new());
        for wide in [1, 2, 4, 8] {
            assert_eq!(at_once(&window, 2 * MAX).await, wide);
            window.succeeded();
        }
        window.failed();
        window.succeeded();
        assert_eq!(at_once(&window, 2 * MAX).await, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_halve_the_window_and_successes_double_it() {
        let window = Arc::new(wide());
        assert_eq!(at_once(&window, 2 * MAX).await, MAX);
        window.failed();
        assert_eq!(at_once(&window, 2 * MAX).await, MAX / 2);
        (0..20).for_each(|_| window.failed());
        assert_eq!(at_once(&window, 10).await, 1);
        (1..2 * ENOUGH).for_each(|_| window.succeeded());
        assert_eq!(at_once(&window, 10).await, 2);
        window.succeeded();
        assert_eq!(at_once(&window, 10).await, 4);
        (1..ENOUGH).for_each(|_| window.succeeded());
        window.failed();
        (1..ENOUGH).for_each(|_| window.succeeded());
        assert_eq!(at_once(&window, 10).await, 2, "not in a row");
        (0..8 * ENOUGH).for_each(|_| window.succeeded());
        assert_eq!(at_once(&window, 2 * MAX).await, MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_in_use_are_removed_when_released() {
        let window = wide();
        let mut first: Vec<_> = (0..MAX).map(|_| Box::pin(unconstrained(window.run(soon(), pending::<()>())))).collect();
        first.iter_mut().for_each(|running| assert!(running.now_or_never().is_none()));
        (0..20).for_each(|_| window.failed());
        (0..ENOUGH).for_each(|_| window.succeeded());
        tokio::time::advance(SENDING).await;
        first.iter_mut().for_each(|running| assert!(running.now_or_never().is_none()));
        assert_eq!(window.seats.available_permits(), 2);
    }

    /// Returns how long a request waits behind one that is never answered.
    async fn queued_behind(window: &ConcurrencyWindow) -> Duration {
        let mut first = Box::pin(window.run(soon(), pending::<()>()));
        assert!((&mut first).now_or_never().is_none());
        let started = Instant::now();
        let waited = tokio::select! {
            ((), waited) = window.run(soon(), async {}) => waited,
            _ = first => unreachable!(),
        };
        assert_eq!(started.elapsed(), waited);
        Duration::from_millis(waited.as_millis().try_into().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn slot_time_doubles_if_single_settlements_fail() {
        let window = ConcurrencyWindow::new();
        window.failed();
        assert_eq!(queued_behind(&window).await, 2 * SENDING);
        (0..20).for_each(|_| window.failed());
        assert_eq!(queued_behind(&window).await, MAX_SENDING);
        (0..ENOUGH).for_each(|_| window.succeeded());
        window.failed();
        assert_eq!(queued_behind(&window).await, MAX_SENDING / 2);
        (0..8 * ENOUGH).for_each(|_| window.succeeded());
        (0..8).for_each(|_| window.failed());
        assert_eq!(queued_behind(&window).await, SENDING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_released_before_its_answer() {
        let window = ConcurrencyWindow::new();
        assert_eq!(queued_behind(&window).await, SENDING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_settlement_proceeds_without_a_slot_at_its_deadline() {
        let window = ConcurrencyWindow::new();
        _ = window.seats.forget_permits(1);
        let until = Instant::now() + Duration::from_secs(10);
        assert_eq!(window.run(until, async { 7 }).await.0, 7);
        assert_eq!(Instant::now(), until);
    }
}
