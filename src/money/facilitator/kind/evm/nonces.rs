//! Nonces of a key that hosts of one store share. The store counts them, so that no two hosts use the same one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use tollhouse_store::{Batch, Counter, Durability, Store, StoreError, SumLimit, schema};

const NONCES: Counter<String> = schema::GAS_NONCES.counting();

/// Maximum nonce of a chain.
const MAX: SumLimit = SumLimit::Ceiling(u64::MAX as i128);

/// The nonce counter of a key on a network.
pub(super) struct Nonces {
    store: Arc<dyn Store>,
    /// Network, `/`, address.
    key: String,
    /// How long a taken nonce surely belongs to its taker. Another host fills it only after later ones have waited
    /// twice as long.
    valid_for: Duration,
    /// When this host took its recent nonces.
    taken: BTreeMap<u64, Instant>,
}

impl Nonces {
    /// Returns the counter of this key if the store is shared. A host that is alone needs none.
    pub(super) fn of(store: &Arc<dyn Store>, key: String, timeout: Duration) -> Option<Self> {
        store.is_shared().then(|| Self { store: Arc::clone(store), key, valid_for: timeout / 2, taken: BTreeMap::new() })
    }

    pub(super) async fn next(&mut self, now: Instant) -> Result<u64, String> {
        let mut batch = Batch::new();
        batch.add(&NONCES, &self.key, 1, MAX);
        let sums = batch.commit(&*self.store, Durability::Durable).await.map_err(|error| error.to_string())?;
        let nonce = sums.first().and_then(|sum| u64::try_from(*sum - 1).ok()).ok_or("the store counted no nonce")?;
        let valid_for = self.valid_for;
        self.taken.retain(|_, taken| now.duration_since(*taken) < valid_for);
        self.taken.insert(nonce, now);
        Ok(nonce)
    }

    /// Returns whether a returned nonce may still be used. `behind` is the number of returned nonces after it. A nonce
    /// that other hosts may have filled can be used only if nobody has taken a later one.
    pub(super) async fn keeps(&mut self, nonce: u64, behind: usize, now: Instant) -> Result<bool, String> {
        if self.taken.get(&nonce).is_some_and(|taken| now.duration_since(*taken) < self.valid_for) {
            return Ok(true);
        }
        let is_last = self.sum().await? == i128::from(nonce) + 1 + behind as i128;
        if is_last {
            self.taken.insert(nonce, now);
        }
        Ok(is_last)
    }

    /// Raises the counter to the node's count, so that no lower nonce is assigned.
    pub(super) async fn raise(&self, count: u64) -> Result<(), String> {
        let count = i128::from(count);
        loop {
            let sum = self.sum().await?;
            if sum >= count {
                return Ok(());
            }
            let mut batch = Batch::new();
            batch.add(&NONCES, &self.key, count - sum, SumLimit::Ceiling(count));
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => return Ok(()),
                // Another host was faster. The counter never decreases.
                Err(StoreError::Beyond { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn sum(&self) -> Result<i128, String> {
        NONCES.get(&*self.store, &self.key).await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_base::clock::Clock;
    use tollhouse_store::memory::MemoryStore;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Counters of two hosts.
    fn nonces() -> [Nonces; 2] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::default()));
        [(); 2].map(|()| Nonces::of(&store, "eip155:84532/0xa".to_owned(), TIMEOUT).unwrap())
    }

    #[test]
    fn an_exclusive_store_needs_no_nonce_counter() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        assert!(Nonces::of(&store, String::new(), TIMEOUT).is_none());
    }

    #[tokio::test]
    async fn hosts_get_distinct_nonces_above_those_of_the_chain() {
        let ([mut one, mut other], now) = (nonces(), Instant::now());
        let (raised, again) = tokio::join!(one.raise(7), other.raise(7));
        raised.and(again).unwrap();
        for nonce in [7, 9, 11] {
            assert_eq!((one.next(now).await, other.next(now).await), (Ok(nonce), Ok(nonce + 1)));
        }
        one.raise(9).await.unwrap();
        assert_eq!(one.next(now).await, Ok(13), "it never falls");
        other.raise(20).await.unwrap();
        assert_eq!(one.next(now).await, Ok(20));
    }

    #[tokio::test]
    async fn a_released_nonce_is_valid_until_others_may_fill_it() {
        let ([mut one, mut other], now) = (nonces(), Instant::now());
        for nonce in 0..3 {
            assert_eq!(one.next(now).await, Ok(nonce));
        }
        let late = now + TIMEOUT / 2;
        assert_eq!(one.keeps(1, 0, now).await, Ok(true));
        assert_eq!(one.keeps(1, 0, late).await, Ok(false), "2 waits for it");
        assert_eq!(one.keeps(1, 1, late).await, Ok(true), "2 was given back too");
        assert_eq!(one.keeps(2, 0, late).await, Ok(true));
        assert_eq!(other.next(late).await, Ok(3));
        assert_eq!(one.keeps(2, 0, late).await, Ok(true), "3 has waited for nothing yet");
        assert_eq!(one.keeps(2, 0, late + TIMEOUT / 2).await, Ok(false));
        assert_eq!(other.keeps(2, 0, late).await, Ok(false), "another host's");
    }
}
