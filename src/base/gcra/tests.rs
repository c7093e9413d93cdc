use super::*;

#[test]
fn many_new_keys_visit_each_key_a_few_times() {
    const MAX: usize = 65_536;
    const NEW: u32 = 100_000;
    let (mut uses, started) = (Gcra::default(), Instant::now());
    // One key becomes quiet for each new one, so quiet keys alone make room for only one.
    for key in 0..NEW {
        let now = started + Duration::from_millis(key.into());
        uses.evict(&key, MAX, now);
        uses.use_here(&key, 1, now, Duration::from_millis(MAX as u64 - 1), Duration::ZERO);
        assert!(uses.len() <= MAX);
    }
    assert!(uses.checked_at < 10 * NEW as usize, "{} keys were looked at for {NEW} new ones", uses.checked_at);
}

#[test]
fn only_remembered_keys_are_reported() {
    const MAX: usize = 64;
    let (mut uses, now) = (Gcra::default(), Instant::now());
    assert_eq!(uses.take(0), []);
    for key in 0..10_000_u32 {
        uses.evict(&key, MAX, now);
        uses.use_here(&key, 1, now, Duration::from_secs(1), Duration::ZERO);
        assert!(uses.unreported.as_ref().is_some_and(|unreported| unreported.len() <= 2 * MAX));
    }
    for max in [1, 2, 7, 8, 9] {
        let mut few = Gcra::default();
        for key in 0..100_u32 {
            few.evict(&key, max, now);
            few.use_here(&key, 1, now, Duration::from_secs(1), Duration::ZERO);
            assert!((1..=max).contains(&few.len()), "{max}");
        }
    }
}
