use alloy_primitives::{Address, Bytes};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

fn flight(byte: u8, now: Instant) -> InFlightTx {
    let call = TxCall { to: Address::ZERO, data: Bytes::new(), gas: 21_000 };
    let signed = SignedTx { raw: Bytes::new(), hash: B256::repeat_byte(byte) };
    InFlightTx::new(call, Fees { tip: 1, max: 2 }, signed, now)
}

/// Pending transactions with the first `count` nonces from 7 on.
fn flying(count: u8, now: Instant) -> (PendingTxs, Vec<oneshot::Receiver<TxEnd>>) {
    let mut flights = PendingTxs::default();
    flights.begin_at(7, Instant::now());
    let mut ends = vec![];
    for byte in 0..count {
        let nonce = flights.take().unwrap();
        flights.put(nonce, flight(byte, now));
        let (waiter, end) = oneshot::channel();
        assert_eq!(flights.send(B256::repeat_byte(byte), waiter, now).unwrap().0, nonce);
        ends.push(end);
    }
    (flights, ends)
}

#[test]
fn transactions_have_distinct_nonces() {
    let (mut flights, _ends) = flying(3, Instant::now());
    assert_eq!((flights.take(), flights.take()), (Some(10), Some(11)));
    assert_eq!(flights.sent().iter().map(|(nonce, _)| *nonce).collect::<Vec<_>>(), [7, 8, 9]);
}

#[test]
fn the_nonce_of_an_unsent_transaction_is_reused() {
    let now = Instant::now();
    let (mut flights, mut ends) = flying(3, now);
    flights.refuse(8, "a test".to_owned());
    assert!(matches!(ends[1].try_recv(), Ok(TxEnd::Unsent(_))));
    assert_eq!((flights.take(), flights.take()), (Some(8), Some(10)), "a hole is filled before more is taken");
    flights.put(10, flight(9, now));
    flights.release_nonce(B256::repeat_byte(9));
    assert_eq!(flights.take(), Some(10));
    flights.release_nonce(B256::repeat_byte(0));
    assert_eq!(flights.take(), Some(11), "a sent transaction keeps its nonce");
}

#[test]
fn a_contested_nonce_is_read_from_the_node_again() {
    let (mut flights, mut ends) = flying(3, Instant::now());
    flights.recount();
    assert!(flights.unsure() && flights.take().is_none());
    assert!(ends[0].try_recv().is_err() && flights.has(B256::repeat_byte(0)), "it may have used the nonce");
    flights.begin_at(8, Instant::now());
    assert_eq!(flights.take(), Some(10), "above the pending transactions");
}

#[test]
fn a_nonce_released_before_the_next_poll_is_used_once() {
    let (now, (mut flights, _ends)) = (Instant::now(), flying(1, Instant::now()));
    for byte in [8, 9, 10] {
        let nonce = flights.take().unwrap();
        flights.put(nonce, flight(byte, now));
    }
    flights.recount();
    flights.release_nonce(B256::repeat_byte(8));
    flights.release_nonce(B256::repeat_byte(10));
    flights.begin_at(8, Instant::now());
    assert_eq!([flights.take(), flights.take(), flights.take()], [Some(8), Some(10), Some(11)]);
    flights.release_nonce(B256::repeat_byte(9));
    flights.begin_at(10, Instant::now());
    assert_eq!(flights.take(), Some(10), "9 is used by then");
}

#[test]
fn only_unsent_transactions_signed_here_are_sent() {
    let now = Instant::now();
    let (mut flights, _ends) = flying(1, now);
    let nonce = flights.take().unwrap();
    flights.put(nonce, flight(1, now));
    for (byte, sent) in [(0, false), (2, false), (1, true), (1, false)] {
        assert_eq!(flights.send(B256::repeat_byte(byte), oneshot::channel().0, now).is_ok(), sent, "{byte}");
    }
}

#[test]
fn only_the_first_stuck_transaction_is_replaced_within_limits() {
    let now = Instant::now();
    let (mut flights, _ends) = flying(2, now);
    assert!(flights.stuck_tx((7, 9), now + TIMEOUT, TIMEOUT).is_none());
    let mut at = now;
    for raise in 0..MAX_RAISES {
        at += TIMEOUT + Duration::from_millis(1);
        let (nonce, flight) = flights.stuck_tx((7, 9), at, TIMEOUT).unwrap();
        assert_eq!((nonce, flight.hashes().len()), (7, 1 + raise as usize));
        let fees = flight.fees.raised();
        flight.replace(fees, SignedTx { raw: Bytes::new(), hash: B256::repeat_byte(100) }, at);
    }
    assert!(flights.stuck_tx((7, 9), at + TIMEOUT * 2, TIMEOUT).is_none(), "its price has an end");
    flights.end(7, TxEnd::Lost, at);
    assert_eq!(flights.stuck_tx((8, 9), at + TIMEOUT * 2, TIMEOUT).unwrap().0, 8);
}

