//! Who asks, by address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::{extract::ConnectInfo, http::Extensions};

/// Whose request it is. One that came over no connection is nobody's.
pub(crate) fn peer(request: &Extensions) -> IpAddr {
    let peer = request.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip().to_canonical())
}

/// What counts as one client: who has an address of IPv6 has a /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}
