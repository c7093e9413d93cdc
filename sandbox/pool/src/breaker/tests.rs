use super::*;

const RULES: BreakerRules = BreakerRules { stops: 5, window: Duration::from_secs(60), hold: Duration::from_secs(60) };

fn caller(number: u8) -> Option<IpAddr> {
    Some([127, 0, 0, number].into())
}

fn second(start: Instant, second: u64) -> Instant {
    start + Duration::from_secs(second)
}

#[test]
fn fifth_stop_of_the_code_in_a_minute_holds_for_a_minute() {
    let (mut breaker, start) = (Breaker::default(), Instant::now());
    for at in 0..4 {
        assert!(!breaker.note_stop(Cause::Code, caller(1), &RULES, second(start, at)));
    }
    let fifth = second(start, 59);
    assert_eq!(breaker.closed_to(caller(1), &RULES, fifth), None);
    assert!(breaker.note_stop(Cause::Run, None, &RULES, fifth), "the host's own call has no input to blame");
    assert_eq!([0, 59, 60].map(|at| breaker.held(second(fifth, at)).map(|remaining| remaining.as_secs())), [Some(60), Some(1), None]);
    for number in [1, 2] {
        assert_eq!(breaker.closed_to(caller(number), &RULES, fifth), Some(Closed::Held(Duration::from_secs(60))));
        assert_eq!(breaker.closed_to(caller(number), &RULES, second(fifth, 60)), None);
    }
}

#[test]
fn stops_further_apart_than_the_window_never_hold() {
    let (mut breaker, start) = (Breaker::default(), Instant::now());
    for quarter in 0..20 {
        let now = second(start, quarter * 15);
        assert!(!breaker.note_stop(Cause::Code, None, &RULES, now));
        assert!(!breaker.note_stop(Cause::Run, caller(1), &RULES, now) && breaker.closed_to(caller(1), &RULES, now).is_none());
    }
    let last = second(start, 19 * 15);
    assert!(!breaker.is_expired(&RULES, second(last, 59)));
    assert!(breaker.is_expired(&RULES, second(last, 60)));
}

#[test]
fn breaker_is_not_forgotten_while_it_holds() {
    let (mut breaker, start) = (Breaker::default(), Instant::now());
    assert_eq!((0..5).filter(|_| breaker.note_stop(Cause::Code, None, &RULES, start)).count(), 1);
    assert!(!breaker.is_expired(&RULES, second(start, 59)));
    assert!(breaker.is_expired(&RULES, second(start, 60)));
}

#[test]
fn stops_of_each_kind_are_remembered_separately() {
    let start = Instant::now();
    let after = |breaker: &mut Breaker, rules: &BreakerRules, seconds| breaker.is_expired(rules, second(start, seconds));
    for (cause, caller) in [(Cause::Code, None), (Cause::Run, caller(1))] {
        let mut breaker = Breaker::default();
        breaker.note_stop(cause, caller, &RULES, start);
        assert_eq!([59, 60].map(|seconds| after(&mut breaker, &RULES, seconds)), [false, true], "{cause:?}");
    }
    // A caller whose runs were stopped is slowed for longer than the endpoint is held.
    let (mut breaker, brief) = (Breaker::default(), BreakerRules { hold: Duration::from_secs(1), ..RULES });
    assert!((0..9).any(|number| breaker.note_stop(Cause::Run, caller(number % 3), &brief, start)));
    assert_eq!([2, 59, 60].map(|seconds| after(&mut breaker, &brief, seconds)), [false, false, true]);
}

#[test]
fn caller_whose_calls_are_stopped_is_slowed_and_nobody_else() {
    let (mut breaker, start) = (Breaker::default(), Instant::now());
    for at in 0..1_000 {
        assert!(!breaker.note_stop(Cause::Run, caller(1), &RULES, start + Duration::from_millis(at)));
    }
    let now = second(start, 1);
    let Some(Closed::Slowed(wait)) = breaker.closed_to(caller(1), &RULES, now) else { panic!("it is not slowed") };
    assert!(wait < Duration::from_secs(60) && breaker.closed_to(caller(1), &RULES, now + wait).is_none());
    assert_eq!(breaker.closed_to(caller(2), &RULES, now), None);
    assert_eq!(breaker.closed_to(None, &RULES, now), None);
    assert_eq!(breaker.callers[&caller(1).unwrap()].0.len(), RULES.stops, "only the necessary stops are stored");
}

