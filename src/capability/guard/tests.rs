use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Redirect},
    routing::{any, get},
};

use hyper::Method;

use super::*;
use crate::testing::{FixedNames, serve, serve_tls};

mod exemptions;
mod floods;
mod fuzz;
mod metered;
mod moving;
mod own;
mod redirects;
mod shares;

const WALL: Duration = Duration::from_secs(5);

fn guard(settings: GuardSettings) -> Guard {
    Guard::new(settings).unwrap()
}

fn allowing(addresses: &[SocketAddr]) -> Guard {
    guard(GuardSettings { allow: addresses.iter().map(ToString::to_string).collect(), ..GuardSettings::default() })
}

async fn fetch(guard: &Guard, url: &str) -> Result<Fetched, FetchError> {
    guard.fetch(Fetch::get(url, WALL, 1_000)).await
}

#[test]
fn literals_of_local_addresses_are_refused_in_every_spelling() {
    let guard = guard(GuardSettings::default());
    let spellings = [
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://1２７.0.0.1/",
        "https://①②⑦.⓪.⓪.①/",
        "https://127。0。0。1/",
        "https://%31%32%37.0.0.1/",
        "https://127.0.0.1./",
        "https://0/",
        "https://[::1]/",
        "https://[::]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::ffff:8.8.8.8]/",
        "https://[::127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[fe80::1]/",
        "https://[fd00:ec2::254]/",
        "https://169.254.169.254/latest/meta-data",
        "https://2852039166/",
        "https://10.1.2.3/",
        "https://192.168.0.1/",
        "https://172.20.0.1/",
        "https://100.100.100.200/",
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://db/",
        "https://a.internal/",
        "https://metadata.google.internal/",
        "https://x.local/",
        "http://example.com/",
        "https://example.com:8443/",
        "https://8.8.8.8:22/",
        "http://8.8.8.8/",
    ];
    for url in spellings {
        assert!(matches!(guard.check(url, None), Err(FetchError::Forbidden(_))), "{url}: {:?}", guard.check(url, None));
    }
    for url in [
        "https://example.com/",
        "https://EXAMPLE.com:443/a?b#c",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
        "https://bücher.example.com/",
    ] {
        assert!(guard.check(url, None).is_ok(), "{url}: {:?}", guard.check(url, None));
    }
}

#[test]
fn urls_that_are_not_plain_are_refused() {
    let guard = guard(GuardSettings::default());
    let long = format!("https://example.com/{}", "a".repeat(URL_BYTES));
    for url in [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "data:application/json,1",
        "https://",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://:pw@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https://exam\nple.com/",
        "https://exa\tmple.com/",
        " https://example.com/",
        "https:// example.com/",
        "https://exam ple.com/a b",
        "https://example.com\u{3000}/",
        "https://example.com/\u{0}",
        "https://999.1.1.1/",
        "https://[::1",
        "https://a..b%00.com/",
        &long,
    ] {
        assert!(matches!(guard.check(url, None), Err(FetchError::InvalidUrl(_))), "{url:?}: {:?}", guard.check(url, None));
    }
}

#[test]
fn the_longest_url_passes() {
    let max_len = format!("{:a<URL_BYTES$}", "https://example.com/");
    assert!(guard(GuardSettings::default()).check(&max_len, None).is_ok());
}

