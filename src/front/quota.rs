//! Quotas per address and for all clients: connections, bytes of bodies and bytes of answers.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use tollhouse_base::lock::Lock;

use super::address::network;

/// A limited resource. `None` means no limit.
#[derive(Debug)]
pub struct Quota {
    max: Option<usize>,
    max_per_address: Option<usize>,
    /// Maximum use of an address that draws on the reserve, an eighth of `max`. `None` means no reserve.
    little: Option<usize>,
    used: Lock<QuotaUse>,
}

#[derive(Debug, Default)]
struct QuotaUse {
    all: usize,
    /// Amount of the addresses that use little.
    little: usize,
    /// Amounts by network. Networks with nothing have no entry.
    by_network: HashMap<IpAddr, usize>,
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaFull {
    /// The limit of all clients, which is this much.
    All(usize),
    /// The limit of the address, which is this much.
    Address(usize),
}

impl QuotaFull {
    /// Returns a message with the limit. `what` names the limited things in the plural.
    pub(crate) fn reached(self, what: &str) -> String {
        match self {
            Self::All(max) => format!("the host has reached its limit of {max} {what}"),
            Self::Address(max) => format!("your address has reached its limit of {max} {what}"),
        }
    }
}

impl Quota {
    /// Returns an unused quota: at most `max` in all and `max_per_address` for one address. `None` sets no limit.
    pub fn new(max: Option<usize>, max_per_address: Option<usize>) -> Arc<Self> {
        Arc::new(Self { max, max_per_address, little: None, used: Lock::default() })
    }

    /// Returns an unused quota that reserves an eighth for addresses that use at most `little`, so that others cannot
    /// take everything. In small quotas, little is at most a thirty-second.
    pub(crate) fn with_reserve(max: Option<usize>, max_per_address: Option<usize>, little: usize) -> Arc<Self> {
        let little = max.map(|max| little.min(max / 32));
        Arc::new(Self { max, max_per_address, little, used: Lock::default() })
    }

    /// Returns an unused quota that reserves an eighth for addresses that use at most `little`. Without a limit per
    /// address, it reserves nothing, because all clients can have the same address then.
    pub(crate) fn with_reserve_for(max: Option<usize>, max_per_address: Option<usize>, little: usize) -> Arc<Self> {
        let little = max_per_address.and(max).map(|_| little);
        Arc::new(Self { max, max_per_address, little, used: Lock::default() })
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
        self.room(&self.used.lock(), &network(address), more)
    }

    /// Checks whether `address` can take `more`, an amount that already exists. An amount larger than a limit is allowed while at most
    /// half of that limit is in use, because it would never fit otherwise. Addresses that use little have the
    /// reserve, even while others use more than the limit of all clients.
    ///
    /// # Errors
    ///
    /// The limit that was reached.
    pub(crate) fn has_room_or_is_large(&self, address: IpAddr, more: usize) -> Result<(), QuotaFull> {
        let all = self.used.lock();
        let address_use = all.by_network.get(&network(address)).copied().unwrap_or_default();
        let is_full = |used: usize, max: usize| used.saturating_add(more) > max && (more < max || used > max / 2);
        let amount = address_use.saturating_add(more);
        let is_reserved = |max: usize| self.counts_as_little(amount) && all.little.saturating_add(more) <= max / 8;
        if let Some(max) = self.max.filter(|max| !is_reserved(*max) && is_full(all.all, max - self.reserve(*max, amount))) {
            return Err(QuotaFull::All(max));
        }
        self.max_per_address.filter(|max| is_full(address_use, *max)).map_or(Ok(()), |max| Err(QuotaFull::Address(max)))
    }

    /// Returns the limit of `address` if the address has reached it, whatever others use.
    pub(crate) fn has_all_of_its_share(&self, address: IpAddr) -> Option<usize> {
        let max = self.max_per_address?;
        let address_use = self.used.lock().by_network.get(&network(address)).copied().unwrap_or_default();
        (address_use >= max).then_some(max)
    }

    /// Returns whether more than half of the limit for all clients is in use.
    pub(crate) fn is_half_full(&self) -> bool {
        self.max.is_some_and(|max| self.used() > max / 2)
    }

