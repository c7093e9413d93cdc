use super::*;

fn rate(per_second: u32, burst: u32) -> RateLimiter<u8> {
    RateLimiter::with_burst(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(burst).unwrap())
}

fn some(some: u32) -> NonZeroU32 {
    NonZeroU32::new(some).unwrap()
}

#[test]
fn key_has_a_burst_that_recovers_at_its_rate() {
    let (rate, started) = (rate(10, 20), Instant::now());
    for _ in 0..20 {
        assert_eq!(rate.admit(&1, some(1), started), Ok(()));
    }
    assert_eq!(rate.admit(&1, some(1), started), Err(Duration::from_millis(100)));
    assert_eq!(rate.admit(&2, some(20), started), Ok(()), "another key");
    assert_eq!(rate.admit(&3, some(21), started), Err(Duration::from_millis(100)), "more than there ever is");
    let later = started + Duration::from_millis(300);
    assert_eq!(rate.admit(&1, some(4), later), Err(Duration::from_millis(100)));
    assert_eq!(rate.admit(&1, some(3), later), Ok(()));
    assert!(rate.take(&4, some(20)) && !rate.take(&4, some(20)));
    assert_eq!((rate.wait(&4), rate.wait(&5)), (Some(1), None));
    rate.uses.lock().prune_idle(started + Duration::from_secs(60));
    assert_eq!(rate.uses.lock().len(), 0);
}

#[test]
fn maximum_rate_is_enforced() {
    let (many, started) = (rate(u32::MAX, u32::MAX), Instant::now());
    assert_eq!(many.admit(&1, some(u32::MAX), started), Ok(()));
    assert!(many.admit(&1, some(u32::MAX), started + Duration::from_millis(999)).is_err());
    assert_eq!(many.admit(&1, some(u32::MAX), started + Duration::from_secs(1)), Ok(()));
}

#[test]
fn keys_are_bounded_and_the_most_used_are_remembered() {
    let rate: RateLimiter<u32> = RateLimiter::with_burst(NonZeroU32::new(10).unwrap(), NonZeroU32::new(20).unwrap());
    let now = Instant::now();
    assert_eq!(rate.admit(&0, some(20), now), Ok(()));
    (1..MAX_KEYS as u32 * 2).for_each(|key| assert_eq!(rate.admit(&key, some(1), now), Ok(())));
    assert!(rate.uses.lock().len() <= MAX_KEYS, "{}", rate.uses.lock().len());
    assert!(rate.admit(&0, some(1), now).is_err());
}

#[test]
fn requests_on_other_hosts_count_here() {
    let (one, other, now) = (rate(10, 20), rate(10, 20), now());
    assert_eq!(one.take_used(10), [], "no requests so far");
    assert_eq!(one.admit(&1, some(2), now), Ok(()));
    assert_eq!(one.take_used(10), [], "it is no more than a tenth");
    assert_eq!(one.admit(&1, some(18), now), Ok(()));
    assert_eq!(one.admit(&2, some(10), now), Ok(()));
    assert_eq!(one.take_used(1), [("1".to_owned(), 20)]);
    assert_eq!(one.take_used(10), [("2".to_owned(), 10)]);
    assert_eq!(one.take_used(10), []);
    other.used_elsewhere("1", 200);
    other.used_elsewhere("no key", 200);
    assert!(!other.take(&1, some(1)) && other.take(&2, some(20)));
    assert_eq!(other.take_used(10), [], "usage of other hosts is not reported");
    assert!(other.wait(&1).is_some_and(|wait| wait > 10), "it has used ten times as much as it may at once");
}

#[test]
fn each_key_has_its_permits_and_unused_keys_are_forgotten() {
    let limit = ConcurrencyLimit::new(2);
    let permits = [limit.take("a"), limit.take("a"), limit.take("b")].map(Option::unwrap);
    assert!(limit.take("a").is_none() && limit.take("b").is_some());
    drop(permits);
    assert!(limit.take("a").is_some());
    assert!(limit.now.lock().is_empty());
}