#[test]
fn http_and_hosts_pass_only_by_setting() {
    let open = guard(GuardSettings {
        allow_http: true,
        allow: vec!["127.0.0.1:8080".into(), "seller:80".into(), "[::1]:9".into()],
        ..GuardSettings::default()
    });
    for url in [
        "http://example.com/",
        "http://127.0.0.1:8080/",
        "https://127.0.0.1:8080/",
        "http://2130706433:8080/",
        "http://seller/",
        "http://[::1]:9/",
    ] {
        assert!(open.check(url, None).is_ok(), "{url}");
    }
    for url in [
        "http://example.com:8080/",
        "http://127.0.0.1:8081/",
        "http://127.0.0.1/",
        "http://127.0.0.2:8080/",
        "https://seller/",
        "http://10.0.0.1/",
    ] {
        assert!(open.check(url, None).is_err(), "{url}");
    }
    let hosts = AllowedHosts::parse(&["*.example.com"]).unwrap();
    assert_eq!(open.check("https://example.org/", Some(&hosts)), Err(FetchError::HostNotAllowed("example.org".into())));
    assert_eq!(open.check("http://127.0.0.1:8080/", Some(&hosts)), Err(FetchError::HostNotAllowed("127.0.0.1".into())));
    assert!(open.check("https://a.example.com/", Some(&hosts)).is_ok());
    let hosts = AllowedHosts::parse(&["a.example.com:8443", "10.0.0.1:8443"]).unwrap();
    assert!(open.check("https://a.example.com:8443/", Some(&hosts)).is_ok());
    for (url, code) in [
        ("https://a.example.com/", "not_granted"),
        ("https://a.example.com:8444/", "not_granted"),
        ("https://b.example.com:8443/", "not_granted"),
        ("https://10.0.0.1:8443/", "forbidden_address"),
    ] {
        assert_eq!(open.check(url, Some(&hosts)).unwrap_err().code(), code, "{url}");
    }
    for entry in ["127.0.0.1", "127.0.0.1:port", "http://a:1", "a:99999", ":80", ""] {
        assert!(
            matches!(Guard::new(GuardSettings { allow: vec![entry.into()], ..GuardSettings::default() }), Err(GuardError::Allow(_))),
            "{entry}"
        );
    }
}

#[tokio::test]
async fn a_name_with_any_local_address_is_not_dialled() {
    let names = FixedNames::new(&[
        ("local.dev", &["127.0.0.1"]),
        ("mixed.dev", &["8.8.8.8", "10.0.0.7"]),
        ("six.dev", &["2606:4700:4700::1111", "::1"]),
        ("mapped.dev", &["::ffff:10.0.0.7"]),
        ("none.dev", &[]),
    ]);
    let guard = guard(GuardSettings { lookup: Some(names), ..GuardSettings::default() });
    for name in ["local.dev", "mixed.dev", "six.dev", "mapped.dev"] {
        let refused = fetch(&guard, &format!("https://{name}/")).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Forbidden(reason) if reason.contains(name)), "{name}: {refused:?}");
    }
    for name in ["none.dev", "unknown.dev"] {
        let refused = fetch(&guard, &format!("https://{name}/")).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Unreachable(reason) if reason.contains("does not resolve")), "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit_in_its_time() {
    let slow = get(std::future::pending::<()>);
    let drip = get(|| async {
        let pieces = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, io::Error>("drip"), ()))
        });
        axum::body::Body::from_stream(pieces)
    });
    let endless = get(|| async {
        let pieces = futures_util::stream::repeat_with(|| Ok::<_, io::Error>(vec![b'x'; 600]));
        axum::body::Body::from_stream(pieces)
    });
    let packed = get(|| async { ([(header::CONTENT_ENCODING, "compress")], "x") });
    let plain = get(|headers: HeaderMap| async move { headers[header::ACCEPT_ENCODING].to_str().unwrap().to_owned() });
    let server = Router::new()
        .route("/slow", slow)
        .route("/drip", drip)
        .route("/endless", endless)
        .route("/packed", packed)
        .route("/plain", plain)
        .route("/exact", get(|| async { vec![b'x'; 1_000] }))
        .route("/large", get(|| async { vec![b'x'; 1_001] }));
    let address = serve(server).await;
    let guard = allowing(&[address]);
    let at = |path: &str| format!("http://{address}{path}");
    for path in ["/slow", "/drip"] {
        let request = at(path);
        let hasty = Fetch::get(&request, Duration::from_millis(200), 1_000_000);
        assert_eq!(guard.fetch(hasty).await.unwrap_err(), FetchError::Timeout(200), "{path}");
    }
    assert_eq!(fetch(&guard, &at("/plain")).await.unwrap().body, "identity");
    assert_eq!(fetch(&guard, &at("/exact")).await.unwrap().body.len(), 1_000);
    for path in ["/large", "/endless"] {
        assert_eq!(fetch(&guard, &at(path)).await.unwrap_err(), FetchError::TooLarge(1_000), "{path}");
    }
    assert_eq!(fetch(&guard, &at("/packed")).await.unwrap_err(), FetchError::Encoded("compress".into()));
    let removed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = fetch(&allowing(&[removed]), &format!("http://{removed}/")).await.unwrap_err();
    assert!(matches!(refused, FetchError::Unreachable(_)), "{refused:?}");
}