#[test]
fn stops_of_several_callers_hold_the_endpoint_for_them_until_an_answer() {
    let (mut breaker, start) = (Breaker::default(), Instant::now());
    let stops = |breaker: &mut Breaker, numbers: &[u8], at| {
        numbers.iter().filter(|number| breaker.note_stop(Cause::Run, caller(**number), &RULES, second(start, at))).count()
    };
    let closed = |breaker: &Breaker, number, at| breaker.closed_to(caller(number), &RULES, second(start, at));
    let held = |seconds| Some(Closed::Held(Duration::from_secs(seconds)));
    assert_eq!(stops(&mut breaker, &[1, 2, 3, 1, 2], 0), 1);
    assert_eq!([1, 2, 3, 4].map(|number| closed(&breaker, number, 10)), [held(50), held(50), held(50), None]);
    assert_eq!(breaker.closed_to(None, &RULES, start), None);
    assert_eq!(closed(&breaker, 1, 60), None);
    // A caller that is stopped during a hold is held too, and enough such callers extend the hold.
    assert_eq!(stops(&mut breaker, &[4, 5], 20), 0);
    assert_eq!([4, 6].map(|number| closed(&breaker, number, 20)), [held(40), None]);
    assert_eq!(stops(&mut breaker, &[6, 7, 8], 40), 1);
    assert_eq!([1, 4, 8, 9].map(|number| closed(&breaker, number, 41)), [held(59), held(59), held(59), None]);
    breaker.note_answer(second(start, 42));
    assert_eq!([1, 8].map(|number| closed(&breaker, number, 42)), [None, None]);
}

#[test]
fn hold_on_code_applies_to_all_callers_and_no_run_ends_it() {
    let (mut breaker, start) = (Breaker::default(), Instant::now());
    assert_eq!((0..5).filter(|_| breaker.note_stop(Cause::Code, None, &RULES, start)).count(), 1);
    assert_eq!((0..5).filter(|number| breaker.note_stop(Cause::Run, caller(*number), &RULES, second(start, 1))).count(), 1);
    breaker.note_answer(second(start, 1));
    assert_eq!(breaker.closed_to(caller(9), &RULES, second(start, 1)), Some(Closed::Held(Duration::from_secs(59))));
    // An expired hold is replaced.
    let mut breaker = Breaker::default();
    (0..5).for_each(|_| _ = breaker.note_stop(Cause::Code, None, &RULES, start));
    (0..5).for_each(|number| _ = breaker.note_stop(Cause::Run, caller(number), &RULES, second(start, 60)));
    assert_eq!([0, 9].map(|number| breaker.closed_to(caller(number), &RULES, second(start, 60)).is_some()), [true, false]);
}

#[test]
fn stops_of_several_callers_hold_the_endpoint_unless_one_is_answered() {
    let stops = |breaker: &mut Breaker, callers: u8, now| (0..9).any(|n| breaker.note_stop(Cause::Run, caller(n % callers), &RULES, now));
    let start = Instant::now();
    assert!(!stops(&mut Breaker::default(), 2, start), "two callers are not enough");
    assert!(stops(&mut Breaker::default(), 3, start));
    let mut answering = Breaker::default();
    answering.note_answer(start);
    assert!(!stops(&mut answering, 9, second(start, 59)), "another caller got an answer");
    assert!(stops(&mut answering, 9, second(start, 60)), "the answer is too old");
}

#[test]
fn callers_with_old_stops_neither_hold_the_endpoint_nor_are_held() {
    let start = Instant::now();
    let stopped = |callers: &[(u8, u64)], rules: &BreakerRules| {
        let mut breaker = Breaker::default();
        let held = callers
            .iter()
            .fold(false, |held, (number, at)| breaker.note_stop(Cause::Run, caller(*number), rules, second(start, *at)) || held);
        (breaker, held)
    };
    let of_two = [(1, 61), (2, 61), (1, 62), (2, 62), (1, 63)];
    assert!(!stopped(&[&[(3, 0)], &of_two[..]].concat(), &RULES).1, "the stop of the third is forgotten");
    assert!(stopped(&[&[(3, 4)], &of_two[..]].concat(), &RULES).1);
    let (brief, of_three) = (BreakerRules { window: Duration::from_secs(10), ..RULES }, [(1, 0), (2, 5), (3, 6), (2, 7), (3, 8)]);
    let (breaker, held) = stopped(&of_three, &brief);
    let is_closed = |number, at| breaker.closed_to(caller(number), &brief, second(start, at)).is_some();
    assert!(held && is_closed(1, 9) && !is_closed(1, 10) && is_closed(2, 10) && !is_closed(2, 17));
}
