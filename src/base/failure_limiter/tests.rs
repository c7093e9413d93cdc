use super::*;

fn limiter(per_minute: u32) -> FailureLimiter<u32> {
    FailureLimiter::new(NonZeroU32::new(per_minute).unwrap(), Duration::from_secs(60 * 60))
}

#[test]
fn a_key_that_fails_too_often_waits_until_one_failure_is_forgiven() {
    let (penalties, started) = (limiter(6), Instant::now());
    for _ in 0..6 {
        assert_eq!(penalties.wait(&1, started), None);
        penalties.count(1, started);
    }
    assert_eq!(penalties.wait(&1, started), Some(Duration::from_secs(10)));
    assert_eq!(penalties.wait(&2, started), None, "another key");
    let later = started + Duration::from_secs(10);
    assert_eq!(penalties.wait(&1, later), None);
    penalties.count(1, later);
    assert_eq!(penalties.wait(&1, later), Some(Duration::from_secs(10)));
    assert_eq!(penalties.wait(&1, later + WINDOW), None);
    assert!(penalties.has_failures(&1, later) && !penalties.has_failures(&1, later + WINDOW) && !penalties.has_failures(&2, later));
    penalties.forgive(&1);
    assert_eq!((penalties.wait(&1, later), penalties.has_failures(&1, later)), (None, false));
}

#[test]
fn attempt_waits_only_for_open_ones() {
    let (penalties, now) = (limiter(2), Instant::now());
    let admit = |open| penalties.admit(&1, open, now);
    assert_eq!([admit(0), admit(1), admit(2), admit(u32::MAX)], [Admission::Now, Admission::Now, Admission::Later, Admission::Later]);
    penalties.count(1, now);
    assert_eq!([admit(0), admit(1)], [Admission::Now, Admission::Later]);
    penalties.count(1, now);
    assert_eq!([admit(0), admit(1)], [Admission::Refused(Duration::from_secs(30)); 2]);
    penalties.used_elsewhere("1", 1);
    assert!([admit(0), admit(1)].iter().all(|admission| matches!(admission, Admission::Refused(_))));
}

#[test]
fn failures_are_forgiven_after_the_maximum_time() {
    let (penalties, now) = (limiter(60), Instant::now());
    (0..120).for_each(|_| penalties.count(1, now));
    assert_eq!(penalties.wait(&1, now), Some(Duration::from_secs(61)));
    (0..100_000).for_each(|_| penalties.count(1, now));
    assert!(penalties.wait(&1, now).unwrap() <= Duration::from_secs(60 * 60));
}

#[test]
fn failures_on_other_hosts_count_here() {
    let (one, other) = (limiter(10), limiter(10));
    assert_eq!(one.take_used(9), []);
    (0..10).for_each(|_| one.count(1, gcra::now()));
    let reported = one.take_used(9);
    assert_eq!(reported, [("1".to_owned(), 10)]);
    other.used_elsewhere(&reported[0].0, reported[0].1);
    assert!(other.wait(&1, gcra::now()).is_some() && other.wait(&2, gcra::now()).is_none());
    other.used_elsewhere("1", u64::MAX);
    assert!(other.wait(&1, gcra::now()).unwrap() <= Duration::from_secs(60 * 60));
}

#[test]
fn many_keys_stay_bounded_and_the_worst_are_remembered() {
    let (penalties, now) = (limiter(2), Instant::now());
    (0..3).for_each(|_| penalties.count(0, now));
    (1..MAX_KEYS as u32 + 100).for_each(|key| penalties.count(key, now));
    let stored = penalties.uses().len();
    assert!((MAX_KEYS * 3 / 4..=MAX_KEYS).contains(&stored), "{stored}");
    assert!(penalties.wait(&0, now).is_some());
}