/// Starts a server that redirects every path to `target` and counts requests.
async fn redirecting(target: &'static str, served: Arc<AtomicUsize>) -> SocketAddr {
    let hop = move |State(served): State<Arc<AtomicUsize>>| async move {
        served.fetch_add(1, Ordering::SeqCst);
        (axum::http::StatusCode::FOUND, [(header::LOCATION, target)])
    };
    serve(Router::new().fallback(hop).with_state(served)).await
}

#[tokio::test]
async fn redirects_to_forbidden_urls_are_refused() {
    let targets = [
        "http://127.0.0.1:1/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://2130706433/",
        "https://[::1]/",
        "//localhost/x",
        "https://user@example.com/",
        "ftp://example.com/",
        "http://example.com/",
        "https://example.com:8080/",
        "https://exam ple.com/",
        "http://169.254.169.254/latest",
    ];
    for target in targets {
        let served = Arc::new(AtomicUsize::new(0));
        let address = redirecting(target, Arc::clone(&served)).await;
        let refused = fetch(&allowing(&[address]), &format!("http://{address}/")).await.unwrap_err();
        assert!(matches!(refused, FetchError::BadRedirect(_)), "{target}: {refused:?}");
        assert_eq!(served.load(Ordering::SeqCst), 1);
    }
    let served = Arc::new(AtomicUsize::new(0));
    let address = redirecting("/again", Arc::clone(&served)).await;
    assert_eq!(fetch(&allowing(&[address]), &format!("http://{address}/")).await.unwrap_err(), FetchError::TooManyRedirects);
    assert_eq!(served.load(Ordering::SeqCst), MAX_REDIRECTS + 1);
}

