//! How many settlements a facilitator is sent at once: fewer while it fails them because they come together, as one does whose
//! only signer gives two transactions the same nonce.

use std::{
    pin::pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

/// Most that are sent at once.
const MOST: usize = 256;
/// How long one counts as being sent. What comes after is the chain's time, in which others disturb nothing.
const SENDING: Duration = Duration::from_millis(250);
/// Successes in a row after which more are tried.
const ENOUGH: u32 = 8;

/// Half as many after each failure, twice as many after so many successes in a row.
#[derive(Debug)]
pub(super) struct Window {
    seats: Semaphore,
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    seats: usize,
    /// Successes since the last failure, and since it was widened.
    in_row: u32,
    /// Seats that are taken away as soon as whoever has them leaves.
    owed: usize,
}

impl Window {
    pub(super) fn new() -> Self {
        Self { seats: Semaphore::new(MOST), size: Mutex::new(Size { seats: MOST, in_row: 0, owed: 0 }) }
    }

    /// Asks when there is a seat, and at `until` without one.
    pub(super) async fn ask<T>(&self, until: Instant, question: impl Future<Output = T>) -> T {
        let seat = timeout_at(until, self.seats.acquire()).await;
        let mut question = pin!(question);
        let answered = timeout(SENDING, &mut question).await;
        if let Ok(Ok(seat)) = seat {
            match self.with(Size::pay) {
                true => seat.forget(),
                false => drop(seat),
            }
        }
        match answered {
            Ok(answer) => answer,
            Err(_) => question.await,
        }
    }

    pub(super) fn failed(&self) {
        self.with(|size| {
            let fewer = size.seats / 2;
            size.seats -= fewer;
            size.in_row = 0;
            size.owed += fewer - self.seats.forget_permits(fewer);
        });
    }

    pub(super) fn succeeded(&self) {
        self.with(|size| {
            size.in_row += 1;
            if size.in_row == ENOUGH {
                let more = size.seats.min(MOST - size.seats);
                let paid = more.min(size.owed);
                self.seats.add_permits(more - paid);
                *size = Size { seats: size.seats + more, in_row: 0, owed: size.owed - paid };
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Size) -> T) -> T {
        change(&mut self.size.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Size {
    /// True when a seat was owed, and this one is taken for it.
    fn pay(&mut self) -> bool {
        let owes = self.owed > 0;
        self.owed -= usize::from(owes);
        owes
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use futures_util::{FutureExt as _, future::join_all};
    use tokio::task::{JoinHandle, unconstrained, yield_now};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    /// How many of so many are asked at once.
    async fn at_once(window: &Arc<Window>, many: usize) -> usize {
        let asked = Arc::new(Mutex::new(0));
        let asking: Vec<_> = (0..many)
            .map(|_| {
                let (window, asked) = (Arc::clone(window), Arc::clone(&asked));
                tokio::spawn(async move {
                    window
                        .ask(soon(), async {
                            *asked.lock().unwrap() += 1;
                            pending::<()>().await
                        })
                        .await;
                })
            })
            .collect();
        for _ in 0..100 {
            yield_now().await;
        }
        let count = *asked.lock().unwrap();
        asking.iter().for_each(JoinHandle::abort);
        join_all(asking).await;
        count
    }

    #[tokio::test(start_paused = true)]
    async fn failures_halve_it_down_to_one_and_successes_widen_it_up_to_its_most() {
        let window = Arc::new(Window::new());
        assert_eq!(at_once(&window, 2 * MOST).await, MOST);
        window.failed();
        assert_eq!(at_once(&window, 2 * MOST).await, MOST / 2);
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
        assert_eq!(at_once(&window, 2 * MOST).await, MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn seats_in_use_are_taken_away_when_they_are_left() {
        let window = Window::new();
        let mut first: Vec<_> = (0..MOST).map(|_| Box::pin(unconstrained(window.ask(soon(), pending::<()>())))).collect();
        first.iter_mut().for_each(|asking| assert!(asking.now_or_never().is_none()));
        (0..20).for_each(|_| window.failed());
        (0..ENOUGH).for_each(|_| window.succeeded());
        tokio::time::advance(SENDING).await;
        first.iter_mut().for_each(|asking| assert!(asking.now_or_never().is_none()));
        assert_eq!(window.seats.available_permits(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_is_asked_when_one_is_sent_though_not_answered() {
        let window = Window::new();
        (0..20).for_each(|_| window.failed());
        let mut first = Box::pin(window.ask(soon(), pending::<()>()));
        assert!((&mut first).now_or_never().is_none());
        let began = Instant::now();
        tokio::select! {
            () = window.ask(soon(), async {}) => {}
            () = first => unreachable!(),
        }
        assert_eq!(began.elapsed().as_millis(), SENDING.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn who_can_wait_no_longer_asks_without_a_seat() {
        let window = Window::new();
        _ = window.seats.forget_permits(MOST);
        let until = Instant::now() + Duration::from_secs(10);
        assert_eq!(window.ask(until, async { 7 }).await, 7);
        assert_eq!(Instant::now(), until);
    }
}
