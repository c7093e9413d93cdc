//! The host's own addresses, which the grant of any public host does not include.
//!
//! Otherwise a tool that fetches whatever its callers name could call its own host, as if it were a caller there. A
//! tool whose allowed hosts name this host reaches it. Addresses that are not public are refused anyway.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tollhouse_fair::HOST;
use url::{Host, Url};

use super::{
    addresses,
    resolve::{Lookup, OwnAddresses},
};

/// Addresses of documentation: a socket that is connected to one has the address that the system sends from. Nothing is
/// sent.
const FAR: [(IpAddr, IpAddr); 2] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
];

/// Where a host can be reached.
#[derive(Debug, Clone, Default)]
pub struct OwnHost {
    /// The name in its public URL.
    name: Option<String>,
    /// The address in its public URL, and those of its listener.
    addresses: Vec<IpAddr>,
}

impl OwnHost {
    /// Returns the addresses of a host with this public URL and listener. A listener at all addresses has those that the
    /// system sends from.
    pub fn new(public_url: Option<&str>, listen: SocketAddr) -> Self {
        let url = public_url.and_then(|url| Url::parse(url).ok());
        let mut own = Self::default();
        match url.as_ref().and_then(Url::host) {
            Some(Host::Domain(name)) => own.name = Some(name.trim_end_matches('.').to_owned()),
            Some(Host::Ipv4(address)) => own.addresses.push(address.into()),
            Some(Host::Ipv6(address)) => own.addresses.push(address.into()),
            None => {}
        }
        if listen.ip().is_unspecified() {
            own.addresses.extend(FAR.iter().filter_map(|(any, far)| sent_from(*any, *far)));
        } else {
            own.addresses.push(listen.ip());
        }
        own.addresses.retain(|address| addresses::refusal(*address).is_none());
        own
    }
}

fn sent_from(any: IpAddr, far: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// A host with the resolver that finds its own name.
pub(super) struct OwnLookup {
    pub(super) own: OwnHost,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl OwnLookup {
    /// Returns whether a URL leads to this host. The addresses of another name are checked when it is resolved.
    pub(super) async fn is_named_by(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => self.own.name.as_deref() == Some(name),
            Some(Host::Ipv4(address)) => self.include(&[address.into()]).await,
            Some(Host::Ipv6(address)) => self.include(&[address.into()]).await,
            None => false,
        }
    }
}

impl OwnAddresses for OwnLookup {
    /// If the host's own name does not resolve, only the addresses of its listener count.
    fn include<'a>(&'a self, found: &'a [IpAddr]) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if found.iter().any(|address| self.own.addresses.contains(address)) {
                return true;
            }
            // A name of this machine's network resolves to addresses that are refused anyway.
            let Some(name) = self.own.name.as_ref().filter(|name| addresses::name_refusal(name).is_none()) else { return false };
            self.lookup.lookup(HOST, name.clone()).await.is_ok_and(|own| own.iter().any(|address| found.contains(address)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_those_of_the_url_and_the_listener_that_are_public() {
        let own = |url, listen: &str| OwnHost::new(url, listen.parse().unwrap());
        let named = own(Some("https://pay.example.net:8443/x"), "93.184.216.34:4020");
        assert_eq!((named.name.as_deref(), named.addresses), (Some("pay.example.net"), vec!["93.184.216.34".parse().unwrap()]));
        let local = own(Some("http://127.0.0.1:4020"), "127.0.0.1:4020");
        assert_eq!((local.name, local.addresses.len()), (None, 0));
        let literal = own(Some("https://[2606:4700::1]/"), "10.0.0.1:80");
        assert_eq!(literal.addresses, ["2606:4700::1".parse::<IpAddr>().unwrap()]);
        assert!(own(None, "0.0.0.0:80").addresses.iter().all(|address| addresses::refusal(*address).is_none()));
    }
}
