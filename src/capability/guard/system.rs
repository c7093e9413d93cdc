//! Names as the system takes them, with its hosts file and search domains: for the hosts that settings exempt.
//!
//! The system's library holds a thread for as long as it asks, and nothing ends it. So there are few of them, and a lookup that
//! was given up keeps its own until the library gives up too.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio::{task::spawn_blocking, time::timeout};
use tollhouse_fair::{Fair, Share};

use super::{
    Lookup,
    limits::{ADDRESSES, DNS_WALL, LOOKUP_THREADS},
};

/// How a name is asked for, on a thread.
type Ask = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Asks the system.
pub(super) struct System {
    threads: Arc<Fair<Box<str>>>,
    ask: Arc<Ask>,
}

impl System {
    pub(super) fn new() -> Self {
        Self::asking(|name| Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).take(ADDRESSES).collect()))
    }

    fn asking(ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { threads: Fair::new(LOOKUP_THREADS, Share::OfFree), ask: Arc::new(ask) }
    }
}

impl Lookup for System {
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (threads, owner, ask) = (Arc::clone(&self.threads), Box::<str>::from(owner), Arc::clone(&self.ask));
        Box::pin(async move {
            let thread = threads.turn(owner).await;
            let asked = spawn_blocking(move || {
                let _thread = thread;
                ask(&name)
            });
            timeout(DNS_WALL, asked).await??
        })
    }
}

#[cfg(test)]
mod tests;
