//! Decides which hosts' connections are kept open for reuse.
//!
//! An idle connection costs a descriptor and memory while nobody waits for it. The client limits idle connections per
//! host. This module limits the number of such hosts, of which owners have shares. A connection to any other host
//! serves one request.

use std::{collections::HashMap, sync::Arc};

use tokio::time::Instant;
use tollhouse_base::lock::Lock;
use tollhouse_fair::{FairPermit, FairSemaphore, Share};
use url::{Position, Url};

use super::limits::{CACHED_HOSTS, CACHED_HOSTS_TTL};

pub(super) struct AddressCache {
    /// By scheme, name and port.
    hosts: Lock<HashMap<String, Host>>,
    slots: Arc<FairSemaphore<Box<str>>>,
}

struct Host {
    used: Instant,
    /// Held by the owner that first used the host.
    _slot: FairPermit<Box<str>>,
}

impl AddressCache {
    pub(super) fn new() -> Self {
        Self { hosts: Lock::default(), slots: FairSemaphore::new(CACHED_HOSTS, Share::OfFree) }
    }

    /// Returns whether the connection of this request may be kept.
    pub(super) fn keeps(&self, owner: &str, url: &Url) -> bool {
        let (host, now) = (&url[..Position::BeforePath], Instant::now());
        let mut hosts = self.hosts.lock();
        if let Some(host) = hosts.get_mut(host) {
            host.used = now;
            return true;
        }
        hosts.retain(|_, host| now - host.used < CACHED_HOSTS_TTL);
        let Some(slot) = self.slots.take(owner.into()) else { return false };
        hosts.insert(host.to_owned(), Host { used: now, _slot: slot });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(host: usize) -> Url {
        Url::parse(&format!("https://{host}.example.com/a/b?c")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_of_many_hosts_leaves_room_for_those_of_others() {
        let stored = AddressCache::new();
        let max = CACHED_HOSTS - CACHED_HOSTS / 8;
        for host in 0..2 * CACHED_HOSTS {
            assert_eq!(stored.keeps("greedy", &url(host)), host < max, "{host}");
        }
        assert!(stored.keeps("other", &url(CACHED_HOSTS)) && stored.keeps("greedy", &url(CACHED_HOSTS)));
        tokio::time::advance(CACHED_HOSTS_TTL / 2).await;
        assert!(stored.keeps("greedy", &url(0)));
        tokio::time::advance(CACHED_HOSTS_TTL / 2).await;
        assert!(stored.keeps("greedy", &url(max)));
        assert_eq!(stored.hosts.lock().len(), 2);
    }
}
