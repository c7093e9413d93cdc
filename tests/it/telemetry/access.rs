//! Who reads `/metrics`: admins, and who asks from the host's own machine, where nothing says that it was for somebody else.

use reqwest::Method;

use crate::harness::{Host, HostBuilder};

async fn reads(host: &Host, headers: &[(&str, &str)]) -> u16 {
    let request = headers.iter().fold(host.request(Method::GET, "/metrics"), |request, (name, value)| request.header(*name, *value));
    let answer = host.send(request).await;
    if answer.status != 200 {
        assert!(!String::from_utf8_lossy(&answer.body).contains("tollhouse_"), "{answer:?}");
    }
    answer.status
}

fn unlimited() -> HostBuilder {
    Host::builder().env("TOLLHOUSE_AUTH_FAILURES", 0)
}

#[tokio::test]
async fn a_request_that_was_passed_on_or_is_a_pages_is_not_from_this_machine() {
    let host = unlimited().start().await;
    assert_eq!(reads(&host, &[]).await, 200);
    for header in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("forwarded", "for=127.0.0.1"),
        ("via", "1.1 varnish"),
        ("x-real-ip", "127.0.0.1"),
        ("host", "tools.example"),
        ("origin", "https://elsewhere.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        assert_eq!(reads(&host, &[header]).await, 401, "{header:?}");
        assert_eq!(reads(&host, &[header, ("x-admin-token", &host.admin)]).await, 200, "{header:?}");
    }
}

#[tokio::test]
async fn behind_another_name_only_admins_read_metrics_unless_the_settings_say_otherwise() {
    let public = || unlimited().env("TOLLHOUSE_BASE_URL", "https://tools.example");
    for (builder, status) in
        [(public(), 401), (public().env("TOLLHOUSE_METRICS", "loopback"), 200), (unlimited().env("TOLLHOUSE_METRICS", "admin"), 401)]
    {
        let host = builder.start().await;
        assert_eq!(reads(&host, &[]).await, status);
        assert_eq!(reads(&host, &[("x-admin-token", &host.admin)]).await, 200);
    }
}

#[tokio::test]
async fn the_admin_token_may_come_as_a_bearers_and_a_wrong_credential_is_none_of_loopback() {
    let host = unlimited().env("TOLLHOUSE_METRICS", "loopback").start().await;
    let (_, key) = host.register("Builder").await;
    let credit = host.mint(1.0).await;
    assert_eq!(reads(&host, &[("authorization", &format!("Bearer {}", host.admin))]).await, 200);
    for token in ["adm_wrong", &key, &credit] {
        assert_eq!(reads(&host, &[("authorization", &format!("Bearer {token}"))]).await, 401, "{token}");
    }
    assert_eq!(reads(&host, &[("x-admin-token", "adm_wrong")]).await, 401);
    assert_eq!(reads(&host, &[("x-builder-key", &key)]).await, 403);
}

#[tokio::test]
async fn wrong_bearers_are_limited_as_other_wrong_credentials_are() {
    let host = Host::builder().env("TOLLHOUSE_AUTH_FAILURES", 3).start().await;
    let wrong = [("authorization", "Bearer adm_wrong")];
    let mut told = vec![];
    for _ in 0..5 {
        told.push(reads(&host, &wrong).await);
    }
    assert_eq!(told, [401, 401, 401, 429, 429]);
}
