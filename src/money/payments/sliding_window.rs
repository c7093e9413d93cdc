//! Counts over a sliding window.

use std::time::Duration;

/// Number of slots in a window. A count has one more, so that an event counts for the whole window.
const SLOTS: u64 = 12;

/// A count over a sliding window, in slots of a twelfth of it. An event counts for at least one window and at most one
/// slot longer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SlidingWindow {
    slots: [u64; SLOTS as usize + 1],
    /// The slot of the last event.
    newest: u64,
}

/// A point in time, in slots of a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowMoment {
    slot: u64,
    /// Time since the slot began.
    into: Duration,
    length: Duration,
}

impl WindowMoment {
    /// Returns the moment `elapsed` after the start of the process, for windows of this length.
    pub(super) fn new(elapsed: Duration, window: Duration) -> Self {
        let length = window / u32::try_from(SLOTS).unwrap_or(u32::MAX);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let slot = millis(elapsed) / millis(length).max(1);
        Self { slot, into: Duration::from_millis(millis(elapsed) % millis(length).max(1)), length }
    }
}

impl SlidingWindow {
    pub(super) fn add(&mut self, more: u64, now: WindowMoment) {
        self.prune(now);
        self.newest = now.slot;
        let slot = &mut self.slots[Self::place(now.slot)];
        *slot = slot.saturating_add(more);
    }

    pub(super) fn total(&self, now: WindowMoment) -> u64 {
        self.slots_in_force(now).map(|slot| self.slots[Self::place(slot)]).fold(0, u64::saturating_add)
    }

    /// Removes the oldest event. Returns false if there is none.
    pub(super) fn forgive(&mut self, now: WindowMoment) -> bool {
        self.prune(now);
        let oldest = self.oldest(now);
        if let Some(slot) = oldest {
            self.slots[Self::place(slot)] -= 1;
        }
        oldest.is_some()
    }

    /// Removes the oldest event if `paid` is at least its price: the mean price of the events in its slot, from
    /// `prices`. Returns false if it is less, and `None` if there is no event.
    pub(super) fn forgive_for(&mut self, prices: &mut Self, paid: u64, now: WindowMoment) -> Option<bool> {
        self.prune(now);
        prices.prune(now);
        let position = Self::place(self.oldest(now)?);
        // There is at least one event. A mean that is rounded up is at most the sum.
        let price = prices.slots[position].div_ceil(self.slots[position]);
        if paid < price {
            return Some(false);
        }
        self.slots[position] -= 1;
        prices.slots[position] -= price;
        Some(true)
    }

    /// Removes up to `amount` from the count, newest first.
    pub(super) fn take_back(&mut self, mut amount: u64, now: WindowMoment) {
        self.prune(now);
        for slot in self.slots_in_force(now).collect::<Vec<_>>().into_iter().rev() {
            let count = &mut self.slots[Self::place(slot)];
            let taken = amount.min(*count);
            *count -= taken;
            amount -= taken;
        }
    }

    /// Removes up to `amount` of the events that were added at `at`, then of the newest others. Does nothing if events
    /// at `at` no longer count.
    pub(super) fn take_back_of(&mut self, amount: u64, at: WindowMoment, now: WindowMoment) {
        self.prune(now);
        if self.slots_in_force(now).any(|slot| slot == at.slot) {
            let count = &mut self.slots[Self::place(at.slot)];
            let taken = amount.min(*count);
            *count -= taken;
            self.take_back(amount - taken, now);
        }
    }

    /// Returns the time until the oldest event no longer counts.
    pub(super) fn wait(&self, now: WindowMoment) -> Option<Duration> {
        let oldest = self.oldest(now)?;
        let slots = u32::try_from((oldest + SLOTS + 1).saturating_sub(now.slot)).unwrap_or(u32::MAX);
        Some((now.length * slots).saturating_sub(now.into))
    }

    fn oldest(&self, now: WindowMoment) -> Option<u64> {
        self.slots_in_force(now).find(|slot| self.slots[Self::place(*slot)] > 0)
    }

    /// Returns the slots that count, oldest first. Slots after the last event are unused.
    fn slots_in_force(&self, now: WindowMoment) -> impl Iterator<Item = u64> + use<> {
        let first = now.slot.saturating_sub(SLOTS).max(self.newest.saturating_sub(SLOTS));
        first..=self.newest
    }

