//! Numbers of movements: in the order in which they were decided.

use std::sync::atomic::{AtomicU64, Ordering};

use tollhouse_base::clock::Timestamp;

/// Stands behind the numbers of all movements: where the balance is, so that one scan sees both.
pub(crate) const BALANCE: u64 = u64::MAX;

/// Bits below those of the time: so many of one millisecond are told apart.
const WITHIN: u32 = 22;

/// A number above those before it, also where the clock was put back. Those of versions that counted are below.
pub(crate) fn next(at: Timestamp) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last, at)));
    after(last.unwrap_or_default(), at)
}

fn after(last: u64, at: Timestamp) -> u64 {
    let of_time = at.0.min((1 << (u64::BITS - WITHIN)) - 2) << WITHIN;
    of_time.max(last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_numbers_are_larger_whatever_the_clock_says() {
        let times = [1_800_000_000_000, 1_800_000_000_000, 1_700_000_000_000, 1_900_000_000_000, u64::MAX, 0];
        let numbers = times.into_iter().scan(0, |last, at| {
            *last = after(*last, Timestamp(at));
            Some(*last)
        });
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
        assert!(numbers[5] < BALANCE);
    }

    #[test]
    fn a_number_is_the_time_with_room_below_it_and_never_that_of_the_balance() {
        assert_eq!(after(0, Timestamp(1_800_000_000_000)), 1_800_000_000_000 << 22);
        assert_eq!(after(0, Timestamp(u64::MAX)), ((1 << 42) - 2) << 22);
    }
}
