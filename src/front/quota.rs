//! Quotas per address and for all clients: connections, bytes of bodies and bytes of answers.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::address::network;

/// Maximum amount in use for an address to draw on the reserve. For small quotas, it is a thirty-second of the quota.
const LITTLE: usize = 64 << 10;

/// A limited resource. `None` means no limit.
#[derive(Debug)]
pub struct Quota {
    max: Option<usize>,
    max_per_address: Option<usize>,
    /// Whether a part is reserved for addresses that use little.
    has_reserve: bool,
    taken: Mutex<QuotaUse>,
}

#[derive(Debug, Default)]
struct QuotaUse {
    all: usize,
    /// Amounts by network. Networks with nothing have no entry.
    of: HashMap<IpAddr, usize>,
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaFull {
    /// The limit of all clients, which is this much.
    All(usize),
    /// The limit of the address, which is this much.
    Address(usize),
}

impl Quota {
    /// Returns an unused quota: at most `max` in all and `max_per_address` for one address. `None` sets no limit.
    pub fn new(max: Option<usize>, most_of_address: Option<usize>) -> Arc<Self> {
        Arc::new(Self { max, max_per_address: most_of_address, has_reserve: false, taken: Mutex::default() })
    }

    /// Returns an unused quota that reserves an eighth for addresses that use [little](LITTLE), so that others cannot take everything.
    pub(crate) fn with_reserve(max: Option<usize>, most_of_address: Option<usize>) -> Arc<Self> {
        Arc::new(Self { max, max_per_address: most_of_address, has_reserve: true, taken: Mutex::default() })
    }

    /// Returns an empty share for `address`.
    pub fn share(self: &Arc<Self>, address: IpAddr) -> QuotaShare {
        QuotaShare { quota: Arc::clone(self), address: network(address), amount: 0 }
    }

    /// Returns the limit for all clients, or `None` if there is none.
    pub fn max(&self) -> Option<usize> {
        self.max
    }

    /// Checks whether `address` can take `more`, without taking it.
    ///
    /// # Errors
    ///
    /// The limit that was reached.
    pub(crate) fn has_room(&self, address: IpAddr, more: usize) -> Result<(), QuotaFull> {
        self.room(&self.all(), &network(address), more)
    }

    /// Checks whether `address` can take `more`, an amount that already exists. An amount larger than a limit is allowed while at most
    /// half of that limit is in use, because it would never fit otherwise.
    ///
    /// # Errors
    ///
    /// The limit that was reached.
    pub(crate) fn has_room_or_is_large(&self, address: IpAddr, more: usize) -> Result<(), QuotaFull> {
        let all = self.all();
        let of_address = all.of.get(&network(address)).copied().unwrap_or_default();
        let is_full = |taken: usize, max: usize| taken.saturating_add(more) > max && (more < max || taken > max / 2);
        if let Some(max) = self.max.filter(|max| is_full(all.all, *max)) {
            return Err(QuotaFull::All(max));
        }
        self.max_per_address.filter(|max| is_full(of_address, *max)).map_or(Ok(()), |max| Err(QuotaFull::Address(max)))
    }

    /// Returns the limit of `address` if the address has reached it, whatever others use.
    pub(crate) fn has_all_of_its_share(&self, address: IpAddr) -> Option<usize> {
        let max = self.max_per_address?;
        let of_address = self.all().of.get(&network(address)).copied().unwrap_or_default();
        (of_address >= max).then_some(max)
    }

    /// Returns whether more than half of the limit for all clients is in use.
    pub(crate) fn is_half_full(&self) -> bool {
        self.max.is_some_and(|max| self.taken() > max / 2)
    }

    fn room(&self, taken: &QuotaUse, address: &IpAddr, more: usize) -> Result<(), QuotaFull> {
        let of_address = taken.of.get(address).copied().unwrap_or_default();
        let reserve = |max: usize| {
            let is_little = of_address.saturating_add(more) <= LITTLE.min(max / 32);
            if self.has_reserve && !is_little { max / 8 } else { 0 }
        };
        if let Some(max) = self.max.filter(|max| taken.all.saturating_add(more) > max - reserve(*max)) {
            return Err(QuotaFull::All(max));
        }
        match self.max_per_address.filter(|max| of_address.saturating_add(more) > *max) {
            Some(max) => Err(QuotaFull::Address(max)),
            None => Ok(()),
        }
    }

    fn add(&self, taken: &mut QuotaUse, address: IpAddr, more: usize) {
        if self.max_per_address.is_some() || self.has_reserve && self.max.is_some() {
            *taken.of.entry(address).or_default() += more;
        }
        taken.all += more;
    }

    /// Returns the amount in use.
    pub(crate) fn taken(&self) -> usize {
        self.all().all
    }

