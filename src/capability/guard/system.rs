//! Names as the system takes them, with its hosts file and search domains: for the hosts that settings exempt.
//!
//! The system's library holds a thread for as long as it asks, and nothing ends it. So there are few of them, and a lookup that
//! was given up keeps its own until the library gives up too.
//!
//! The library asks one server after the other, five seconds each, and remembers nothing. So where it is silent, names with a dot are
//! asked for by packets as well, which finds the server that answers; and what a name was last is kept for a while.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tollhouse_fair::{Fair, Share};

use super::{
    Lookup,
    dns::Dns,
    limits::{ADDRESSES, DNS_WALL, LOOKUP_THREADS},
};

/// How long the system may be silent before a name is asked for by packets as well.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the addresses of a name are kept. The names are those of settings: there are few.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// How a name is asked for, on a thread.
type Ask = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The addresses that each name had last, and when.
type LastAddresses = HashMap<String, (Instant, Vec<IpAddr>)>;

/// Asks the system.
pub(super) struct System {
    threads: Arc<Fair<Box<str>>>,
    ask: Arc<Ask>,
    /// Asks by packets.
    packets: Option<Arc<dyn Lookup>>,
    kept: Arc<Mutex<LastAddresses>>,
}

impl System {
    pub(super) fn new() -> Self {
        let system = Self::asking(|name| Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).take(ADDRESSES).collect()));
        Self { packets: Some(Arc::new(Dns::of_system())), ..system }
    }

    fn asking(ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { threads: Fair::new(LOOKUP_THREADS, Share::OfFree), ask: Arc::new(ask), packets: None, kept: Arc::default() }
    }
}

impl Lookup for System {
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let kept = Arc::clone(&self.kept);
        let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some((_, addresses)) = known.filter(|(at, _)| at.elapsed() < KEPT_FOR) {
            return Box::pin(future::ready(Ok(addresses)));
        }
        let (threads, ask, asked_for) = (Arc::clone(&self.threads), Arc::clone(&self.ask), name.clone());
        let by_packets = self.packets.clone().filter(|_| name.contains('.')).map(|packets| packets.lookup(owner, name.clone()));
        let owner = Box::<str>::from(owner);
        let by_system = async move {
            let thread = threads.turn(owner).await;
            let asked = spawn_blocking(move || {
                let _thread = thread;
                ask(&asked_for)
            });
            timeout(DNS_WALL, asked).await??
        };
        let by_packets = async move {
            sleep(PATIENCE).await;
            match by_packets {
                Some(lookup) => match lookup.await {
                    Ok(found) if !found.is_empty() => found,
                    // The system may know a name that no server does.
                    Ok(_) | Err(_) => future::pending().await,
                },
                None => future::pending().await,
            }
        };
        Box::pin(async move {
            let found = tokio::select! {
                found = by_system => found?,
                found = by_packets => found,
            };
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(name, (Instant::now(), found.clone()));
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests;