    /// Returns whether only the reserve is left, and `address` uses too much to draw on it.
    pub(crate) fn is_crowded_by(&self, address: IpAddr) -> bool {
        let (Some(little), Some(max)) = (self.little, self.max) else { return false };
        let used = self.used.lock();
        used.all >= max - max / 8 && used.by_network.get(&network(address)).is_some_and(|address_use| *address_use > little)
    }

    fn room(&self, used: &QuotaUse, address: &IpAddr, more: usize) -> Result<(), QuotaFull> {
        let address_use = used.by_network.get(address).copied().unwrap_or_default();
        let reserve = |max: usize| self.reserve(max, address_use.saturating_add(more));
        if let Some(max) = self.max.filter(|max| used.all.saturating_add(more) > max - reserve(*max)) {
            return Err(QuotaFull::All(max));
        }
        let full = self.max_per_address.filter(|max| address_use.saturating_add(more) > *max);
        full.map_or(Ok(()), |max| Err(QuotaFull::Address(max)))
    }

    /// Returns the part of `max` that an address cannot use if it would have `amount` in use.
    fn reserve(&self, max: usize, amount: usize) -> usize {
        if self.little.is_none() || self.counts_as_little(amount) { 0 } else { max / 8 }
    }

    /// Returns whether an address with `amount` in use can draw on the reserve.
    fn counts_as_little(&self, amount: usize) -> bool {
        self.little.is_some_and(|little| amount <= little)
    }

    /// Returns the part of `amount` that counts for addresses that use little: all of it, or nothing.
    fn little_part(&self, amount: usize) -> usize {
        if self.counts_as_little(amount) { amount } else { 0 }
    }

    fn add(&self, used: &mut QuotaUse, address: IpAddr, more: usize) {
        if self.max_per_address.is_some() || self.little.is_some() {
            let address_use = used.by_network.entry(address).or_default();
            used.little -= self.little_part(*address_use);
            *address_use += more;
            used.little += self.little_part(*address_use);
        }
        used.all += more;
    }

    /// Returns the amount in use.
    pub(crate) fn used(&self) -> usize {
        self.used.lock().all
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
    /// The limit that was reached. Then nothing is added.
    pub fn take(&mut self, more: usize) -> Result<(), QuotaFull> {
        let mut used = self.quota.used.lock();
        self.quota.room(&used, &self.address, more)?;
        self.quota.add(&mut used, self.address, more);
        self.amount += more;
        Ok(())
    }

    /// Takes `more` under the limit for all clients only, for an address that stands for many clients.
    ///
    /// # Errors
    ///
    /// The limit was reached. Then nothing is added.
    pub(crate) fn take_of_all(&mut self, more: usize) -> Result<(), QuotaFull> {
        let mut used = self.quota.used.lock();
        if let Some(max) = self.quota.max.filter(|max| used.all.saturating_add(more) > *max) {
            return Err(QuotaFull::All(max));
        }
        self.quota.add(&mut used, self.address, more);
        self.amount += more;
        Ok(())
    }

    /// Takes `more` even beyond the limits, because it is already in memory.
    pub(crate) fn take_over_limit(&mut self, more: usize) {
        if more > 0 {
            self.quota.add(&mut self.quota.used.lock(), self.address, more);
            self.amount += more;
        }
    }

    /// Returns whether its address uses so little that it can draw on the reserve.
    pub(crate) fn is_of_little(&self) -> bool {
        let used = self.quota.used.lock();
        used.by_network.get(&self.address).is_none_or(|address_use| self.quota.counts_as_little(*address_use))
    }

    /// Returns the amount that it holds.
    pub(crate) fn amount(&self) -> usize {
        self.amount
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
        let mut used = self.quota.used.lock();
        let used = &mut *used;
        used.all -= self.amount;
        if let Some(address_use) = used.by_network.get_mut(&self.address) {
            used.little -= self.quota.little_part(*address_use);
            *address_use -= self.amount;
            used.little += self.quota.little_part(*address_use);
            if *address_use == 0 {
                used.by_network.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
