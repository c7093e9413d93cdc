//! What all clients together, and each of them, may have at once of something: connections, bytes of bodies.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::address::network;

/// Something of which there is so much. `None` is no limit.
#[derive(Debug)]
pub(crate) struct Quota {
    most: Option<usize>,
    most_of_address: Option<usize>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Of those alone that have some.
    of: HashMap<IpAddr, usize>,
}

/// Why there is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// All together have this much.
    All(usize),
    /// The address has this much.
    Address(usize),
}

impl Quota {
    pub(crate) fn new(most: Option<usize>, most_of_address: Option<usize>) -> Arc<Self> {
        Arc::new(Self { most, most_of_address, taken: Mutex::default() })
    }

    /// A share of `address`, which is nothing yet.
    pub(crate) fn share(self: &Arc<Self>, address: IpAddr) -> Share {
        Share { quota: Arc::clone(self), address: network(address), amount: 0 }
    }

    pub(crate) fn most(&self) -> Option<usize> {
        self.most
    }

    /// How much is taken.
    pub(crate) fn taken(&self) -> usize {
        self.all().all
    }

    fn all(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody has of a [`Quota`]; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    quota: Arc<Quota>,
    address: IpAddr,
    amount: usize,
}

impl Share {
    /// Takes so much more.
    ///
    /// # Errors
    ///
    /// What is full; then nothing is taken.
    pub(crate) fn take(&mut self, more: usize) -> Result<(), Full> {
        let mut taken = self.quota.all();
        if let Some(most) = self.quota.most.filter(|most| taken.all.saturating_add(more) > *most) {
            return Err(Full::All(most));
        }
        if let Some(most) = self.quota.most_of_address {
            let of_address = taken.of.get(&self.address).copied().unwrap_or_default().saturating_add(more);
            if of_address > most {
                return Err(Full::Address(most));
            }
            taken.of.insert(self.address, of_address);
        }
        taken.all += more;
        self.amount += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
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

    fn share(quota: &Arc<Quota>, address: &str) -> Share {
        quota.share(address.parse().unwrap())
    }

    #[test]
    fn what_is_taken_is_bounded_in_all_and_of_each_address_and_comes_back() {
        let quota = Quota::new(Some(10), Some(6));
        let (mut one, mut again, mut other) = (share(&quota, ONE), share(&quota, ONE), share(&quota, OTHER));
        assert_eq!(one.take(6), Ok(()));
        assert_eq!(again.take(1), Err(Full::Address(6)), "shares of one address are added up");
        assert_eq!(other.take(5), Err(Full::All(10)));
        assert_eq!(other.take(4), Ok(()));
        drop(one);
        assert_eq!((quota.taken(), again.take(6)), (4, Ok(())));
        drop((again, other));
        assert_eq!((quota.taken(), quota.all().of.len()), (0, 0), "who has nothing is not remembered");
    }

    #[test]
    fn a_network_of_ipv6_has_one_share() {
        let quota = Quota::new(None, Some(1));
        let (mut one, mut same) = (share(&quota, "2001:db8:1:2::1"), share(&quota, "2001:db8:1:2:ffff::9"));
        assert_eq!((one.take(1), same.take(1)), (Ok(()), Err(Full::Address(1))));
        assert_eq!(share(&quota, "2001:db8:1:3::1").take(1), Ok(()));
    }

    #[test]
    fn without_limits_nothing_is_refused_or_remembered_of_an_address() {
        let quota = Quota::new(None, None);
        let mut share = share(&quota, ONE);
        assert_eq!(share.take(usize::MAX / 2), Ok(()));
        assert!(quota.all().of.is_empty());
    }
}