#[tokio::test]
async fn a_redirect_to_a_name_with_a_local_address_is_refused() {
    let address = redirecting("https://rebound.dev/", Arc::default()).await;
    let lookup: Option<Arc<dyn Lookup>> = Some(FixedNames::new(&[("rebound.dev", &["127.0.0.1"])]));
    let guard = guard(GuardSettings { allow: vec![address.to_string()], lookup, ..GuardSettings::default() });
    let refused = fetch(&guard, &format!("http://{address}/")).await.unwrap_err();
    assert!(
        matches!(&refused, FetchError::Forbidden(reason) if reason == "`rebound.dev` resolves to an address that is not public: loopback"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_redirect_leaves_the_allowed_hosts_only_with_an_error() {
    let address = redirecting("https://elsewhere.dev/", Arc::default()).await;
    let hosts = AllowedHosts::parse(&["127.0.0.1"]).unwrap();
    let url = format!("http://{address}/");
    let request = Fetch { hosts: Some(&hosts), ..Fetch::get(&url, WALL, 1_000) };
    assert_eq!(allowing(&[address]).fetch(request).await.unwrap_err(), FetchError::HostNotAllowed("elsewhere.dev".into()));
}

/// Responds with the names of the headers that it received.
async fn echo(headers: HeaderMap) -> impl IntoResponse {
    let pairs = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    axum::Json(pairs.collect::<std::collections::BTreeMap<_, _>>())
}

#[tokio::test]
async fn redirects_are_followed_for_get_and_head_alone() {
    let server = Router::new()
        .route("/moved", any(|| async { Redirect::permanent("/here") }))
        .route("/here", any(|| async { ([(header::LOCATION, "/moved")], "here") }));
    let address = serve(server).await;
    let (guard, url) = (allowing(&[address]), format!("http://{address}/moved"));
    let ask = async |method: Method| guard.fetch(Fetch { method, ..Fetch::get(&url, WALL, 1_000) }).await.unwrap();
    // A response with a location that is not a redirect is returned as it is.
    for (method, status, path) in [(Method::GET, 200, "/here"), (Method::HEAD, 200, "/here"), (Method::POST, 308, "/moved")] {
        let fetched = ask(method.clone()).await;
        assert_eq!((fetched.status.as_u16(), fetched.url.path()), (status, path), "{method}");
    }
}

#[tokio::test]
async fn a_body_in_pieces_is_read_up_to_the_limit_of_their_sum() {
    let pieces = get(|| async {
        let nine = futures_util::stream::unfold(0, |sent| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            (sent < 9).then(|| (Ok::<_, io::Error>(vec![b'x'; 100]), sent + 1))
        });
        axum::body::Body::from_stream(nine)
    });
    let address = serve(Router::new().route("/", pieces)).await;
    assert_eq!(fetch(&allowing(&[address]), &format!("http://{address}/")).await.unwrap().body.len(), 900);
}

#[tokio::test]
async fn a_request_names_the_host_unless_the_handler_names_itself() {
    let address = serve(Router::new().route("/", get(echo))).await;
    let (guard, url) = (allowing(&[address]), format!("http://{address}/"));
    let agent = async |request| {
        let body = guard.fetch(request).await.unwrap().body;
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["user-agent"].as_str().unwrap().to_owned()
    };
    assert!(agent(Fetch::get(&url, WALL, 1_000)).await.starts_with("Tollhouse/"));
    let mut named = Fetch::get(&url, WALL, 1_000);
    named.headers.insert(header::USER_AGENT, "handler".parse().unwrap());
    assert_eq!(agent(named).await, "handler");
}

#[tokio::test]
async fn a_connection_that_got_a_body_of_a_tool_is_closed() {
    let connection =
        |headers: HeaderMap| async move { headers.get(header::CONNECTION).map_or("kept", |value| value.to_str().unwrap()).to_owned() };
    let address = serve(Router::new().route("/", any(connection))).await;
    let (guard, url) = (allowing(&[address]), format!("http://{address}/"));
    let hosts = AllowedHosts::parse(&["127.0.0.1"]).unwrap();
    for (hosts, method, body, answer) in [
        (Some(&hosts), Method::POST, "text", "close"),
        (Some(&hosts), Method::DELETE, "text", "close"),
        (Some(&hosts), Method::POST, "", "kept"),
        (Some(&hosts), Method::GET, "", "kept"),
        (None, Method::POST, "text", "kept"),
    ] {
        let request = Fetch { hosts, method, body: Some(body.into()), ..Fetch::get(&url, WALL, 1_000) };
        assert_eq!(guard.fetch(request).await.unwrap().body, answer, "{body}");
    }
}

#[tokio::test]
async fn a_secret_is_sent_over_http_only_to_exempt_loopback_addresses() {
    let address = serve(Router::new().route("/", get(echo))).await;
    let port = address.port();
    let guard = guard(GuardSettings {
        allow: vec![address.to_string(), format!("local.dev:{port}")],
        lookup: Some(FixedNames::new(&[("local.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    });
    let ask = async |url: &str| {
        let mut request = Fetch::get(url, WALL, 1_000);
        request.credential = Some((header::AUTHORIZATION, "Bearer granted".parse().unwrap()));
        guard.fetch(request).await
    };
    let fetched = ask(&format!("http://127.0.0.1:{port}/")).await.unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&fetched.body).unwrap()["authorization"], "Bearer granted");
    assert_eq!(ask(&format!("http://local.dev:{port}/")).await.unwrap_err(), FetchError::InsecureCredential);
}

/// With HTTP/2, unrequested data would be read even when no request is running.
#[tokio::test]
async fn a_server_that_speaks_http2_too_is_spoken_to_by_http1() {
    let version = any(|request: axum::extract::Request| async move { format!("{:?}", request.version()) });
    let (address, root) = serve_tls(Router::new().route("/", version), &["first.dev"]).await;
    let guard = guard(GuardSettings {
        allow: vec![format!("first.dev:{}", address.port())],
        roots: vec![root],
        lookup: Some(FixedNames::new(&[("first.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    });
    assert_eq!(fetch(&guard, &format!("https://first.dev:{}/", address.port())).await.unwrap().body, "HTTP/1.1");
}

#[test]
fn every_failure_has_the_code_that_handlers_know_it_by() {
    let text = String::new;
    for (failure, code) in [
        (FetchError::InvalidUrl(text()), "invalid_argument"),
        (FetchError::Forbidden(text()), "forbidden_address"),
        (FetchError::BadRedirect(text()), "forbidden_address"),
        (FetchError::InsecureCredential, "forbidden_address"),
        (FetchError::HostNotAllowed(text()), "not_granted"),
        (FetchError::TooManyRedirects, "too_many_redirects"),
        (FetchError::Timeout(1), "timeout"),
        (FetchError::Unreachable(text()), "unreachable"),
        (FetchError::TooLarge(1), "body_too_large"),
        (FetchError::Flooded(1), "bad_response"),
        (FetchError::Encoded(text()), "bad_response"),
        (FetchError::Undecodable("gzip"), "bad_response"),
    ] {
        assert_eq!(failure.code(), code, "{failure:?}");
    }
}

#[tokio::test]
async fn https_reaches_the_checked_address_and_secrets_stay_with_their_origin() {
    let (second, second_root) = serve_tls(Router::new().route("/", get(echo)), &["second.dev"]).await;
    let onward = format!("https://second.dev:{}/", second.port());
    let plain = serve(Router::new().route("/", get(echo))).await;
    let downgrade = format!("http://{plain}/");
    let first = Router::new()
        .route("/", get(echo))
        .route("/same", get(|| async { Redirect::temporary("/") }))
        .route("/other", get(move || async move { Redirect::temporary(&onward) }))
        .route("/plain", get(move || async move { Redirect::temporary(&downgrade) }));
    let (first, first_root) = serve_tls(first, &["first.dev"]).await;
    let guard = guard(GuardSettings {
        allow: vec![
            format!("first.dev:{}", first.port()),
            format!("second.dev:{}", second.port()),
            plain.to_string(),
            format!("plain.dev:{}", plain.port()),
        ],
        roots: vec![first_root, second_root],
        lookup: Some(FixedNames::new(&[("first.dev", &["127.0.0.1"]), ("second.dev", &["127.0.0.1"]), ("plain.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    });
    let ask = async |path: &str| {
        let url = format!("https://first.dev:{}{path}", first.port());
        let mut request = Fetch::get(&url, WALL, 10_000);
        request.headers.insert("x-api-key", "handlers-own".parse().unwrap());
        request.headers.insert("accept", "application/json".parse().unwrap());
        request.credential = Some((header::AUTHORIZATION, "Bearer granted".parse().unwrap()));
        guard.fetch(request).await.map(|fetched| serde_json::from_slice::<serde_json::Value>(&fetched.body).unwrap())
    };
    for path in ["/", "/same"] {
        let seen = ask(path).await.unwrap();
        assert_eq!((&seen["authorization"], &seen["x-api-key"]), (&"Bearer granted".into(), &"handlers-own".into()), "{path}");
    }
    let seen = ask("/other").await.unwrap();
    assert_eq!((seen.get("authorization"), seen.get("x-api-key"), &seen["accept"]), (None, None, &"application/json".into()));
    assert!(matches!(ask("/plain").await.unwrap_err(), FetchError::BadRedirect(_)));
    // Only a URL that names a loopback address itself rules out interception.
    let url = format!("http://plain.dev:{}/", plain.port());
    let mut insecure = Fetch::get(&url, WALL, 1_000);
    insecure.credential = Some((header::AUTHORIZATION, "Bearer granted".parse().unwrap()));
    assert_eq!(guard.fetch(insecure).await.unwrap_err(), FetchError::InsecureCredential);
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let (address, root) = serve_tls(Router::new(), &["first.dev"]).await;
    let guard = guard(GuardSettings {
        allow: vec![format!("other.dev:{}", address.port())],
        roots: vec![root],
        lookup: Some(FixedNames::new(&[("other.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    });
    let refused = fetch(&guard, &format!("https://other.dev:{}/", address.port())).await.unwrap_err();
    assert!(matches!(refused, FetchError::Unreachable(_)), "{refused:?}");
}

#[tokio::test]
async fn a_name_of_the_hosts_file_is_known_only_where_settings_name_it() {
    let server = Router::new().route("/", get(|| async { "here" }));
    let port = serve(server).await.port();
    let guard = guard(GuardSettings { allow: vec![format!("localhost:{port}")], ..GuardSettings::default() });
    assert_eq!(fetch(&guard, &format!("http://localhost:{port}/")).await.unwrap().body, "here");
    assert!(matches!(fetch(&guard, "https://localhost/").await.unwrap_err(), FetchError::Forbidden(_)));
}
