//! Access to `/metrics`: for admins, for the holder of its token, and for clients on the host's own
//! machine unless the request was forwarded.

use reqwest::Method;

use crate::harness::{Host, HostBuilder, tollhouse};

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
        if status == 401 {
            let error = host.get("/metrics").await.fails(401, "unauthorized", "caller");
            assert!(error["hint"].as_str().unwrap().contains("metrics token"), "{error}");
        }
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
    let mut listed = vec![];
    for _ in 0..5 {
        listed.push(reads(&host, &wrong).await);
    }
    assert_eq!(listed, [401, 401, 401, 429, 429]);
}

/// A token for metrics only.
const TOKEN: &str = "prometheus-0123456789";

#[tokio::test]
async fn the_token_for_metrics_opens_them_and_nothing_else() {
    let settings = || unlimited().env("TOLLHOUSE_METRICS", "admin");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    for host in [settings().env("TOLLHOUSE_METRICS_TOKEN", TOKEN), settings().env("TOLLHOUSE_METRICS_TOKEN_FILE", file.display())] {
        let host = host.start().await;
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(reads(&host, &[("authorization", &bearer)]).await, 200);
        assert_eq!(reads(&host, &[("authorization", &bearer), ("x-forwarded-for", "192.0.2.1")]).await, 200, "it may come from anywhere");
        for wrong in [&TOKEN[1..], &format!("{TOKEN}0"), &TOKEN.to_uppercase()] {
            assert_eq!(reads(&host, &[("authorization", &format!("Bearer {wrong}"))]).await, 401, "{wrong}");
        }
        // It is valid neither in another header nor for another path.
        for header in ["x-admin-token", "x-builder-key"] {
            assert_eq!(reads(&host, &[(header, TOKEN)]).await, 401, "{header}");
        }
        for (path, headers) in [
            ("/ai/admin/metrics", &["authorization", "x-admin-token", "x-builder-key"][..]),
            ("/ai/admin/audit", &["authorization", "x-admin-token", "x-builder-key"]),
            ("/ai/endpoints/creator-plan/calls", &["authorization", "x-admin-token", "x-builder-key"]),
            ("/ai/credits", &["authorization", "x-developer-credit"]),
        ] {
            for header in headers {
                let token = if *header == "authorization" { &bearer } else { TOKEN };
                let answer = host.send(host.request(Method::GET, path).header(*header, token)).await;
                assert!(matches!(answer.status, 401 | 402), "{path} with {header}: {answer:?}");
            }
        }
    }
    let host = settings().start().await;
    assert_eq!(reads(&host, &[("authorization", &format!("Bearer {TOKEN}"))]).await, 401, "where none is set, none opens");
}

#[tokio::test]
async fn wrong_tokens_for_metrics_are_counted_as_other_wrong_credentials_are() {
    let host = Host::builder().env("TOLLHOUSE_AUTH_FAILURES", 3).env("TOLLHOUSE_METRICS_TOKEN", TOKEN).start().await;
    let right = format!("Bearer {TOKEN}");
    let mut listed = vec![];
    for token in [&right, "Bearer 1", &right, "Bearer 2", "Bearer 3", &right, "Bearer 4"] {
        listed.push(reads(&host, &[("authorization", token)]).await);
    }
    assert_eq!(listed, [200, 401, 200, 401, 401, 429, 429], "a right one is refused too, where it would tell that it is right");
}

#[tokio::test]
async fn the_token_for_metrics_is_shown_nowhere_and_is_neither_short_nor_the_admins() {
    let check = |token: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut check = tollhouse();
        check.args(["serve", "--check", "--data"]).arg(folder.path()).env("TOLLHOUSE_METRICS_TOKEN", token);
        let ran = check.output().unwrap();
        (ran.status.success(), format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)))
    };
    let (well, text) = check(TOKEN);
    assert!(well && !text.contains(TOKEN) && text.contains("metrics-token"), "{text}");
    let (well, text) = check("too-short-by-1b");
    assert!(!well && text.contains("TOLLHOUSE_METRICS_TOKEN") && !text.contains("too-short-by-1b"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let mut serve = tollhouse();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    let ran = serve.env("TOLLHOUSE_METRICS_TOKEN", TOKEN).env("TOLLHOUSE_ADMIN_TOKEN", TOKEN).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && text.contains("the same as the admin token") && !text.contains(TOKEN), "{text}");
}
