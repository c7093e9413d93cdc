//! Numbers of movements, in the order in which they were decided.

use std::sync::atomic::{AtomicU64, Ordering};

use tollhouse_base::clock::Timestamp;

/// Number of the balance row. It sorts after all movements, so that one scan reads both.
pub(crate) const BALANCE: u64 = u64::MAX;

/// Bits below the time, which number the movements of one millisecond.
const WITHIN: u32 = 22;

/// Returns a number above all earlier ones, even if the clock was set back.
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
    fn sequence_numbers_grow_regardless_of_the_clock() {
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
