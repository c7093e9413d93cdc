//! Names of the public tree, asked of the system's name servers: by packets, not by threads.
//!
//! A name's server may take as long as it likes, and it may be the builder's own. So lookups are counted: so many are under way
//! for all, owners have shares of them, and one that takes too long is given up with its sockets. Answers are kept for
//! as long as they say, within bounds; what is kept takes no place. Neither the hosts file nor search domains are looked at.
//!
//! Servers are asked one after the other, the next where one is silent for [`PATIENCE`] or knows nothing, and the one that answered
//! last is asked first: one that is dead costs that once. A server's answer that is cut short over UDP is asked for over TCP, of the
//! same server. Addresses of version 6 are waited for no longer than [`LATE`] where those of version 4 are there.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex, PoisonError,
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
use tollhouse_fair::{Fair, Share};

use super::{
    Lookup,
    limits::{ADDRESSES, DNS_WALL, KEPT_FOR, KEPT_NAMES_BYTES, LOOKUPS, UNKNOWN_FOR},
};

/// So long after they were read, the system's settings are read again.
const SETTINGS_FOR: Duration = Duration::from_secs(60);

/// A server's silence ends before the lookup does: of addresses of two kinds, those that came are an answer.
const SILENCE: Duration = Duration::from_millis(1_800);

/// How long a server may be silent before the next one is asked as well.
const PATIENCE: Duration = Duration::from_millis(400);

/// How long addresses of version 6 may come after those of version 4.
const LATE: Duration = Duration::from_millis(200);

/// What an answer takes beside its name and addresses, about, in bytes.
const KEPT_BYTES: usize = 128;

/// Asks name servers.
#[allow(unreachable_pub, reason = "tests of other crates use it")]
pub struct Dns(Arc<Inner>);

struct Inner {
    settings: Box<dyn Fn() -> Settings + Send + Sync>,
    /// Made when the first name is asked for, and again from time to time.
    servers: Mutex<Option<(Instant, Arc<Servers>)>>,
    places: Arc<Fair<Box<str>>>,
    answers: Cache<String, Answer>,
}

/// The name servers, each by itself.
struct Servers {
    resolvers: Vec<TokioResolver>,
    /// The one that answered last.
    first: AtomicUsize,
}

/// Whom to ask, and how.
pub(crate) type Settings = (Vec<NameServerConfig>, ResolverOpts);

#[derive(Clone)]
struct Answer {
    /// None where the name does not exist.
    addresses: Arc<[IpAddr]>,
    until: Instant,
}

impl Dns {
    /// Asks the name servers of `/etc/resolv.conf`.
    pub(super) fn of_system() -> Self {
        Self::new(system_settings)
    }

    pub(crate) fn new(settings: impl Fn() -> Settings + Send + Sync + 'static) -> Self {
        let bytes = |name: &String, answer: &Answer| {
            let bytes = name.len() + answer.addresses.len() * size_of::<IpAddr>() + KEPT_BYTES;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let answers = Cache::builder().weigher(bytes).max_capacity(KEPT_NAMES_BYTES).build();
        let (settings, places) = (Box::new(settings), Fair::new(LOOKUPS, Share::OfFree));
        Self(Arc::new(Inner { settings, servers: Mutex::default(), places, answers }))
    }
}

impl Lookup for Dns {
    fn lookup(&self, owner: &str, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (inner, owner) = (Arc::clone(&self.0), Box::<str>::from(owner));
        Box::pin(async move {
            if let Some(kept) = inner.kept(&name) {
                return Ok(kept);
            }
            let _place = inner.places.turn(owner).await;
            // Somebody else may have asked while this one waited.
            match inner.kept(&name) {
                Some(kept) => Ok(kept),
                None => timeout(DNS_WALL, inner.ask(name)).await?,
            }
        })
    }
}

impl Inner {
    fn kept(&self, name: &str) -> Option<Vec<IpAddr>> {
        let answer = self.answers.get(name).filter(|answer| Instant::now() < answer.until)?;
        Some(answer.addresses.to_vec())
    }

    async fn ask(&self, name: String) -> io::Result<Vec<IpAddr>> {
        // The dot at its end says that it is whole: no domain is put behind it.
        let absolute = Name::from_ascii(format!("{name}.")).map_err(io::Error::other)?;
        let servers = self.servers().map_err(io::Error::other)?;
        let Found { addresses, left } = servers.ask(&absolute).await.map_err(io::Error::other)?;
        let bounds = if addresses.is_empty() { UNKNOWN_FOR } else { KEPT_FOR };
        let until = Instant::now() + left.clamp(*bounds.start(), *bounds.end());
        self.answers.insert(name, Answer { addresses: addresses.as_slice().into(), until });
        Ok(addresses)
    }

