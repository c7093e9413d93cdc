//! Client addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::{extract::ConnectInfo, http::Extensions};

/// Returns the address of the client. A request without a connection has the unspecified address.
pub fn peer(request: &Extensions) -> IpAddr {
    let peer = request.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip().to_canonical())
}

/// Returns the network that counts as one client: the address for IPv4, the /64 for IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

/// Returns the host of a URL for use in names. The colons of an IPv6 address become dashes.
pub fn host_name(url: &str) -> String {
    let url = url::Url::parse(url).ok();
    let host = url.as_ref().and_then(url::Url::host_str).unwrap_or("localhost");
    host.trim_matches(['[', ']']).replace(':', "-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn host_name_comes_from_the_url() {
        for (url, name) in [
            ("https://tools.example", "tools.example"),
            ("https://Tools.Example:8443/below/it", "tools.example"),
            ("http://127.0.0.1:4020", "127.0.0.1"),
            ("http://[2001:db8::1]:4020", "2001-db8--1"),
            ("http://someone@[::1]/", "--1"),
            ("no url", "localhost"),
        ] {
            assert_eq!(super::host_name(url), name, "{url}");
        }
    }
}
