use super::*;

const ONE: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";

fn share(quota: &Arc<Quota>, address: &str) -> QuotaShare {
    quota.share(address.parse().unwrap())
}

#[test]
fn quota_limits_the_total_and_each_address_until_shares_drop() {
    let quota = Quota::new(Some(10), Some(6));
    let (mut one, mut again, mut other) = (share(&quota, ONE), share(&quota, ONE), share(&quota, OTHER));
    assert_eq!(one.take(6), Ok(()));
    assert_eq!(again.take(1), Err(QuotaFull::Address(6)), "shares of one address are added up");
    assert_eq!(other.take(5), Err(QuotaFull::All(10)));
    assert_eq!(other.take(4), Ok(()));
    drop(one);
    assert_eq!((quota.used(), again.take(6)), (4, Ok(())));
    drop((again, other));
    assert_eq!((quota.used(), quota.used.lock().by_network.len()), (0, 0), "a network that uses nothing has no entry");
}

#[test]
fn existing_amounts_count_beyond_the_limit_and_can_be_split() {
    let quota = Quota::new(Some(10), Some(6));
    let mut one = share(&quota, ONE);
    one.take_over_limit(12);
    let (address, other): (IpAddr, IpAddr) = (ONE.parse().unwrap(), OTHER.parse().unwrap());
    assert_eq!((quota.has_all_of_its_share(address), quota.has_all_of_its_share(other)), (Some(6), None));
    assert_eq!((quota.has_room(other, 1), quota.is_half_full()), (Err(QuotaFull::All(10)), true));
    let part = one.split(9);
    drop(one);
    assert_eq!((quota.used(), quota.has_room(other, 1), quota.has_room(address, 1)), (9, Ok(()), Err(QuotaFull::Address(6))));
    drop(part);
    assert_eq!((quota.used(), quota.has_room(address, 6), quota.used.lock().by_network.len()), (0, Ok(()), 0));
}

#[test]
fn amounts_above_a_limit_are_admitted_one_at_a_time() {
    let quota = Quota::new(Some(100), Some(20));
    let (address, other): (IpAddr, IpAddr) = (ONE.parse().unwrap(), OTHER.parse().unwrap());
    for large in [21, 100, 1_000] {
        let mut one = share(&quota, ONE);
        one.take_over_limit(10);
        assert_eq!(quota.has_room_or_is_large(address, large), Ok(()), "{large}");
        one.take_over_limit(large);
        assert!(quota.has_room_or_is_large(address, large).is_err(), "a second of {large}");
        assert_eq!(quota.has_room_or_is_large(other, 1_000).is_err(), large >= 100, "{large}");
    }
    let mut one = share(&quota, ONE);
    one.take_over_limit(11);
    assert_eq!(quota.has_room_or_is_large(address, 21), Err(QuotaFull::Address(20)));
    assert_eq!(quota.has_room_or_is_large(address, 9), Ok(()));
    assert_eq!(quota.has_room_or_is_large(address, 10), Err(QuotaFull::Address(20)), "what fits has no more than its limit");
    one.take_over_limit(40);
    assert_eq!(quota.has_room_or_is_large(other, 101), Err(QuotaFull::All(100)));
}

#[test]
fn ipv6_network_shares_one_quota() {
    let quota = Quota::new(None, Some(1));
    let (mut one, mut same) = (share(&quota, "2001:db8:1:2::1"), share(&quota, "2001:db8:1:2:ffff::9"));
    assert_eq!((one.take(1), same.take(1)), (Ok(()), Err(QuotaFull::Address(1))));
    assert_eq!(share(&quota, "2001:db8:1:3::1").take(1), Ok(()));
}

#[test]
fn unlimited_quota_rejects_and_remembers_nothing() {
    let quota = Quota::new(None, None);
    let mut share = share(&quota, ONE);
    assert_eq!(share.take(usize::MAX / 2), Ok(()));
    assert!(quota.used.lock().by_network.is_empty());
}

