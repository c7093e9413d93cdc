use axum::http::HeaderValue;

use super::*;

fn failures(per_minute: u32) -> Failures {
    Failures::new(NonZeroU32::new(per_minute).unwrap(), "https://tools.example/below")
}

fn client(address: &str) -> Sender {
    Sender { network: network(address.parse().unwrap()), kind: SenderKind::Client }
}

#[test]
fn ipv6_network_counts_as_one_address() {
    let failures = failures(1);
    let waits = |address: &str| failures.check(client(address)).is_err();
    failures.count(client("2001:db8:1:2::1"));
    assert!(waits("2001:db8:1:2:ffff::9") && !waits("2001:db8:1:3::1"));
    failures.count(client("::ffff:192.0.2.1"));
    assert!(waits("192.0.2.1"), "an IPv4 address in IPv6 is itself");
}

#[test]
fn failures_are_forgiven_within_two_minutes() {
    let (failures, client) = (failures(60), client("192.0.2.1"));
    (0..100_000).for_each(|_| failures.count(client));
    let wait = failures.check(client).unwrap_err().retry_after_secs().unwrap();
    assert!((50..=61).contains(&wait), "{wait}");
}

#[test]
fn error_for_many_open_checks_does_not_mention_wrong_credentials() {
    let refused = failures(1).refused(AttemptError::Busy(Duration::from_secs(1)));
    assert_eq!((refused.code(), refused.retry_after_secs()), (Code::RateLimited, Some(1)));
    assert!(!refused.message().contains("wrong"), "{refused:?}");
}

#[test]
fn page_is_foreign_unless_it_has_the_hosts_origin() {
    let failures = failures(1);
    let address = [192, 0, 2, 1].into();
    let kind =
        |origin: &'static str| failures.sender(address, &HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))])).kind;
    assert_eq!(failures.sender(address, &HeaderMap::new()), client("192.0.2.1"));
    assert_eq!(kind("https://tools.example"), SenderKind::Client);
    for origin in ["https://evil.example", "null", "http://tools.example", "https://tools.example:8443", ""] {
        assert_eq!(kind(origin), SenderKind::ForeignPage, "{origin}");
    }
}

#[test]
fn failures_of_foreign_pages_do_not_block_clients() {
    let (failures, client) = (failures(1), client("192.0.2.1"));
    let page = Sender { kind: SenderKind::ForeignPage, ..client };
    failures.count(page);
    assert!(failures.check(client).is_ok() && failures.check(page).is_err());
}

#[tokio::test]
async fn foreign_origin_gets_no_further_registration_guesses() {
    let (failures, client) = (failures(2), client("192.0.2.1"));
    let page = Sender { kind: SenderKind::ForeignPage, ..client };
    for sender in [client, page] {
        failures.begin_registration(sender).await.unwrap().fail();
    }
    for sender in [client, page] {
        let refused = failures.begin_registration(sender).await.unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited, "{sender:?}");
        assert!(failures.check(sender).is_ok(), "one guess of each kind was counted as a wrong credential: {sender:?}");
    }
}
