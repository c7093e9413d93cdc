//! Resolves public names by asking the system's name servers over the network, without a thread for each lookup.
//!
//! The name server of a domain can take as long as it likes, and may belong to a builder. So the number of concurrent
//! lookups is limited, owners have shares of it, and a lookup that takes too long is abandoned together with its
//! sockets. Answers are cached for as long as they say, within limits. Cached answers need no slot. The hosts file and
//! search domains are ignored.
//!
//! Servers are asked one after the other. The next one is asked if one is silent for [`TIMEOUT`] or has no answer. The
//! server that answered last is asked first, so that a dead server costs that delay only once. A truncated UDP answer
//! is requested again from the same server over TCP. If IPv4 addresses have arrived, IPv6 addresses are awaited no
//! longer than [`STALE_FOR`].

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, RData, RecordType},
    },
    system_conf::read_system_conf,
};
use moka::sync::Cache;
use tokio::time::{Instant, sleep, timeout};
use tollhouse_base::lock::Lock;
use tollhouse_fair::{FairSemaphore, Share};

use super::{
    Lookup,
    limits::{ADDRESSES, CACHE_TTL, CACHED_NAMES_BYTES, DNS_WALL, LOOKUPS, UNKNOWN_FOR},
};

/// How long the system's settings are used before they are read again.
const SETTINGS_FOR: Duration = Duration::from_secs(60);

/// Timeout for one server, shorter than that for the lookup, so that the addresses of one kind that did arrive can be
/// used.
const SILENCE: Duration = Duration::from_millis(1_800);

/// How long a server may be silent before the next one is asked too.
const TIMEOUT: Duration = Duration::from_millis(400);

/// How long to wait for IPv6 addresses after the IPv4 addresses have arrived.
const STALE_FOR: Duration = Duration::from_millis(200);

/// Approximate bytes of a cached answer besides its name and addresses.
const CACHE_BYTES: usize = 128;

#[allow(unreachable_pub, reason = "tests of other crates use it")]
pub struct Dns(Arc<Inner>);

struct Inner {
    settings: Box<dyn Fn() -> Settings + Send + Sync>,
    /// Created for the first lookup, and again from time to time.
    servers: Lock<Option<(Instant, Arc<Servers>)>>,
    slots: Arc<FairSemaphore<Box<str>>>,
    answers: Cache<String, Answer>,
}

/// The name servers, each with its own client.
struct Servers {
    resolvers: Vec<TokioResolver>,
    /// Index of the server that answered last.
    first: AtomicUsize,
}

pub(crate) type Settings = (Vec<NameServerConfig>, ResolverOpts);

#[derive(Clone)]
struct Answer {
    /// Empty if the name does not exist.
    addresses: Arc<[IpAddr]>,
    until: Instant,
}

impl Dns {
    /// Uses the name servers of `/etc/resolv.conf`.
    pub(super) fn of_system() -> Self {
        Self::new(system_settings)
    }

    pub(crate) fn new(settings: impl Fn() -> Settings + Send + Sync + 'static) -> Self {
        let bytes = |name: &String, answer: &Answer| {
            let bytes = name.len() + answer.addresses.len() * size_of::<IpAddr>() + CACHE_BYTES;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let answers = Cache::builder().weigher(bytes).max_capacity(CACHED_NAMES_BYTES).build();
        let (settings, slots) = (Box::new(settings), FairSemaphore::new(LOOKUPS, Share::OfFree));
        Self(Arc::new(Inner { settings, servers: Lock::default(), slots, answers }))
    }
}

impl Lookup for Dns {
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (inner, owner) = (Arc::clone(&self.0), Box::<str>::from(owner));
        Box::pin(async move {
            if let Some(stored) = inner.cached(&name) {
                return Ok(stored);
            }
            let _slot = inner.slots.turn(owner).await;
            // Another lookup may have cached the answer while this one waited.
            match inner.cached(&name) {
                Some(stored) => Ok(stored),
                None => timeout(DNS_WALL, inner.ask(name)).await?,
            }
        })
    }
}

impl Inner {
    fn cached(&self, name: &str) -> Option<Vec<IpAddr>> {
        let answer = self.answers.get(name).filter(|answer| Instant::now() < answer.until)?;
        Some(answer.addresses.to_vec())
    }

    async fn ask(&self, name: String) -> io::Result<Vec<IpAddr>> {
        // The dot at the end makes the name absolute, so that no search domain is appended.
        let absolute = Name::from_ascii(format!("{name}.")).map_err(io::Error::other)?;
        let servers = self.servers().map_err(io::Error::other)?;
        let CachedAnswer { addresses, remaining } = servers.ask(&absolute).await.map_err(io::Error::other)?;
        let bounds = if addresses.is_empty() { UNKNOWN_FOR } else { CACHE_TTL };
        let until = Instant::now() + remaining.clamp(*bounds.start(), *bounds.end());
        self.answers.insert(name, Answer { addresses: addresses.as_slice().into(), until });
        Ok(addresses)
    }

