//! Decides which hosts' connections are kept open for reuse.
//!
//! An idle connection costs a descriptor and memory while nobody waits for it. The client limits idle connections per
//! host. This module limits the number of such hosts, of which owners have shares. A connection to any other host
//! serves one request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;
use tollhouse_fair::{Fair, Leave, Share};
use url::{Position, Url};

use super::limits::{KEPT_HOSTS, KEPT_HOSTS_FOR};

pub(super) struct Kept {
    /// By scheme, name and port.
    hosts: Mutex<HashMap<String, Host>>,
    places: Arc<Fair<Box<str>>>,
}

struct Host {
    used: Instant,
    /// Held by the owner that first used the host.
    _place: Leave<Box<str>>,
}

impl Kept {
    pub(super) fn new() -> Self {
        Self { hosts: Mutex::default(), places: Fair::new(KEPT_HOSTS, Share::OfFree) }
    }

    /// Returns whether the connection of this request may be kept.
    pub(super) fn keeps(&self, owner: &str, url: &Url) -> bool {
        let (host, now) = (&url[..Position::BeforePath], Instant::now());
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get_mut(host) {
            host.used = now;
            return true;
        }
        hosts.retain(|_, host| now - host.used < KEPT_HOSTS_FOR);
        let Some(place) = self.places.take(owner.into()) else { return false };
        hosts.insert(host.to_owned(), Host { used: now, _place: place });
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
        let kept = Kept::new();
        let most = KEPT_HOSTS - KEPT_HOSTS / 8;
        for host in 0..2 * KEPT_HOSTS {
            assert_eq!(kept.keeps("greedy", &url(host)), host < most, "{host}");
        }
        assert!(kept.keeps("other", &url(KEPT_HOSTS)) && kept.keeps("greedy", &url(KEPT_HOSTS)));
        tokio::time::advance(KEPT_HOSTS_FOR / 2).await;
        assert!(kept.keeps("greedy", &url(0)));
        tokio::time::advance(KEPT_HOSTS_FOR / 2).await;
        assert!(kept.keeps("greedy", &url(most)));
        assert_eq!(kept.hosts.lock().unwrap().len(), 2);
    }
}
