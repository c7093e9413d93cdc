//! Fuzz targets: URLs and compressed bodies of arbitrary bytes.

use std::{net::Ipv6Addr, sync::LazyLock};

use bytes::Bytes;
use hyper::header::HeaderValue;

use super::*;
use crate::guard::coding::Coding;

static GUARD: LazyLock<Guard> = LazyLock::new(|| guard(GuardSettings::default()));

/// Returns whether the standard library knows that an address, or one embedded in it, is not public.
fn is_known_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            let somewhere = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || shared;
            somewhere || v4.is_broadcast() || v4.is_documentation() || v4.is_multicast() || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => {
            let embedded = v6.to_ipv4().or_else(|| translated(v6));
            let somewhere = v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local();
            somewhere || v6.is_multicast() || embedded.is_some_and(|v4| is_known_private(v4.into()))
        }
    }
}

/// Returns the IPv4 address to which NAT64 or 6to4 would send.
fn translated(v6: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    let octets = v6.octets();
    match v6.segments() {
        [0x64, 0xff9b, ..] => Some([octets[12], octets[13], octets[14], octets[15]].into()),
        [0x2002, ..] => Some([octets[2], octets[3], octets[4], octets[5]].into()),
        _ => None,
    }
}

/// Returns whether some resolvers would read the name as an address.
fn reads_as_number(label: &str) -> bool {
    !label.is_empty()
        && label.strip_prefix("0x").unwrap_or(label).bytes().all(|byte| byte.is_ascii_hexdigit())
        && label.as_bytes()[0].is_ascii_digit()
        && (label.starts_with("0x") || label.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_safe(url: &Url) {
    assert_eq!(url.scheme(), "https", "{url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.port().is_none(), "{url}");
    match url.host().expect("an accepted URL has a host") {
        Host::Ipv4(address) => assert!(!is_known_private(address.into()), "{url}"),
        Host::Ipv6(address) => assert!(!is_known_private(address.into()), "{url}"),
        Host::Domain(name) => {
            let last = name.rsplit('.').next().unwrap_or_default();
            assert!(name.contains('.') && !last.is_empty() && !reads_as_number(last), "{url}");
            assert!(name.is_ascii() && name.parse::<IpAddr>().is_err() && last != "localhost" && last != "internal", "{url}");
        }
    }
}

#[test]
fn allowed_urls_are_public_and_stay_allowed_when_parsed_again() {
    tollhouse_fuzz::check("url", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let (text, target) = text.split_once('\n').unwrap_or((&text, ""));
        let Ok(url) = GUARD.check(text, None) else { return };
        is_safe(&url);
        assert_eq!(GUARD.check(url.as_str(), None).as_ref().map_err(ToString::to_string), Ok(&url));
        let name = url.host().expect("an accepted URL has a host").to_string();
        let hosts = AllowedHosts::parse(&[&name]);
        // An asterisk in an entry is a wildcard or invalid.
        assert!(hosts.is_ok() || name.contains('*'), "{name}");
        assert!(hosts.is_err() || hosts.is_ok_and(|hosts| hosts.allows(&name) && GUARD.check(text, Some(&hosts)).is_ok()), "{name}");
        assert!(GUARD.check(text, Some(&AllowedHosts::default())).is_err());
        if let Some(next) = HeaderValue::from_str(target).ok().and_then(|target| GUARD.redirected(&url, &target, None).ok()) {
            is_safe(&next);
        }
    });
}

#[test]
fn no_coding_decodes_past_its_limit() {
    const LIMIT: usize = 64 << 10;
    tollhouse_fuzz::check("coding", |bytes| {
        let coded = Bytes::copy_from_slice(bytes);
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            assert!(coding.decode(&coded, LIMIT).map_or(0, |body| body.len()) <= LIMIT, "{coding:?}");
        }
    });
}

#[test]
fn no_address_is_public_that_the_standard_library_knows_to_be_private() {
    tollhouse_fuzz::check("address", |bytes| {
        let (v4, v6) = (bytes.first_chunk::<4>(), bytes.first_chunk::<16>());
        for address in v4.map(|octets| IpAddr::from(*octets)).into_iter().chain(v6.map(|octets| IpAddr::from(*octets))) {
            assert!(addresses::refusal(address).is_some() || !is_known_private(address), "{address}");
        }
    });
}

#[test]
fn allowed_hosts_survive_a_round_trip() {
    tollhouse_fuzz::check("allowed-host", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let Ok(hosts) = AllowedHosts::parse(&[&text]) else { return };
        let entry = hosts.iter().next().expect("one was read").to_owned();
        assert_eq!(AllowedHosts::parse(&[&entry]).as_ref(), Ok(&hosts));
        match entry.strip_prefix("*.") {
            Some(suffix) => assert!(
                suffix.contains('.')
                    && !hosts.allows(suffix)
                    && hosts.allows(&format!("a.{suffix}"))
                    && !hosts.allows(&format!("a.b.{suffix}")),
                "{entry}"
            ),
            None if entry == "*" => assert!(hosts.includes_any_public() && hosts.allows("a.example")),
            None => assert!(hosts.allows(&entry) && !hosts.allows(&format!("a.{entry}")), "{entry}"),
        }
    });
}