#[test]
fn addresses_that_use_little_have_a_reserve() {
    const LITTLE: usize = 64 << 10;
    const ALL: usize = 32 * LITTLE;
    let quota = Quota::with_reserve(Some(ALL), None, LITTLE);
    let (mut hoard, mut other) = (share(&quota, ONE), share(&quota, ONE));
    assert_eq!(hoard.take(ALL - ALL / 8 + 1), Err(QuotaFull::All(ALL)));
    assert_eq!(hoard.take(ALL - ALL / 8), Ok(()));
    assert_eq!(other.take(1), Err(QuotaFull::All(ALL)), "its address has much already");
    let (mut small, mut again) = (share(&quota, OTHER), share(&quota, OTHER));
    assert_eq!(small.take(LITTLE / 2), Ok(()));
    assert_eq!(again.take(LITTLE / 2), Ok(()));
    assert_eq!(again.take(1), Err(QuotaFull::All(ALL)), "the reserve is for little");
    let mut max: Vec<_> = (3..30).map(|n| share(&quota, &format!("192.0.2.{n}"))).collect();
    let taken = max.iter_mut().map(|share| share.take(LITTLE)).filter(Result::is_ok).count();
    assert_eq!((taken, quota.used()), (3, ALL), "never more than there is");
    drop((hoard, small, again, max));
    assert_eq!((quota.used(), quota.used.lock().by_network.len()), (0, 0));
}

#[test]
fn short_answers_have_a_reserve() {
    const LITTLE: usize = 64 << 10;
    const ALL: usize = 32 * LITTLE;
    let quota = Quota::with_reserve(Some(ALL), None, LITTLE);
    let (address, other): (IpAddr, IpAddr) = (ONE.parse().unwrap(), OTHER.parse().unwrap());
    let mut hoard = share(&quota, ONE);
    hoard.take_over_limit(ALL - ALL / 8);
    assert_eq!(quota.has_room_or_is_large(address, 1), Err(QuotaFull::All(ALL)), "it has much already");
    assert_eq!(quota.has_room_or_is_large(other, LITTLE), Ok(()));
    assert_eq!(quota.has_room_or_is_large(other, LITTLE + 1), Err(QuotaFull::All(ALL)), "the reserve is for little");
    let mut small = share(&quota, OTHER);
    small.take_over_limit(LITTLE / 2);
    assert_eq!(quota.has_room_or_is_large(other, LITTLE), Err(QuotaFull::All(ALL)), "earlier answers count");
    assert_eq!(quota.has_room_or_is_large(other, LITTLE / 2), Ok(()));
    hoard.take_over_limit(ALL);
    assert_eq!(quota.has_room_or_is_large(other, LITTLE / 2), Ok(()), "others cannot use the reserve up");
    small.take_over_limit(LITTLE / 2);
    let mut littles: Vec<_> = (3..6).map(|n| share(&quota, &format!("192.0.2.{n}"))).collect();
    littles.iter_mut().for_each(|share| share.take_over_limit(LITTLE));
    let further: IpAddr = [192, 0, 2, 6].into();
    assert_eq!(quota.has_room_or_is_large(further, 1), Err(QuotaFull::All(ALL)), "the reserve has a limit");
    small.take_over_limit(1);
    assert_eq!(quota.has_room_or_is_large(further, LITTLE), Ok(()), "an address that uses more is not in the reserve");
    drop((hoard, small, littles));
    assert_eq!((quota.used(), quota.used.lock().little), (0, 0));
    assert_eq!(quota.has_room_or_is_large(address, ALL), Ok(()), "an address alone is not bound by the reserve");
}

#[test]
fn few_addresses_cannot_take_the_reserve_of_connections() {
    const FEW: usize = 2;
    let address = |n: usize| format!("192.0.2.{n}");
    let quota = Quota::with_reserve_for(Some(64), Some(16), FEW);
    let mut hoards: Vec<_> = (0..64).map(|n| share(&quota, &address(n / 16))).collect();
    assert_eq!(hoards.iter_mut().filter_map(|hoard| hoard.take(1).ok()).count(), 56);
    let crowded = |n: usize| quota.is_crowded_by(address(n).parse().unwrap());
    assert_eq!((crowded(0), crowded(3), crowded(9)), (true, true, false));
    let mut newcomer: Vec<_> = (0..3).map(|_| share(&quota, &address(9))).collect();
    assert_eq!((newcomer[0].take(1), newcomer[1].take(1), newcomer[2].take(1)), (Ok(()), Ok(()), Err(QuotaFull::All(64))));
    assert!(!crowded(9), "it has few");
    drop((hoards, newcomer));
    assert!(!crowded(0));
    // Without a limit per address, one address has everything.
    let alone = Quota::with_reserve_for(Some(64), None, FEW);
    assert_eq!((share(&alone, ONE).take(64), alone.is_crowded_by(ONE.parse().unwrap())), (Ok(()), false));
}