#[test]
fn a_gap_that_others_wait_for_is_found() {
    let now = Instant::now();
    let (mut flights, _ends) = flying(2, now);
    flights.refuse(7, "a test".to_owned());
    assert_eq!(flights.gap(now + TIMEOUT, TIMEOUT), None);
    let later = now + TIMEOUT + Duration::from_secs(1);
    assert_eq!((flights.gap(later, TIMEOUT), flights.gap(later, TIMEOUT)), (Some(7), None));
    flights.put(9, flight(9, now));
    flights.release_nonce(B256::repeat_byte(9));
    assert_eq!(flights.gap(later, TIMEOUT), None, "nobody waits for the last one");
}

#[test]
fn an_unsent_transaction_keeps_its_nonce_for_a_minute() {
    let now = Instant::now();
    let mut flights = PendingTxs::default();
    flights.begin_at(7, Instant::now());
    let nonce = flights.take().unwrap();
    flights.put(nonce, flight(1, now));
    flights.forget_unsent(now + SIGNED_FOR);
    assert_eq!(flights.flights.len(), 1);
    flights.forget_unsent(now + SIGNED_FOR + Duration::from_secs(1));
    assert_eq!((flights.flights.len(), flights.take()), (0, Some(7)));
    let (waiter, _end) = oneshot::channel();
    assert!(flights.send(B256::repeat_byte(1), waiter, now).is_err(), "it is not sent anymore");
}

#[test]
fn nonces_missing_below_a_known_transaction_are_free() {
    let (now, (mut flights, _ends)) = (Instant::now(), flying(1, Instant::now()));
    flights.reach(10, 8, InFlightTx { sent: true, ..flight(9, now) });
    assert_eq!(flights.sent().iter().map(|(nonce, _)| *nonce).collect::<Vec<_>>(), [7, 10]);
    assert_eq!((flights.take(), flights.take(), flights.take()), (Some(8), Some(9), Some(11)));
    for out_of_reach in [7, 8 + MAX_MISSING + 1, u64::MAX] {
        flights.reach(out_of_reach, 8, flight(8, now));
    }
    assert_eq!((flights.sent().len(), flights.take()), (2, Some(12)));
}

#[test]
fn a_shared_key_frees_only_nonces_released_here() {
    let (now, mut flights) = (Instant::now(), PendingTxs::new(true));
    flights.begin_at(7, Instant::now());
    for (nonce, byte) in [(8, 0), (10, 1), (11, 2), (12, 3)] {
        flights.put(nonce, flight(byte, now));
    }
    for byte in [1, 2] {
        flights.release_nonce(B256::repeat_byte(byte));
    }
    assert!(flights.reaches(15, 7) && !flights.reaches(7 + MAX_MISSING + 1, 7));
    flights.reach(15, 7, InFlightTx { sent: true, ..flight(9, now) });
    flights.reach(7 + MAX_MISSING + 1, 7, InFlightTx { sent: true, ..flight(8, now) });
    assert_eq!(flights.sent().len(), 1, "one that is far away is not looked after");
    assert_eq!([flights.take_free(), flights.take_free(), flights.take_free()], [Some((10, 1)), Some((11, 0)), None]);
    flights.release_nonce(B256::repeat_byte(3));
    flights.refuse(8, "a test".to_owned());
    flights.recount();
    assert!(flights.unsure());
    flights.begin_at(9, Instant::now());
    assert_eq!([flights.take_free(), flights.take_free()], [Some((12, 0)), None], "nobody else has it");
}

#[test]
fn a_nonce_of_a_lost_host_is_found_after_a_wait() {
    let (now, mut flights) = (Instant::now(), PendingTxs::new(true));
    flights.begin_at(7, Instant::now());
    flights.put(8, flight(1, now));
    flights.put(9, flight(0, now));
    assert!(flights.send(B256::repeat_byte(0), oneshot::channel().0, now).is_ok());
    let second = Duration::from_secs(1);
    let (late, very_late) = (now + TIMEOUT + second, now + TIMEOUT * LEFT_AFTER + second);
    for (counts, at, remaining, reason) in [
        ((7, 7), now + TIMEOUT, None, "it may be on its way"),
        ((7, 7), late, Some(7), "it is missing"),
        ((7, 8), very_late, None, "8 is still to be sent"),
        ((7, 9), late, None, "whose it is replaces it"),
        ((7, 9), very_late, Some(7), "nobody replaces it"),
        ((9, 9), very_late, None, "it waits for nothing"),
    ] {
        assert_eq!(flights.abandoned(counts, at, TIMEOUT), remaining, "{counts:?}: {reason}");
    }
    // Two are missing. The second is found as soon as the first is filled.
    let mut flights = PendingTxs::new(true);
    flights.begin_at(7, Instant::now());
    flights.put(9, InFlightTx { sent: true, ..flight(0, now) });
    assert_eq!(flights.abandoned((7, 7), late, TIMEOUT), Some(7));
    flights.put(7, InFlightTx { sent: true, ..flight(1, late) });
    assert_eq!(flights.abandoned((7, 8), late, TIMEOUT), Some(8));
}

