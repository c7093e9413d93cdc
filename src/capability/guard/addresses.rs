//! A table of public addresses. Addresses that are in no row follow a default rule.
//!
//! IPv4: every address is public except those in `REFUSED_V4`. IPv6: no address is public except those of `2000::/3`
//! outside `REFUSED_V6`. So every form that embeds an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) is
//! refused, whatever it embeds.
//!
//! A new range is a new row, with a case in the tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses, and why requests to it are refused.
#[derive(Debug, Clone, Copy)]
struct Row<A> {
    net: A,
    bits: u32,
    reason: &'static str,
}

const fn v4(net: [u8; 4], bits: u32, reason: &'static str) -> Row<Ipv4Addr> {
    Row { net: Ipv4Addr::new(net[0], net[1], net[2], net[3]), bits, reason }
}

const fn v6(a: u16, b: u16, bits: u32, reason: &'static str) -> Row<Ipv6Addr> {
    Row { net: Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), bits, reason }
}

const REFUSED_V4: &[Row<Ipv4Addr>] = &[
    v4([0, 0, 0, 0], 8, "this network"),
    v4([10, 0, 0, 0], 8, "private"),
    v4([100, 64, 0, 0], 10, "carrier-grade NAT, and cloud metadata behind it"),
    v4([127, 0, 0, 0], 8, "loopback"),
    v4([169, 254, 0, 0], 16, "link-local, and cloud metadata"),
    v4([172, 16, 0, 0], 12, "private"),
    v4([192, 0, 0, 0], 24, "protocol assignments"),
    v4([192, 0, 2, 0], 24, "documentation"),
    v4([192, 31, 196, 0], 24, "AS112"),
    v4([192, 52, 193, 0], 24, "automatic multicast tunnelling"),
    v4([192, 88, 99, 0], 24, "6to4 relay"),
    v4([192, 168, 0, 0], 16, "private"),
    v4([192, 175, 48, 0], 24, "AS112"),
    v4([198, 18, 0, 0], 15, "benchmarking"),
    v4([198, 51, 100, 0], 24, "documentation"),
    v4([203, 0, 113, 0], 24, "documentation"),
    v4([224, 0, 0, 0], 4, "multicast"),
    v4([240, 0, 0, 0], 4, "reserved, and broadcast"),
    // A public address at which the host's own cloud platform answers.
    v4([168, 63, 129, 16], 32, "cloud platform service"),
];

const GLOBAL_V6: Row<Ipv6Addr> = v6(0x2000, 0, 3, "global unicast");

const REFUSED_V6: &[Row<Ipv6Addr>] = &[
    v6(0x2001, 0x0000, 23, "protocol assignments, Teredo, ORCHID"),
    v6(0x2001, 0x0db8, 32, "documentation"),
    v6(0x2002, 0x0000, 16, "6to4, embeds IPv4"),
    v6(0x2620, 0x004f, 32, "AS112"),
    v6(0x3ffe, 0x0000, 16, "6bone, returned"),
    v6(0x3fff, 0x0000, 20, "documentation"),
];

/// Returns why `address` is not public, or `None` if it is.
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            let inside = |row: &&Row<Ipv4Addr>| (address.to_bits() ^ row.net.to_bits()) >> (32 - row.bits) == 0;
            REFUSED_V4.iter().find(inside).map(|row| row.reason)
        }
        IpAddr::V6(address) => {
            let inside = |row: &&Row<Ipv6Addr>| (address.to_bits() ^ row.net.to_bits()) >> (128 - row.bits) == 0;
            if !inside(&&GLOBAL_V6) {
                return Some("not global unicast");
            }
            REFUSED_V6.iter().find(inside).map(|row| row.reason)
        }
    }
}

/// Last labels of names that never mean a public host. Compared by whole labels.
const SPECIAL_SUFFIXES: &[&str] = &[
    "alt",
    "arpa",
    "consul",
    "corp",
    "docker",
    "example",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "mail",
    "onion",
    "private",
    "svc",
    "test",
];

/// Returns why the name `host`, in lower case, must not be resolved, or `None` if it may be.
pub fn name_refusal(host: &str) -> Option<&'static str> {
    let Some((_, last)) = host.rsplit_once('.') else { return Some("a name without a dot is local") };
    if last.is_empty() {
        return Some("a name must not end with a dot");
    }
    if host.split('.').any(str::is_empty) {
        return Some("a name must not have an empty label");
    }
    SPECIAL_SUFFIXES.contains(&last).then_some("a name with a special-use ending is local")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the first and last address of every row and its neighbors outside.
    #[test]
    fn every_row_refuses_its_whole_block() {
        for row in REFUSED_V4 {
            let last = Ipv4Addr::from_bits(row.net.to_bits() | u32::MAX.checked_shr(row.bits).unwrap_or(0));
            for address in [row.net, last] {
                assert_eq!(refusal(address.into()), Some(row.reason), "{address} of {}/{}", row.net, row.bits);
            }
        }
        for row in REFUSED_V6 {
            let last = Ipv6Addr::from_bits(row.net.to_bits() | u128::MAX.checked_shr(row.bits).unwrap_or(0));
            for address in [row.net, last] {
                assert_eq!(refusal(address.into()), Some(row.reason), "{address} of {}/{}", row.net, row.bits);
            }
        }
    }

    #[test]
    fn addresses_around_the_blocks_are_classified() {
        let cases = [
            ("1.0.0.0", true),
            ("8.8.8.8", true),
            ("9.255.255.255", true),
            ("10.0.0.1", false),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("100.64.0.1", false),
            ("100.100.100.200", false),
            ("100.128.0.0", true),
            ("126.255.255.255", true),
            ("127.0.0.1", false),
            ("128.0.0.0", true),
            ("169.253.255.255", true),
            ("169.254.169.254", false),
            ("169.255.0.0", true),
            ("172.15.255.255", true),
            ("172.31.255.255", false),
            ("172.32.0.0", true),
            ("192.0.1.0", true),
            ("192.167.255.255", true),
            ("192.168.1.1", false),
            ("192.169.0.0", true),
            ("198.17.255.255", true),
            ("198.20.0.0", true),
            ("203.0.114.0", true),
            ("223.255.255.255", true),
            ("239.1.1.1", false),
            ("255.255.255.255", false),
            ("168.63.129.15", true),
            ("168.63.129.16", false),
            ("2606:4700:4700::1111", true),
            ("2001:4860:4860::8888", true),
            ("2001:200::1", true),
            ("2001:1ff:ffff::1", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:8.8.8.8", false),
            ("::ffff:127.0.0.1", false),
            ("64:ff9b::808:808", false),
            ("64:ff9b:1::1", false),
            ("100::1", false),
            ("2002:7f00:1::", false),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", false),
            ("5f00::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("4000::1", false),
        ];
        for (address, public) in cases {
            assert_eq!(refusal(address.parse().unwrap()).is_none(), public, "{address}");
        }
    }

    #[test]
    fn local_names_are_not_looked_up() {
        for name in [
            "localhost",
            "db",
            ".example.com",
            "a..example.com",
            "metadata.google.internal",
            "printer.local",
            "x.localhost",
            "a.home.arpa",
            "b.test",
            "com.",
            "api.svc",
        ] {
            assert!(name_refusal(name).is_some(), "{name}");
        }
        for name in ["example.com", "local.example.com", "internal.io", "a.b.c.dev", "api.example.host"] {
            assert_eq!(name_refusal(name), None, "{name}");
        }
    }
}