    fn servers(&self) -> Result<Arc<Servers>, NetError> {
        let mut cached_servers = self.servers.lock();
        match &*cached_servers {
            Some((at, servers)) if at.elapsed() < SETTINGS_FOR => Ok(Arc::clone(servers)),
            _ => {
                let first = cached_servers.as_ref().map_or(0, |(_, before)| before.first.load(Ordering::Relaxed));
                let servers = Arc::new(Servers::asking((self.settings)(), first)?);
                *cached_servers = Some((Instant::now(), Arc::clone(&servers)));
                Ok(servers)
            }
        }
    }
}

/// A name's addresses (none if it has none), and how long they are valid.
struct CachedAnswer {
    addresses: Vec<IpAddr>,
    remaining: Duration,
}

impl Servers {
    fn asking((servers, mut options): Settings, first: usize) -> Result<Self, NetError> {
        options.timeout = SILENCE;
        // A lost packet is sent again within that time; the whole lookup is not repeated.
        options.attempts = 0;
        options.use_hosts_file = ResolveHosts::Never;
        // The library's cache limits only the number of answers, which can have 64 KiB each. Use the cache here
        // instead.
        options.cache_size = 0;
        // Each lookup sends two queries, possibly all over one connection.
        options.max_active_requests = 2 * LOOKUPS;
        let one = |server| {
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options.clone()).build()
        };
        let resolvers = servers.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { first: AtomicUsize::new(if first < resolvers.len() { first } else { 0 }), resolvers })
    }

    /// Returns the first answer: from the server that answered last, or from the next ones if it is silent or has no
    /// answer.
    async fn ask(&self, name: &Name) -> Result<CachedAnswer, NetError> {
        let (count, first) = (self.resolvers.len(), self.first.load(Ordering::Relaxed));
        let mut next = (0..count).map(|index| (first + index) % count);
        let ask = |server: usize| async move { (server, addresses(&self.resolvers[server], name).await) };
        let mut pending: FuturesUnordered<_> = next.next().map(ask).into_iter().collect();
        let mut failure = NetError::NoConnections;
        loop {
            let answered = tokio::select! {
                answered = pending.next() => answered,
                () = sleep(TIMEOUT), if next.len() > 0 => {
                    pending.extend(next.next().map(ask));
                    continue;
                }
            };
            match answered {
                Some((server, Ok(found))) => {
                    self.first.store(server, Ordering::Relaxed);
                    return Ok(found);
                }
                Some((_, Err(error))) => {
                    failure = error;
                    pending.extend(next.next().map(ask));
                }
                None => return Err(failure),
            }
        }
    }
}

/// Asks one server for a name's IPv4 and IPv6 addresses.
async fn addresses(server: &TokioResolver, name: &Name) -> Result<CachedAnswer, NetError> {
    let ipv4 = of_kind(server, name, RecordType::A);
    let ipv6 = of_kind(server, name, RecordType::AAAA);
    tokio::pin!(ipv4, ipv6);
    let (v4, v6) = tokio::select! {
        v4 = &mut ipv4 => {
            let has_some = v4.as_ref().is_ok_and(|v4| !v4.addresses.is_empty());
            let wait = if has_some { STALE_FOR } else { SILENCE };
            let v6 = timeout(wait, ipv6).await.unwrap_or(Err(NetError::Timeout));
            (v4, v6)
        }
        v6 = &mut ipv6 => (ipv4.await, v6),
    };
    match (v4, v6) {
        (Ok(v4), Ok(v6)) => {
            let both = !v4.addresses.is_empty() && !v6.addresses.is_empty();
            let remaining = match (v4.addresses.is_empty(), v6.addresses.is_empty()) {
                (false, true) => v4.remaining,
                (true, false) => v6.remaining,
                _ => v4.remaining.min(v6.remaining),
            };
            // If there are more addresses than are used, take some of both kinds.
            let max = if both { ADDRESSES / 2 } else { ADDRESSES };
            Ok(CachedAnswer {
                addresses: v4.addresses.into_iter().take(max).chain(v6.addresses.into_iter().take(max)).collect(),
                remaining,
            })
        }
        (Ok(one), Err(_)) | (Err(_), Ok(one)) if !one.addresses.is_empty() => Ok(one),
        // The name may have addresses of the kind for which the query failed.
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

async fn of_kind(server: &TokioResolver, name: &Name, kind: RecordType) -> Result<CachedAnswer, NetError> {
    match server.lookup(name.clone(), kind).await {
        Ok(found) => {
            let remaining = Instant::from_std(found.valid_until()).saturating_duration_since(Instant::now());
            let address = |data: &RData| match data {
                RData::A(address) => Some(IpAddr::V4(**address)),
                RData::AAAA(address) => Some(IpAddr::V6(**address)),
                _ => None,
            };
            Ok(CachedAnswer {
                addresses: found.answers().iter().filter_map(|record| address(&record.data)).take(ADDRESSES).collect(),
                remaining,
            })
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none)))
            if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError) =>
        {
            Ok(CachedAnswer { addresses: Vec::new(), remaining: Duration::from_secs(none.negative_ttl.unwrap_or_default().into()) })
        }
        Err(error) => Err(error),
    }
}

fn system_settings() -> Settings {
    match read_system_conf() {
        Ok((config, options)) => (config.name_servers().to_vec(), options),
        Err(error) => {
            // As the C library does.
            tracing::warn!(%error, "the system has no name server configured, so the one of this machine is used");
            (vec![NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into())], ResolverOpts::default())
        }
    }
}

#[cfg(test)]
mod tests;
