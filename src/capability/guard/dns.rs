//! Names of the public tree, asked of the system's name servers: by packets, not by threads.
//!
//! A name's server may take as long as it likes, and it may be the builder's own. So lookups are counted: so many are under way
//! for all, owners have shares of them, and one that takes too long is given up with its sockets. Answers are kept for
//! as long as they say, within bounds; what is kept takes no place. Neither the hosts file nor search domains are looked at.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use hickory_resolver::{
    TokioResolver,
    config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{op::ResponseCode, rr::Name},
    system_conf::read_system_conf,
};
use moka::sync::Cache;
use tokio::time::{Instant, timeout};
use tollhouse_fair::{Fair, Share};

use super::{
    Lookup,
    limits::{ADDRESSES, DNS_WALL, KEPT_FOR, KEPT_NAMES_BYTES, LOOKUPS, UNKNOWN_FOR},
};

/// So long after they were read, the system's settings are read again.
const SETTINGS_FOR: Duration = Duration::from_secs(60);

/// A server's silence ends before the lookup does: of addresses of two kinds, those that came are an answer.
const SILENCE: Duration = Duration::from_millis(1_800);

/// What an answer takes beside its name and addresses, about, in bytes.
const KEPT_BYTES: usize = 128;

/// Asks name servers.
pub(crate) struct Dns(Arc<Inner>);

struct Inner {
    settings: Box<dyn Fn() -> Settings + Send + Sync>,
    /// Made when the first name is asked for, and again from time to time.
    resolver: Mutex<Option<(Instant, TokioResolver)>>,
    places: Arc<Fair<Box<str>>>,
    answers: Cache<String, Answer>,
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
        Self(Arc::new(Inner { settings, resolver: Mutex::default(), places, answers }))
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
        let (addresses, kept_for) = match self.resolver().map_err(io::Error::other)?.lookup_ip(absolute).await {
            Ok(found) => {
                let left = Instant::from_std(found.valid_until()).saturating_duration_since(Instant::now());
                (found.iter().take(ADDRESSES).collect(), left.clamp(*KEPT_FOR.start(), *KEPT_FOR.end()))
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(none)))
                if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError) =>
            {
                let left = Duration::from_secs(none.negative_ttl.unwrap_or_default().into());
                (Vec::new(), left.clamp(*UNKNOWN_FOR.start(), *UNKNOWN_FOR.end()))
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        self.answers.insert(name, Answer { addresses: addresses.as_slice().into(), until: Instant::now() + kept_for });
        Ok(addresses)
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut made = self.resolver.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((at, resolver)) if at.elapsed() < SETTINGS_FOR => Ok(resolver.clone()),
            _ => {
                let resolver = asking((self.settings)())?;
                *made = Some((Instant::now(), resolver.clone()));
                Ok(resolver)
            }
        }
    }
}

fn asking((servers, mut options): Settings) -> Result<TokioResolver, NetError> {
    options.timeout = SILENCE;
    // A packet that is lost is sent again within that time; all of it is not begun again.
    options.attempts = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // Whole answers may be 64 KiB each, and it counts them by number: what is kept is kept here.
    options.cache_size = 0;
    // Two for each lookup, if one connection has to carry them all.
    options.max_active_requests = 2 * LOOKUPS;
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).with_options(options).build()
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