    /// Clears slots that no longer count, so that they can be reused.
    fn prune(&mut self, now: WindowMoment) {
        for slot in self.newest + 1..=now.slot.min(self.newest + SLOTS + 1) {
            self.slots[Self::place(slot)] = 0;
        }
        self.newest = self.newest.max(now.slot);
    }

    fn place(slot: u64) -> usize {
        usize::try_from(slot % (SLOTS + 1)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(secs: u64) -> WindowMoment {
        WindowMoment::new(Duration::from_secs(secs), MINUTE)
    }

    #[test]
    fn event_counts_for_a_minute_and_at_most_five_seconds_more() {
        let mut recent = SlidingWindow::default();
        recent.add(2, at(103));
        for (secs, total) in [(103, 2), (163, 2), (164, 2), (165, 0), (10_000, 0)] {
            assert_eq!(recent.total(at(secs)), total, "{secs}");
        }
        assert_eq!(recent.wait(at(103)), Some(Duration::from_secs(62)));
        assert_eq!(recent.wait(at(164)), Some(Duration::from_secs(1)));
        assert_eq!(recent.wait(at(165)), None);
    }

    #[test]
    fn take_back_removes_the_newest_events_and_no_more_than_there_are() {
        let mut recent = SlidingWindow::default();
        recent.add(5, at(0));
        recent.add(3, at(30));
        recent.take_back(4, at(40));
        assert_eq!((recent.total(at(40)), recent.total(at(65))), (4, 0), "three of the newest, and one before");
        recent.take_back(9, at(40));
        assert_eq!(recent.total(at(40)), 0);
    }

    #[test]
    fn take_back_of_starts_with_events_of_that_time_unless_they_expired() {
        let mut recent = SlidingWindow::default();
        recent.add(5, at(0));
        recent.add(3, at(30));
        recent.take_back_of(4, at(0), at(40));
        assert_eq!((recent.total(at(40)), recent.total(at(65))), (4, 3), "four of the first five");
        recent.take_back_of(2, at(0), at(41));
        assert_eq!((recent.total(at(41)), recent.total(at(65))), (2, 2), "one of the first, and one of the newest");
        recent.take_back_of(2, at(0), at(65));
        assert_eq!(recent.total(at(65)), 2, "the first ones no longer count");
    }

    #[test]
    fn forgiving_takes_the_oldest_event_and_never_more_than_there_are() {
        let mut recent = SlidingWindow::default();
        recent.add(1, at(0));
        recent.add(1, at(30));
        assert!(recent.forgive(at(40)));
        assert_eq!((recent.total(at(40)), recent.wait(at(40))), (1, Some(Duration::from_secs(55))));
        assert!(recent.forgive(at(40)));
        assert!(!recent.forgive(at(40)));
        assert_eq!((recent.total(at(40)), recent.wait(at(40))), (0, None));
    }

    #[test]
    fn priced_events_are_forgiven_for_their_price_and_all_for_the_sum() {
        let (mut recent, mut prices) = (SlidingWindow::default(), SlidingWindow::default());
        for (price, secs) in [(10, 0), (1, 0), (100, 30)] {
            recent.add(1, at(secs));
            prices.add(price, at(secs));
        }
        assert_eq!(recent.forgive_for(&mut prices, 5, at(40)), Some(false), "the mean of the oldest slot is 5.5");
        assert_eq!(recent.forgive_for(&mut prices, 6, at(40)), Some(true));
        assert_eq!((recent.total(at(40)), prices.total(at(40))), (2, 105));
        assert_eq!(recent.forgive_for(&mut prices, 5, at(40)), Some(true));
        assert_eq!(recent.forgive_for(&mut prices, 99, at(40)), Some(false));
        assert_eq!(recent.forgive_for(&mut prices, 100, at(40)), Some(true));
        assert_eq!((recent.total(at(40)), prices.total(at(40))), (0, 0));
        assert_eq!(recent.forgive_for(&mut prices, 100, at(40)), None);
    }

    #[test]
    fn slots_are_used_again_after_a_window() {
        let mut recent = SlidingWindow::default();
        for secs in 0..1_000 {
            recent.add(1, at(secs));
            let counted = recent.total(at(secs));
            assert!(counted >= (secs + 1).min(60) && counted <= 65, "{secs}: {counted}");
        }
        recent.add(1, at(100_000));
        assert_eq!(recent.total(at(100_000)), 1);
    }
}
