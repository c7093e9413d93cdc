//! Limits on requests that wait for running calls of their payments.
//!
//! A client can send the payment of a running call as often as it likes, and nobody pays for the wait. So the requests
//! that wait are limited for each payment and each address, and those of one payment share one lookup in the store.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio_util::sync::CancellationToken;
use tollhouse_base::lock::Lock;
use tollhouse_money::PaymentId;

use super::error::JoinsFull;

/// Limits on requests that wait for running calls of their payments.
#[derive(Debug, Clone, Copy)]
pub struct JoinLimits {
    /// Maximum number of requests that wait for the run of one payment.
    pub of_payment: usize,
    /// Maximum number of requests of one address that wait. `None` means no limit.
    pub of_address: Option<usize>,
}

/// A request that may wait for another call.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) from: IpAddr,
    /// Canceled once the request has been dropped, for example because its client has disconnected.
    pub(super) gone: CancellationToken,
}

/// A lookup that all requests of one payment await.
pub(super) type SharedLookup<T> = Shared<BoxFuture<'static, T>>;

/// The requests that wait now. `T` is the outcome of their lookups.
pub(super) struct Joins<T: Clone> {
    limits: JoinLimits,
    waiting: Arc<Lock<Waiting<T>>>,
}

struct Waiting<T: Clone> {
    of_payments: HashMap<PaymentId, WaitingForPayment<T>>,
    of_addresses: HashMap<IpAddr, usize>,
}

struct WaitingForPayment<T: Clone> {
    requests: usize,
    lookup: Option<SharedLookup<T>>,
}

impl<T: Clone> Joins<T> {
    pub(super) fn new(limits: JoinLimits) -> Self {
        Self { limits, waiting: Arc::new(Lock::new(Waiting { of_payments: HashMap::new(), of_addresses: HashMap::new() })) }
    }

    /// Lets a request from this address wait for the run of `payment` until the permit is dropped.
    ///
    /// # Errors
    ///
    /// The limit that was reached.
    pub(super) fn admit(&self, payment: &PaymentId, from: IpAddr) -> Result<JoinPermit<T>, JoinsFull> {
        let JoinLimits { of_payment, of_address } = self.limits;
        let mut waiting = self.waiting.lock();
        if waiting.of_payments.get(payment).map_or(0, |joined| joined.requests) >= of_payment {
            return Err(JoinsFull::Payment(of_payment));
        }
        let from_address = waiting.of_addresses.get(&from).copied().unwrap_or_default();
        if let Some(max) = of_address.filter(|max| from_address >= *max) {
            return Err(JoinsFull::Address(max));
        }
        waiting.of_payments.entry(payment.clone()).or_insert(WaitingForPayment { requests: 0, lookup: None }).requests += 1;
        waiting.of_addresses.insert(from, from_address + 1);
        Ok(JoinPermit { waiting: Arc::clone(&self.waiting), payment: payment.clone(), from })
    }

    /// Returns the number of payments and addresses with waiting requests.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let waiting = self.waiting.lock();
        (waiting.of_payments.len(), waiting.of_addresses.len())
    }
}

/// The place of a request that waits. Dropping it releases the place.
pub(super) struct JoinPermit<T: Clone> {
    waiting: Arc<Lock<Waiting<T>>>,
    payment: PaymentId,
    from: IpAddr,
}

impl<T: Clone> JoinPermit<T> {
    /// Returns the running lookup of the payment, or starts `lookup`. It runs while somebody awaits it, and is dropped
    /// with the last permit.
    pub(super) fn lookup(&self, lookup: impl FnOnce() -> BoxFuture<'static, T>) -> SharedLookup<T> {
        let mut waiting = self.waiting.lock();
        let running = waiting.of_payments.get(&self.payment).and_then(|joined| joined.lookup.clone());
        if let Some(running) = running.filter(|running| running.peek().is_none()) {
            return running;
        }
        let started = lookup().shared();
        let ended = waiting.of_payments.get_mut(&self.payment).map(|joined| joined.lookup.replace(started.clone()));
        drop(waiting);
        drop(ended);
        started
    }
}

impl<T: Clone> Drop for JoinPermit<T> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        if let Some(left) = waiting.of_addresses.get_mut(&self.from) {
            *left -= 1;
            if *left == 0 {
                waiting.of_addresses.remove(&self.from);
            }
        }
        let last = waiting.of_payments.get_mut(&self.payment).is_some_and(|joined| {
            joined.requests -= 1;
            joined.requests == 0
        });
        // The lookup is dropped after the lock is released.
        let ended = if last { waiting.of_payments.remove(&self.payment) } else { None };
        drop(waiting);
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    #[test]
    fn waiting_requests_are_limited_per_payment_and_address() {
        let joins = Joins::<()>::new(JoinLimits { of_payment: 2, of_address: Some(3) });
        let payments = ["a", "b"].map(|name| PaymentId::of(&[name]));
        let admit = |payment: usize, from| joins.admit(&payments[payment], address(from));
        let first = admit(0, 1).unwrap();
        let second = admit(0, 1).unwrap();
        assert_eq!(admit(0, 2).err(), Some(JoinsFull::Payment(2)), "whoever sends it");
        let third = admit(1, 1).unwrap();
        assert_eq!(admit(1, 1).err(), Some(JoinsFull::Address(3)));
        assert!(admit(1, 2).is_ok(), "another address has its own places");
        drop(second);
        let again = admit(0, 1).unwrap();
        drop((first, third, again));
        assert_eq!(joins.len(), (0, 0));
    }

    #[tokio::test]
    async fn requests_of_one_payment_share_one_lookup() {
        let joins = Joins::new(JoinLimits { of_payment: 9, of_address: None });
        let (payment, started) = (PaymentId::of(&["a"]), Arc::new(AtomicUsize::new(0)));
        let permits = [(); 3].map(|()| joins.admit(&payment, address(1)).unwrap());
        let lookup = |permit: &JoinPermit<usize>| {
            let started = Arc::clone(&started);
            permit.lookup(|| async move { started.fetch_add(1, Relaxed) }.boxed())
        };
        let (first, second) = (lookup(&permits[0]), lookup(&permits[1]));
        assert_eq!(tokio::join!(first, second), (0, 0));
        assert_eq!(lookup(&permits[2]).await, 1, "a request that comes later gets no old outcome");
        drop(permits);
        assert_eq!(joins.len(), (0, 0));
    }

    #[tokio::test]
    async fn lookup_ends_with_the_last_request() {
        let joins = Joins::<()>::new(JoinLimits { of_payment: 9, of_address: None });
        let (payment, held) = (PaymentId::of(&["a"]), Arc::new(()));
        let permits = [(); 2].map(|()| joins.admit(&payment, address(1)).unwrap());
        for permit in &permits {
            let held = Arc::clone(&held);
            let endless = || {
                async move {
                    std::future::pending::<()>().await;
                    drop(held)
                }
                .boxed()
            };
            assert!(permit.lookup(endless).now_or_never().is_none());
        }
        let [first, second] = permits;
        drop(first);
        assert_eq!(Arc::strong_count(&held), 2, "another request awaits it");
        drop(second);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