    fn all(&self) -> MutexGuard<'_, QuotaUse> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The amount of a [`Quota`] that an owner holds. Dropping it returns the amount.
#[derive(Debug)]
pub struct QuotaShare {
    quota: Arc<Quota>,
    address: IpAddr,
    amount: usize,
}

impl QuotaShare {
    /// Takes `more`.
    ///
    /// # Errors
    ///
    /// The limit that was reached. Then nothing is taken.
    pub fn take(&mut self, more: usize) -> Result<(), QuotaFull> {
        let mut taken = self.quota.all();
        self.quota.room(&taken, &self.address, more)?;
        self.quota.add(&mut taken, self.address, more);
        self.amount += more;
        Ok(())
    }

    /// Takes `more` under the limit for all clients only, for an address that stands for many clients.
    ///
    /// # Errors
    ///
    /// The limit was reached. Then nothing is taken.
    pub(crate) fn take_of_all(&mut self, more: usize) -> Result<(), QuotaFull> {
        let mut taken = self.quota.all();
        match self.quota.max.filter(|max| taken.all.saturating_add(more) > *max) {
            Some(max) => Err(QuotaFull::All(max)),
            None => {
                self.quota.add(&mut taken, self.address, more);
                self.amount += more;
                Ok(())
            }
        }
    }

    /// Takes `more` even beyond the limits, because it is already in memory.
    pub(crate) fn take_over_limit(&mut self, more: usize) {
        if more > 0 {
            self.quota.add(&mut self.quota.all(), self.address, more);
            self.amount += more;
        }
    }

    /// Merges another share of the same address and quota into this one.
    pub(crate) fn join(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.quota, &other.quota) && self.address == other.address, "shares of one address");
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Splits off up to `part` into a separate share.
    pub(crate) fn split(&mut self, part: usize) -> Self {
        let amount = part.min(self.amount);
        self.amount -= amount;
        Self { quota: Arc::clone(&self.quota), address: self.address, amount }
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut taken = self.quota.all();
        taken.all -= self.amount;
        if let Some(of_address) = taken.of.get_mut(&self.address) {
            *of_address -= self.amount;
            if *of_address == 0 {
                taken.of.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "192.0.2.1";
    const OTHER: &str = "192.0.2.2";

    fn share(quota: &Arc<Quota>, address: &str) -> QuotaShare {
        quota.share(address.parse().unwrap())
    }

    #[test]
    fn what_is_taken_is_bounded_in_all_and_of_each_address_and_comes_back() {
        let quota = Quota::new(Some(10), Some(6));
        let (mut one, mut again, mut other) = (share(&quota, ONE), share(&quota, ONE), share(&quota, OTHER));
        assert_eq!(one.take(6), Ok(()));
        assert_eq!(again.take(1), Err(QuotaFull::Address(6)), "shares of one address are added up");
        assert_eq!(other.take(5), Err(QuotaFull::All(10)));
        assert_eq!(other.take(4), Ok(()));
        drop(one);
        assert_eq!((quota.taken(), again.take(6)), (4, Ok(())));
        drop((again, other));
        assert_eq!((quota.taken(), quota.all().of.len()), (0, 0), "who has nothing is not remembered");
    }

    #[test]
    fn what_is_there_already_counts_beyond_the_bound_and_in_parts() {
        let quota = Quota::new(Some(10), Some(6));
        let mut one = share(&quota, ONE);
        one.take_over_limit(12);
        let (address, other): (IpAddr, IpAddr) = (ONE.parse().unwrap(), OTHER.parse().unwrap());
        assert_eq!((quota.has_all_of_its_share(address), quota.has_all_of_its_share(other)), (Some(6), None));
        assert_eq!((quota.has_room(other, 1), quota.is_half_full()), (Err(QuotaFull::All(10)), true));
        let part = one.split(9);
        drop(one);
        assert_eq!((quota.taken(), quota.has_room(other, 1), quota.has_room(address, 1)), (9, Ok(()), Err(QuotaFull::Address(6))));
        drop(part);
        assert_eq!((quota.taken(), quota.has_room(address, 6), quota.all().of.len()), (0, Ok(()), 0));
    }

    #[test]
    fn what_is_larger_than_a_limit_is_let_in_one_at_a_time() {
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
    fn a_network_of_ipv6_has_one_share() {
        let quota = Quota::new(None, Some(1));
        let (mut one, mut same) = (share(&quota, "2001:db8:1:2::1"), share(&quota, "2001:db8:1:2:ffff::9"));
        assert_eq!((one.take(1), same.take(1)), (Ok(()), Err(QuotaFull::Address(1))));
        assert_eq!(share(&quota, "2001:db8:1:3::1").take(1), Ok(()));
    }

    #[test]
    fn without_limits_nothing_is_refused_or_remembered_of_an_address() {
        let quota = Quota::new(None, None);
        let mut share = share(&quota, ONE);
        assert_eq!(share.take(usize::MAX / 2), Ok(()));
        assert!(quota.all().of.is_empty());
    }

    #[test]
    fn addresses_with_little_have_a_reserve() {
        const ALL: usize = 32 * LITTLE;
        let quota = Quota::with_reserve(Some(ALL), None);
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
        assert_eq!((taken, quota.taken()), (3, ALL), "never more than there is");
        drop((hoard, small, again, max));
        assert_eq!((quota.taken(), quota.all().of.len()), (0, 0));
    }
}
