//! Who asks, by address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::{extract::ConnectInfo, http::Extensions};

/// Whose request it is. One that came over no connection is nobody's.
pub fn peer(request: &Extensions) -> IpAddr {
    let peer = request.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip().to_canonical())
}

/// What counts as one client: who has an address of IPv6 has a /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

/// The host in a URL as names have it: that of IPv6 with dashes in place of its colons.
pub fn host_name(url: &str) -> String {
    let url = url::Url::parse(url).ok();
    let host = url.as_ref().and_then(url::Url::host_str).unwrap_or("localhost");
    host.trim_matches(['[', ']']).replace(':', "-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_is_named_as_its_url_says() {
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