    fn servers(&self) -> Result<Arc<Servers>, NetError> {
        let mut made = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((at, servers)) if at.elapsed() < SETTINGS_FOR => Ok(Arc::clone(servers)),
            _ => {
                let first = made.as_ref().map_or(0, |(_, before)| before.first.load(Ordering::Relaxed));
                let servers = Arc::new(Servers::asking((self.settings)(), first)?);
                *made = Some((Instant::now(), Arc::clone(&servers)));
                Ok(servers)
            }
        }
    }
}

/// What is known of a name: its addresses, none where it has none, and how long that holds.
struct Found {
    addresses: Vec<IpAddr>,
    left: Duration,
}

impl Servers {
    fn asking((servers, mut options): Settings, first: usize) -> Result<Self, NetError> {
        options.timeout = SILENCE;
        // A packet that is lost is sent again within that time; all of it is not begun again.
        options.attempts = 0;
        options.use_hosts_file = ResolveHosts::Never;
        // Whole answers may be 64 KiB each, and it counts them by number: what is kept is kept here.
        options.cache_size = 0;
        // Two for each lookup, if one connection has to carry them all.
        options.max_active_requests = 2 * LOOKUPS;
        let one = |server| {
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options.clone()).build()
        };
        let resolvers = servers.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { first: AtomicUsize::new(if first < resolvers.len() { first } else { 0 }), resolvers })
    }

    /// The first answer there is, of the server that answered last or, where that is silent or knows nothing, of the next ones.
    async fn ask(&self, name: &Name) -> Result<Found, NetError> {
        let (count, first) = (self.resolvers.len(), self.first.load(Ordering::Relaxed));
        let mut next = (0..count).map(|place| (first + place) % count);
        let ask = |server: usize| async move { (server, addresses(&self.resolvers[server], name).await) };
        let mut asked: FuturesUnordered<_> = next.next().map(ask).into_iter().collect();
        let mut failure = NetError::NoConnections;
        loop {
            let answered = tokio::select! {
                answered = asked.next() => answered,
                () = sleep(PATIENCE), if next.len() > 0 => {
                    asked.extend(next.next().map(ask));
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
                    asked.extend(next.next().map(ask));
                }
                None => return Err(failure),
            }
        }
    }
}

/// What one server knows of a name's addresses of both kinds.
async fn addresses(server: &TokioResolver, name: &Name) -> Result<Found, NetError> {
    let of_version_4 = of_kind(server, name, RecordType::A);
    let of_version_6 = of_kind(server, name, RecordType::AAAA);
    tokio::pin!(of_version_4, of_version_6);
    let (four, six) = tokio::select! {
        four = &mut of_version_4 => {
            let has_some = four.as_ref().is_ok_and(|four| !four.addresses.is_empty());
            let wait = if has_some { LATE } else { SILENCE };
            let six = timeout(wait, of_version_6).await.unwrap_or(Err(NetError::Timeout));
            (four, six)
        }
        six = &mut of_version_6 => (of_version_4.await, six),
    };
    match (four, six) {
        (Ok(four), Ok(six)) => {
            let both = !four.addresses.is_empty() && !six.addresses.is_empty();
            let left = match (four.addresses.is_empty(), six.addresses.is_empty()) {
                (false, true) => four.left,
                (true, false) => six.left,
                _ => four.left.min(six.left),
            };
            // Of both kinds where there are more than are looked at.
            let most = if both { ADDRESSES / 2 } else { ADDRESSES };
            Ok(Found { addresses: four.addresses.into_iter().take(most).chain(six.addresses.into_iter().take(most)).collect(), left })
        }
        (Ok(one), Err(_)) | (Err(_), Ok(one)) if !one.addresses.is_empty() => Ok(one),
        // It may have addresses of the kind that nobody told of.
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

async fn of_kind(server: &TokioResolver, name: &Name, kind: RecordType) -> Result<Found, NetError> {
    match server.lookup(name.clone(), kind).await {
        Ok(found) => {
            let left = Instant::from_std(found.valid_until()).saturating_duration_since(Instant::now());
            let address = |data: &RData| match data {
                RData::A(address) => Some(IpAddr::V4(**address)),
                RData::AAAA(address) => Some(IpAddr::V6(**address)),
                _ => None,
            };
            Ok(Found { addresses: found.answers().iter().filter_map(|record| address(&record.data)).take(ADDRESSES).collect(), left })
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none)))
            if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError) =>
        {
            Ok(Found { addresses: Vec::new(), left: Duration::from_secs(none.negative_ttl.unwrap_or_default().into()) })
        }
        Err(error) => Err(error),
    }
}

fn system_settings() -> Settings {
    match read_system_conf() {
        Ok((config, options)) => (config.name_servers().to_vec(), options),
        Err(error) => {
            // As the system's own library does.
            tracing::warn!(%error, "the system names no name server: the one of this machine is asked");
            (vec![NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into())], ResolverOpts::default())
        }
    }
}

#[cfg(test)]
mod tests;
