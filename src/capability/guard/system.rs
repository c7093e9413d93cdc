//! Resolves names through the system, with its hosts file and search domains, for hosts that the settings exempt.
//!
//! The system's library blocks a thread during a lookup, and nothing can stop it. So there are few threads, and an
//! abandoned lookup keeps its thread until the library gives up too.
//!
//! The library asks one server after the other, five seconds each, and caches nothing. So if it is silent, names with a
//! dot are also resolved by the DNS client, which finds the server that answers, and a name's last addresses are cached
//! for a while.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tollhouse_base::lock::Lock;
use tollhouse_fair::{FairSemaphore, Share};

use super::{
    Lookup,
    dns::Dns,
    limits::{ADDRESSES, DNS_WALL, LOOKUP_THREADS},
};

/// How long the system may be silent before the DNS client is used too.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How long a name's addresses are cached. Only names in the settings are cached, so there are few.
const CACHE_TTL: Duration = Duration::from_secs(10);

type LookupFn = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The last addresses of each name, and when they were found.
type LastAddresses = HashMap<String, (Instant, Vec<IpAddr>)>;

pub(super) struct SystemResolver {
    threads: Arc<FairSemaphore<Box<str>>>,
    ask: Arc<LookupFn>,
    dns: Option<Arc<dyn Lookup>>,
    cache: Arc<Lock<LastAddresses>>,
}

impl SystemResolver {
    pub(super) fn new() -> Self {
        let system = Self::asking(|name| Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).take(ADDRESSES).collect()));
        Self { dns: Some(Arc::new(Dns::of_system())), ..system }
    }

    fn asking(ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { threads: FairSemaphore::new(LOOKUP_THREADS, Share::OfFree), ask: Arc::new(ask), dns: None, cache: Arc::default() }
    }
}

impl Lookup for SystemResolver {
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let cache = Arc::clone(&self.cache);
        let known = cache.lock().get(&name).cloned();
        if let Some((_, addresses)) = known.filter(|(at, _)| at.elapsed() < CACHE_TTL) {
            return Box::pin(future::ready(Ok(addresses)));
        }
        let (threads, ask, queried) = (Arc::clone(&self.threads), Arc::clone(&self.ask), name.clone());
        let by_dns = self.dns.clone().filter(|_| name.contains('.')).map(|dns| dns.lookup(owner, name.clone()));
        let owner = Box::<str>::from(owner);
        let by_system = async move {
            let thread = threads.turn(owner).await;
            let lookup = spawn_blocking(move || {
                let _thread = thread;
                ask(&queried)
            });
            timeout(DNS_WALL, lookup).await??
        };
        let by_dns = async move {
            sleep(TIMEOUT).await;
            match by_dns {
                Some(lookup) => match lookup.await {
                    Ok(found) if !found.is_empty() => found,
                    // The system may know a name that no server knows.
                    Ok(_) | Err(_) => future::pending().await,
                },
                None => future::pending().await,
            }
        };
        Box::pin(async move {
            let found = tokio::select! {
                found = by_system => found?,
                found = by_dns => found,
            };
            cache.lock().insert(name, (Instant::now(), found.clone()));
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests;
