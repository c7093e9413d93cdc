use super::*;

fn proxies(header: ForwardedHeader) -> Proxies {
    let trusted = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).to_vec();
    Proxies::new(&ProxySettings { trusted, header }, [127, 0, 0, 1].into(), "https://tools.example")
}

fn client(proxies: &Proxies, peer: &str, values: &[(&'static str, &str)]) -> String {
    let headers = values.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    let mut all = HeaderMap::new();
    headers.for_each(|(name, value)| _ = all.append(name, value));
    proxies.client(peer.parse().unwrap(), &all).to_string()
}

#[test]
fn client_is_the_last_address_before_the_trusted_proxies() {
    let proxies = proxies(ForwardedHeader::XForwardedFor);
    for (peer, values, requested) in [
        ("127.0.0.1", &["192.0.2.1"][..], "192.0.2.1"),
        ("127.0.0.1", &["198.51.100.7, 192.0.2.1"], "192.0.2.1"),
        ("127.0.0.1", &["198.51.100.7, 192.0.2.1, 10.1.2.3"], "192.0.2.1"),
        ("127.0.0.1", &["198.51.100.7", "192.0.2.1", "10.1.2.3"], "192.0.2.1"),
        ("::ffff:127.0.0.1", &["192.0.2.1:4711"], "192.0.2.1"),
        ("127.0.0.1", &["[2001:db8::1]:4711, fd00::1"], "2001:db8::1"),
        ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
        ("127.0.0.1", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
        // An invalid entry hides the entries before it.
        ("127.0.0.1", &["192.0.2.1, unknown"], "127.0.0.1"),
        ("127.0.0.1", &["192.0.2.1, , 10.1.2.3"], "10.1.2.3"),
        ("127.0.0.1", &[], "127.0.0.1"),
        // A client that is not a trusted proxy can claim any address.
        ("192.0.2.9", &["198.51.100.7"], "192.0.2.9"),
    ] {
        let values: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
        assert_eq!(client(&proxies, peer, &values), requested, "{peer} {values:?}");
    }
    assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", "for=192.0.2.1")]), "127.0.0.1", "the other header is not believed");
}

#[test]
fn ipv6_network_that_covers_ipv4_trusts_ipv4_addresses() {
    let trusts = |network: &str, address: &str| {
        let settings = ProxySettings { trusted: vec![network.parse().unwrap()], header: ForwardedHeader::XForwardedFor };
        Proxies::new(&settings, [127, 0, 0, 1].into(), "https://tools.example").trusts(address.parse().unwrap())
    };
    for network in ["::/0", "::ffff:0:0/95", "::ffff:0:0/80", "::/64", "::ffff:0:0/96"] {
        for address in ["192.0.2.1", "127.0.0.1", "::ffff:192.0.2.1"] {
            assert!(trusts(network, address), "{network} {address}");
        }
    }
    assert!(trusts("::/0", "2001:db8::1") && !trusts("::ffff:0:0/95", "2001:db8::1"));
    for network in ["2001:db8::/32", "::/96", "0.0.0.0/0"] {
        assert_eq!(trusts(network, "192.0.2.1"), network == "0.0.0.0/0", "{network}");
    }
    assert!(!trusts("0.0.0.0/0", "2001:db8::1"));
}

#[test]
fn forwarded_header_is_read_if_it_is_configured() {
    let proxies = proxies(ForwardedHeader::Forwarded);
    for (value, requested) in [
        ("for=192.0.2.1", "192.0.2.1"),
        ("for=198.51.100.7, For=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
        ("for=198.51.100.7;by=10.0.0.1, proto=http;for=10.1.2.3", "198.51.100.7"),
        ("for=198.51.100.7, for=_hidden", "127.0.0.1"),
        ("proto=https", "127.0.0.1"),
    ] {
        assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", value), ("x-forwarded-for", "203.0.113.1")]), requested, "{value}");
    }
}

#[test]
fn https_proxy_without_a_base_url_is_reported() {
    let trusted = ProxySettings { trusted: vec!["127.0.0.1/32".parse().unwrap()], header: ForwardedHeader::XForwardedFor };
    let warned = |settings: &ProxySettings, url: &str, peer: &str, values: &[(&'static str, &str)]| {
        let proxies = Proxies::new(settings, [127, 0, 0, 1].into(), url);
        client(&proxies, peer, values);
        let warnings = proxies.warnings();
        warnings.iter().filter(|warning| warning.code == "base_url_missing").count()
    };
    let (local, public) = ("http://127.0.0.1:4020", "https://tools.example");
    let by_https = [("x-forwarded-proto", "https")];
    for settings in [&trusted, &ProxySettings::default()] {
        assert_eq!(warned(settings, local, "127.0.0.1", &by_https), 1);
        assert_eq!(warned(settings, local, "127.0.0.1", &[("x-forwarded-proto", "HTTPS, http")]), 1);
        assert_eq!(warned(settings, local, "127.0.0.1", &[("forwarded", "for=192.0.2.1; Proto=\"https\"")]), 1);
        assert_eq!(warned(settings, "http://tools.example", "127.0.0.1", &by_https), 1, "a base URL without TLS");
        assert_eq!(warned(settings, public, "127.0.0.1", &by_https), 0);
        assert_eq!(warned(settings, local, "127.0.0.1", &[("x-forwarded-proto", "http"), ("forwarded", "for=https")]), 0);
        assert_eq!(warned(settings, local, "192.0.2.1", &by_https), 0, "anybody on the internet can send the header");
    }
}

#[test]
fn untrusted_proxy_is_reported() {
    let codes = |proxies: &Proxies| proxies.warnings().iter().map(|warning| warning.message.clone()).collect::<Vec<_>>();
    let none = ProxySettings::default();
    let new = |listen: &str, url: &str| Proxies::new(&none, listen.parse().unwrap(), url);
    assert_eq!(codes(&new("127.0.0.1", "https://tools.example")), [expected_proxy().message]);
    for (listen, url) in [("127.0.0.1", "http://127.0.0.1:4020"), ("0.0.0.0", "https://tools.example"), ("::1", "http://[::1]:1")] {
        let proxies = new(listen, url);
        assert_eq!(codes(&proxies), [""; 0], "{listen} {url}");
        client(&proxies, "192.0.2.1", &[("x-forwarded-for", "192.0.2.2")]);
        client(&proxies, "127.0.0.1", &[]);
        assert_eq!(codes(&proxies), [""; 0], "{listen} {url}");
        assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", "for=192.0.2.2")]), "127.0.0.1");
        assert_eq!(codes(&proxies), [untrusted_proxy().message], "{listen} {url}");
    }
    let trusting = proxies(ForwardedHeader::XForwardedFor);
    client(&trusting, "127.0.0.1", &[("x-forwarded-for", "192.0.2.2")]);
    assert_eq!(codes(&trusting), [""; 0]);
}
