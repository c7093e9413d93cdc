//! Hosts that no rule of addresses applies to, and the grant of any public host.

use super::*;

fn any_public(more: &[&str]) -> AllowedHosts {
    AllowedHosts::parse(&[&["*"][..], more].concat()).unwrap()
}

#[tokio::test]
async fn any_public_host_includes_no_private_and_no_exempt_one() {
    let address = serve(Router::new().route("/", get(echo))).await;
    let guard = allowing(&[address]);
    let own = format!("http://{address}/");
    let (any, named) = (any_public(&[]), any_public(&["127.0.0.1"]));
    for url in ["https://example.com/", "https://a.b.example.net/x", "https://1.1.1.1/"] {
        assert!(guard.check(url, Some(&any)).is_ok(), "{url}");
    }
    for url in [
        own.as_str(),
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::1]/",
        "https://localhost/",
        "http://example.com/",
        "https://user@example.com/",
        "https://example.com:8443/",
        "https://example.com:25/",
    ] {
        assert!(guard.check(url, Some(&any)).is_err(), "{url}");
    }
    assert!(guard.check(&own, Some(&named)).is_ok(), "it is named too");
    let away = Fetch { hosts: Some(&any), ..Fetch::get(&own, WALL, 1_000) };
    assert!(matches!(guard.fetch(away).await, Err(FetchError::Forbidden(_))));
    let names = guard_of_names(&[("public.dev", &["127.0.0.1"])]);
    let inside = Fetch { hosts: Some(&any), ..Fetch::get("https://public.dev/", WALL, 1_000) };
    assert!(matches!(names.fetch(inside).await, Err(FetchError::Forbidden(_))), "its address is not public");
}

fn guard_of_names(names: &[(&str, &[&str])]) -> Guard {
    guard(GuardSettings { lookup: Some(FixedNames::new(names)), ..GuardSettings::default() })
}

#[tokio::test]
async fn upstreams_under_development_are_reached_whatever_is_allowed() {
    let address = serve(Router::new().route("/", get(echo))).await;
    let port = address.port();
    let development = DevelopmentUpstreams::parse(&[format!("localhost:{port}"), address.to_string()]).unwrap();
    let guard =
        guard(GuardSettings { development, lookup: Some(FixedNames::new(&[("localhost", &["127.0.0.1"])])), ..GuardSettings::default() });
    let hosts = AllowedHosts::parse(&["api.example.com"]).unwrap();
    for url in [format!("http://localhost:{port}/"), format!("http://{address}/")] {
        let mut request = Fetch { hosts: Some(&hosts), ..Fetch::get(&url, WALL, 1_000) };
        request.credential = Some((header::AUTHORIZATION, "Bearer granted".parse().unwrap()));
        let fetched = guard.fetch(request).await.unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&fetched.body).unwrap()["authorization"], "Bearer granted");
    }
    for url in ["http://localhost/", "http://127.0.0.1/", "https://other.example.com/"] {
        assert!(guard.check(url, Some(&hosts)).is_err(), "{url}");
    }
    for entry in ["localhost", "localhost:", "localhost:x", "a b:80", ":80"] {
        assert!(DevelopmentUpstreams::parse(&[entry.to_owned()]).is_err(), "{entry}");
    }
}