/// Returns a pending transaction with nonce 17 of a chain that counts to 7, because a reorganization has dropped ten
/// transactions.
fn behind_a_gap_of_ten(now: Instant) -> PendingTxs {
    let mut flights = PendingTxs::default();
    flights.begin_at(17, now);
    let nonce = flights.take().unwrap();
    flights.put(nonce, InFlightTx { sent: true, last_seen: true, ..flight(17, now) });
    flights
}

#[test]
fn recount_frees_all_nonces_that_a_reorganization_dropped() {
    let now = Instant::now();
    let mut flights = behind_a_gap_of_ten(now);
    flights.recount();
    flights.begin_at(7, now);
    assert!((7..17).chain([18]).all(|nonce| flights.take() == Some(nonce)));
}

#[test]
fn missing_nonces_below_a_pending_transaction_are_all_filled() {
    let (now, later) = (Instant::now(), Instant::now() + TIMEOUT + Duration::from_secs(1));
    let mut flights = behind_a_gap_of_ten(now);
    assert!(!flights.find_missing(17, now), "none is missing");
    assert!(flights.find_missing(7, now));
    assert!(!flights.find_missing(7, now), "they are known by now");
    assert_eq!(flights.gap(now + TIMEOUT, TIMEOUT), None);
    for nonce in 7..17 {
        assert_eq!(flights.gap(later, TIMEOUT), Some(nonce));
        flights.put(nonce, InFlightTx { sent: true, ..flight(0, later) });
    }
    assert_eq!(flights.gap(later, TIMEOUT), None);
    assert!(!flights.find_missing(7, later), "all are pending");
    let mut shared = PendingTxs::new(true);
    shared.begin_at(7, now);
    shared.put(17, InFlightTx { sent: true, ..flight(17, now) });
    assert!(!shared.find_missing(7, now), "other hosts may still send theirs");
}

#[test]
fn one_count_frees_a_limited_number_of_nonces() {
    let now = Instant::now();
    let mut flights = PendingTxs::default();
    flights.begin_at(1_000, now);
    flights.put(1_000, InFlightTx { sent: true, ..flight(0, now) });
    assert!(flights.find_missing(7, now));
    assert_eq!(flights.free.len(), MAX_FREED);
    assert!(flights.find_missing(7 + 256, now), "the next count frees more");
    assert_eq!(flights.free.first(), Some(&263));
}

#[test]
fn no_raise_is_spent_while_an_earlier_nonce_is_missing() {
    let now = Instant::now();
    let mut flights = behind_a_gap_of_ten(now);
    let mut at = now;
    for _ in 0..=MAX_RAISES {
        at += TIMEOUT + Duration::from_millis(1);
        for count in [7, 16] {
            assert!(flights.stuck_tx((7, count), at, TIMEOUT).is_none(), "{count}");
        }
    }
    assert!(flights.waiting(at, TIMEOUT).is_some(), "the node is still asked");
    let (nonce, flight) = flights.stuck_tx((7, 17), at, TIMEOUT).unwrap();
    assert_eq!((nonce, flight.replaced_hashes.len()), (17, 0));
}

#[test]
fn a_nonce_just_seen_in_a_block_counts_as_used() {
    let now = Instant::now();
    let (mut flights, _ends) = flying(3, now);
    flights.end(7, TxEnd::Lost, now);
    flights.end(8, TxEnd::Lost, now);
    assert!(!flights.find_missing(7, now + USED_FOR), "the answer may come from a server that lags");
    assert!(flights.find_missing(7, now + USED_FOR + Duration::from_millis(1)), "a reorganization has dropped them");
    assert_eq!((flights.take(), flights.take(), flights.take()), (Some(7), Some(8), Some(10)));
}

#[test]
fn transactions_that_the_node_restored_to_its_pool_are_tracked() {
    let now = Instant::now();
    let flights = behind_a_gap_of_ten(now);
    assert_eq!(flights.untracked((7, 9), now), [7, 8]);
    assert_eq!(flights.untracked((15, 18), now), [15, 16], "17 is tracked");
    assert!(flights.untracked((7, 7), now).is_empty());
}

#[test]
fn transactions_behind_a_gap_are_sent_again_as_they_are() {
    let now = Instant::now();
    let mut flights = behind_a_gap_of_ten(now);
    let signed = SignedTx { raw: Bytes::from_static(&[2]), hash: B256::ZERO };
    flights.put(18, InFlightTx { sent: true, last_seen: true, signed, ..flight(18, now) });
    flights.put(19, flight(19, now));
    assert!(flights.queued(now + TIMEOUT, TIMEOUT).is_empty());
    let queued = flights.queued(now + TIMEOUT * 2, TIMEOUT);
    assert_eq!(queued.iter().map(|(nonce, _)| *nonce).collect::<Vec<_>>(), [18], "17 is of a previous run, 19 was not sent");
}
