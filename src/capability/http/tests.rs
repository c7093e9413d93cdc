use std::sync::Arc;

use axum::{Json, Router, extract::Query, http::StatusCode, response::IntoResponse, routing::get};
use serde_json::{Value, json};
use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_protocol::Limits;

use super::*;
use crate::{
    Grant, GuardSettings,
    secret::{Secret, Visibility},
    testing::{FixedNames, serve, serve_tls},
};

fn call(limits: Limits) -> CallGrants {
    let secrets = vec![Secret::new("API_KEY", "k-0123456789", Visibility::Auth), Secret::new("BAD", "a\nb", Visibility::Env)];
    CallGrants {
        owner: tollhouse_tool::Owner::Platform,
        endpoint_id: EndpointId::generate(),
        call_id: CallId::generate(),
        by_owner: false,
        grant: Arc::new(Grant::default()),
        secrets,
        limits,
    }
}

/// The arguments of a request.
struct GetJson<'a> {
    url: &'a str,
    headers: &'a [(String, String)],
    timeout_ms: Option<u64>,
    auth: Option<&'a HeaderFromEnv>,
}

struct Caller {
    guard: Guard,
    hosts: AllowedHosts,
    call: CallGrants,
    counters: HttpCounters,
    hidden: Redactor,
}

impl Caller {
    fn new(guard: Guard, hosts: &[&str], limits: Limits) -> Self {
        Self {
            guard,
            hosts: AllowedHosts::parse(hosts).unwrap(),
            call: call(limits),
            counters: HttpCounters::default(),
            hidden: Redactor::new(["k-0123456789"]),
        }
    }

    fn outgoing(&self) -> OutgoingRequest<'_> {
        OutgoingRequest {
            guard: &self.guard,
            hosts: self.hosts.clone(),
            requested_hosts: AllowedHosts::default(),
            call: &self.call,
            counters: &self.counters,
            hidden: &self.hidden,
            placeholders: Placeholders::of(&self.call.secrets),
            recorded: None,
        }
    }

    async fn ask(&self, request: GetJson<'_>) -> Result<Value, OpFailure> {
        self.text(request).await.map(|json| serde_json::from_slice(&json).unwrap())
    }

    /// Returns the JSON text that the handler parses.
    async fn text(&self, request: GetJson<'_>) -> Result<Bytes, OpFailure> {
        let GetJson { url, headers, timeout_ms, auth } = request;
        match self.outgoing().get(url.to_owned(), headers.to_vec(), timeout_ms, auth.cloned()).await? {
            OpValue::Json(json) => Ok(json),
            OpValue::None | OpValue::Bytes(_) | OpValue::Response { .. } => panic!("expected JSON"),
        }
    }

    async fn get(&self, url: &str) -> Result<Value, OpFailure> {
        self.ask(GetJson { url, headers: &[], timeout_ms: None, auth: None }).await
    }
}

async fn local(router: Router, limits: Limits) -> (Caller, String) {
    let address = serve(router).await;
    let guard = Guard::new(GuardSettings { allow: vec![address.to_string()], ..GuardSettings::default() }).unwrap();
    (Caller::new(guard, &["127.0.0.1"], limits), format!("http://{address}"))
}

#[tokio::test]
async fn an_answer_is_status_safe_headers_and_json() {
    let answer = || async {
        (
            StatusCode::IM_A_TEAPOT,
            [("etag", "\"1\""), ("set-cookie", "a=b"), ("x-powered-by", "x"), ("retry-after", "3")],
            Json(json!({"n": [1, null]})),
        )
    };
    let (caller, base) = local(Router::new().route("/", get(answer)), Limits::default()).await;
    let answer = caller.get(&base).await.unwrap();
    assert_eq!((&answer["status"], &answer["json"]), (&json!(418), &json!({"n": [1, null]})));
    let headers: Vec<_> = answer["headers"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(headers, ["content-type", "date", "etag", "retry-after"]);
}

#[tokio::test]
async fn only_json_comes_through() {
    let typed = |kind: &'static str, body: &'static [u8]| get(move || async move { ([("content-type", kind)], body) });
    let server = Router::new()
        .route("/html", typed("text/html", b"<p>1"))
        .route("/picture", typed("image/png", b"1"))
        .route("/form", typed("application/x-www-form-urlencoded", b"1"))
        .route("/words", typed("text/plain", b"not found"))
        .route("/untyped-words", typed("", b"not found"))
        .route("/drawing", typed("image/svg+json", b"1"))
        .route("/broken", typed("application/json", b"{\"a\":"))
        .route("/two", typed("application/json", b"1 2"))
        .route("/latin", typed("application/json", b"\"\xe4\""))
        .route("/problem", typed("application/problem+json; charset=utf-8", b"{\"title\":\"x\"}"))
        .route("/bom", typed("APPLICATION/JSON", b"\xef\xbb\xbf[1]"))
        .route("/empty", get(|| async { StatusCode::NO_CONTENT }))
        .route("/deep", get(|| async { ([("content-type", "application/json")], "[".repeat(50_000) + &"]".repeat(50_000)) }));
    let (caller, base) = local(server, Limits { http_requests: 50, ..Limits::default() }).await;
    for path in ["/html", "/picture", "/form", "/words", "/untyped-words", "/drawing", "/broken", "/two", "/latin"] {
        assert_eq!(caller.get(&format!("{base}{path}")).await.unwrap_err().code, "not_json", "{path}");
    }
    for (path, expected) in [("/problem", json!({"title": "x"})), ("/bom", json!([1])), ("/empty", Value::Null)] {
        assert_eq!(caller.get(&format!("{base}{path}")).await.unwrap()["json"], expected, "{path}");
    }
    let url = format!("{base}/deep");
    let outgoing = caller.outgoing();
    assert!(outgoing.get(url, vec![], None, None).await.is_ok());
}

#[tokio::test]
async fn hosts_outside_the_grant_are_refused_and_reported_where_to_allow_them() {
    let guard = Guard::new(GuardSettings::default()).unwrap();
    let caller = Caller::new(guard, &["api.example.com"], Limits::default());
    let refused = caller.get("https://example.com/").await.unwrap_err();
    assert_eq!(
        (refused.code.as_str(), refused.message.as_str()),
        ("not_granted", "the host `example.com` is not in `allowedHosts` of `tool.json`")
    );
    assert_eq!(caller.get("https://127.0.0.1/").await.unwrap_err().code, "not_granted");
    assert_eq!(caller.get("nonsense").await.unwrap_err().code, "invalid_argument");
    let caller = Caller::new(caller.guard, &["127.0.0.1", "*.internal.dev"], Limits::default());
    assert_eq!(caller.get("https://127.0.0.1/").await.unwrap_err().code, "forbidden_address");
}

#[tokio::test]
async fn requests_are_counted_and_bounded() {
    let server = Router::new()
        .route("/", get(|| async { Json(1) }))
        .route("/slow", get(std::future::pending::<()>))
        .route("/large", get(|| async { Json("x".repeat(3_000)) }));
    let limits = Limits { http_requests: 5, http_wall_ms: 1_500, http_body_bytes: 2_000, ..Limits::default() };
    let (caller, base) = local(server, limits).await;
    let slow = format!("{base}/slow");
    let patient = caller.ask(GetJson { url: &slow, headers: &[], timeout_ms: Some(60_000), auth: None }).await.unwrap_err();
    assert_eq!((patient.code.as_str(), patient.message.as_str()), ("timeout", "the server did not complete its answer within 1500 ms"));
    let hasty = caller.ask(GetJson { url: &slow, headers: &[], timeout_ms: Some(50), auth: None }).await.unwrap_err();
    assert_eq!(hasty.message, "the server did not complete its answer within 50 ms");
    assert_eq!(caller.get(&format!("{base}/large")).await.unwrap_err().code, "body_too_large");
    for _ in 0..2 {
        assert_eq!(caller.get(&base).await.unwrap()["json"], 1);
    }
    assert_eq!(caller.get(&base).await.unwrap_err().code, "quota_exceeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_six_requests_of_a_call_are_open() {
    let (open, max) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let server = {
        let max = Arc::clone(&max);
        Router::new().route(
            "/",
            get(move || async move {
                max.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                open.fetch_sub(1, Ordering::SeqCst);
                Json(1)
            }),
        )
    };
    let (caller, base) = local(server, Limits { http_requests: 20, ..Limits::default() }).await;
    let answers = futures_util::future::join_all((0..20).map(|_| caller.get(&base))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(max.load(Ordering::SeqCst), OPEN as u64);
}

#[tokio::test]
async fn a_handler_sets_its_own_headers_only() {
    let echo = |headers: axum::http::HeaderMap, Query(_): Query<Value>| async move {
        Json(
            headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect::<std::collections::BTreeMap<_, _>>(),
        )
        .into_response()
    };
    let (caller, base) = local(Router::new().route("/", get(echo)), Limits::default()).await;
    let own = [("X-Api-Version".to_owned(), "3".to_owned()), ("User-Agent".to_owned(), "tool/1".to_owned())];
    let answer = caller.ask(GetJson { url: &base, headers: &own, timeout_ms: None, auth: None }).await.unwrap();
    let seen = &answer["json"];
    assert_eq!(
        (&seen["x-api-version"], &seen["user-agent"], &seen["accept"], &seen["accept-encoding"]),
        (&json!("3"), &json!("tool/1"), &json!("application/json"), &json!("identity"))
    );
    let refused = [
        ("Host", "a"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "x"),
        ("Proxy-Authorization", "x"),
        ("Sec-Fetch-Site", "x"),
        ("X-Forwarded-For", "1.1.1.1"),
        ("a b", "x"),
        ("", "x"),
        ("x", "a\r\nHost: b"),
        ("x", "a\0"),
        ("accept-encoding", "gzip"),
        ("x", &"v".repeat(8_192)),
    ];
    for (name, value) in refused {
        let headers = [(name.to_owned(), value.to_owned())];
        let refused = caller.ask(GetJson { url: &base, headers: &headers, timeout_ms: None, auth: None }).await.unwrap_err();
        assert_eq!(refused.code, "invalid_argument", "{name}");
    }
    let ask = async |headers: &[(String, String)]| {
        let answer = caller.ask(GetJson { url: &base, headers, timeout_ms: None, auth: None }).await;
        answer.map(|answer| answer["json"].as_object().unwrap().keys().filter(|name| name.starts_with("own-")).count())
    };
    let max_len = [("own-1".to_owned(), "v".repeat(8_192 - "own-1".len()))];
    assert_eq!(ask(&max_len).await.unwrap(), 1);
    let own: Vec<_> = (0..33).map(|n| (format!("own-{n}"), "v".to_owned())).collect();
    assert_eq!(ask(&own[..32]).await.unwrap(), 32);
    assert_eq!(ask(&own).await.unwrap_err().code, "invalid_argument");
}

#[tokio::test]
async fn a_granted_secret_is_sent_over_https_and_never_shown() {
    let echo = |headers: axum::http::HeaderMap| async move { Json(headers.get("x-key").map(|key| key.to_str().unwrap().len())) };
    let (address, root) = serve_tls(Router::new().route("/", get(echo)), &["api.seller.dev"]).await;
    let plain = serve(Router::new().route("/", get(echo))).await;
    let guard = Guard::new(GuardSettings {
        allow: vec![format!("api.seller.dev:{}", address.port()), format!("plain.seller.dev:{}", plain.port()), plain.to_string()],
        roots: vec![root],
        lookup: Some(FixedNames::new(&[("api.seller.dev", &["127.0.0.1"]), ("plain.seller.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    })
    .unwrap();
    let caller = Caller::new(guard, &["*.seller.dev", "127.0.0.1"], Limits::default());
    let url = format!("https://api.seller.dev:{}/", address.port());
    let auth = |header: &str, env: &str| HeaderFromEnv { header: header.to_owned(), env: env.to_owned() };
    let ask = async |url: &str, auth: HeaderFromEnv| caller.ask(GetJson { url, headers: &[], timeout_ms: None, auth: Some(&auth) }).await;
    assert_eq!(ask(&url, auth("X-Key", "API_KEY")).await.unwrap()["json"], "k-0123456789".len());
    let insecure = format!("http://plain.seller.dev:{}/", plain.port());
    assert_eq!(ask(&insecure, auth("X-Key", "API_KEY")).await.unwrap_err().code, "forbidden_address");
    // A request to the machine's own loopback address cannot be intercepted.
    assert_eq!(ask(&format!("http://{plain}/"), auth("X-Key", "API_KEY")).await.unwrap()["json"], "k-0123456789".len());
    let refused = ask(&url, auth("X-Key", "OTHER")).await.unwrap_err();
    assert!(refused.code == "not_granted" && refused.message.contains("`OTHER`"), "{refused:?}");
    let refused = ask(&url, auth("X-Key", "BAD")).await.unwrap_err();
    assert!(refused.code == "invalid_argument" && !refused.message.contains("a\nb"), "{refused:?}");
    assert_eq!(ask(&url, auth("Host", "API_KEY")).await.unwrap_err().code, "invalid_argument");
}

#[tokio::test]
async fn a_secret_sent_back_is_hidden_from_the_handler_however_it_is_escaped() {
    let echo = |headers: axum::http::HeaderMap| async move {
        let key = headers.get("x-key").map(|key| key.to_str().unwrap().to_owned()).unwrap_or_default();
        let escaped: String = key.chars().map(|character| format!("\\u{:04x}", u32::from(character))).collect();
        let body = format!("{{\"plain\": \"{key}\", \"escaped\": \"<{escaped}>\", \"{key}\": 1, \"other\": 2.50}}");
        ([("content-type", "application/json"), ("etag", "\"k-0123456789\"")], body)
    };
    let (caller, base) = local(Router::new().route("/", get(echo)), Limits::default()).await;
    let auth = HeaderFromEnv { header: "x-key".to_owned(), env: "API_KEY".to_owned() };
    let answer = caller.ask(GetJson { url: &base, headers: &[], timeout_ms: None, auth: Some(&auth) }).await.unwrap();
    assert_eq!(answer["json"], json!({ "plain": "[redacted]", "escaped": "<[redacted]>", "[redacted]": 1, "other": 2.5 }));
    assert_eq!(answer["headers"]["etag"], "\"[redacted]\"");
    let refused = caller.get("https://k-0123456789.example.com/").await.unwrap_err();
    assert!(!refused.message.contains("0123456789"), "{refused:?}");
}

#[tokio::test]
async fn secret_is_hidden_in_json_that_only_a_handler_can_parse() {
    let nested = |text: &str| "[".repeat(200) + text + &"]".repeat(200);
    let cases = [
        (r#"{"a": "k-0123456789", "n": 1e999}"#.to_owned(), r#"{"a": "[redacted]", "n": 1e999}"#.to_owned()),
        (r#"["\ud83d k-\u0030123456789"]"#.to_owned(), r#"["\ud83d [redacted]"]"#.to_owned()),
        (
            r#"{"$serde_json::private::RawValue": "k-0123456789"}"#.to_owned(),
            r#"{"$serde_json::private::RawValue": "[redacted]"}"#.to_owned(),
        ),
        (nested(r#""k-0123456789""#), nested(r#""[redacted]""#)),
        (r#"{"n": 1e999, "other": 2.50}"#.to_owned(), r#"{"n": 1e999, "other": 2.50}"#.to_owned()),
    ];
    let server = cases.iter().enumerate().fold(Router::new(), |server, (at, (body, _))| {
        let body = body.clone();
        server.route(&format!("/{at}"), get(move || async move { ([("content-type", "application/json")], body) }))
    });
    let (caller, base) = local(server, Limits::default()).await;
    for (at, (body, expected)) in cases.iter().enumerate() {
        let url = format!("{base}/{at}");
        let text = caller.text(GetJson { url: &url, headers: &[], timeout_ms: None, auth: None }).await.unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        assert!(text.ends_with(&format!("\"json\":{expected}}}")), "{body}: {text}");
    }
}

#[tokio::test]
async fn errors_hide_a_secret_that_a_server_repeats_in_any_header() {
    const SECRET: &str = "K-AbCdEf0123456789012345";
    let headers = [
        ("content-type", format!("application/{SECRET}")),
        ("content-type", format!("application/x; {SECRET}; image/{SECRET}")),
        // These are shortened within the secret.
        ("content-type", format!("image/{}{SECRET}", "x".repeat(80))),
        ("content-encoding", format!("{}{SECRET}", "x".repeat(30))),
        // A URL has the host in lower case.
        ("location", format!("https://{SECRET}.example.com/")),
        ("location", format!("{SECRET}://example.com/")),
    ];
    let server = headers.iter().cloned().enumerate().fold(Router::new(), |server, (at, header)| {
        server.route(&format!("/{at}"), get(move || async move { (StatusCode::FOUND, [header], "x") }))
    });
    let (mut caller, base) = local(server, Limits::default()).await;
    caller.hidden = Redactor::new([SECRET]);
    for (at, header) in headers.iter().enumerate() {
        let message = caller.get(&format!("{base}/{at}")).await.unwrap_err().message;
        assert!(!message.to_ascii_lowercase().contains("abcdef"), "{header:?}: {message}");
        assert!(at == 1 || message.contains("[redacted]"), "{header:?}: {message}");
    }
}

#[tokio::test]
async fn json_is_read_under_any_content_type() {
    let typed = |kind: &'static str| {
        get(move || async move {
            let mut answer = axum::response::Response::new(axum::body::Body::from(r#"{"a":1}"#));
            if !kind.is_empty() {
                answer.headers_mut().insert("content-type", axum::http::HeaderValue::from_static(kind));
            }
            answer
        })
    };
    let kinds = [
        "text/json",
        "text/plain; charset=utf-8",
        "Text/JavaScript",
        "application/javascript",
        "application/octet-stream",
        "binary/octet-stream",
        "application/x-json",
        "text/x-json",
        "text/html",
        "",
    ];
    let server = kinds.iter().enumerate().fold(Router::new(), |server, (at, kind)| server.route(&format!("/{at}"), typed(kind)));
    let (caller, base) = local(server, Limits { http_requests: 50, ..Limits::default() }).await;
    for (at, kind) in kinds.iter().enumerate() {
        assert_eq!(caller.get(&format!("{base}/{at}")).await.unwrap()["json"], json!({"a": 1}), "{kind}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_json_reports_its_status() {
    let server = Router::new()
        .route("/there", get(|| async { ([("content-type", "text/html")], "<p>here") }))
        .fallback(|| async { (StatusCode::NOT_FOUND, [("content-type", "text/html")], "<p>nothing") });
    let (caller, base) = local(server, Limits::default()).await;
    let missing = caller.get(&format!("{base}/missing")).await.unwrap_err();
    assert_eq!((missing.code.as_str(), missing.status), ("not_json", Some(404)));
    assert_eq!(caller.get(&format!("{base}/there")).await.unwrap_err().status, Some(200));
    assert_eq!(caller.get("https://example.com/").await.unwrap_err().status, None, "nobody was asked");
}

#[tokio::test]
async fn a_packed_answer_is_unpacked_and_a_query_and_a_location_are_encoded() {
    let packed = || async {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut gzip, br#"{"a":1}"#).unwrap();
        ([("content-type", "application/json"), ("content-encoding", "GZip")], gzip.finish().unwrap())
    };
    let echo = |uri: axum::http::Uri| async move { Json(uri.to_string()) };
    let onward = || async {
        let location = axum::http::HeaderValue::from_bytes("/echo/h\u{e4}?q=\u{2603} x".as_bytes()).unwrap();
        (StatusCode::FOUND, [("location", location)])
    };
    let server = Router::new().route("/packed", get(packed)).route("/onward", get(onward)).route("/echo/{*rest}", get(echo));
    let (caller, base) = local(server, Limits::default()).await;
    assert_eq!(caller.get(&format!("{base}/packed")).await.unwrap()["json"], json!({"a": 1}));
    let spaced = caller.get(&format!("{base}/echo/a b?q=a b\u{a0}c")).await.unwrap();
    assert_eq!(spaced["json"], "/echo/a%20b?q=a%20b%C2%A0c");
    assert_eq!(caller.get(&format!("{base}/onward")).await.unwrap()["json"], "/echo/h%C3%A4?q=%E2%98%83%20x");
}

#[tokio::test]
async fn a_host_with_a_dot_at_its_end_is_the_same_host() {
    let (address, root) = serve_tls(Router::new().route("/", get(|| async { Json(1) })), &["api.seller.dev"]).await;
    let guard = Guard::new(GuardSettings {
        allow: vec![format!("api.seller.dev:{}", address.port())],
        roots: vec![root],
        lookup: Some(FixedNames::new(&[("api.seller.dev", &["127.0.0.1"])])),
        ..GuardSettings::default()
    })
    .unwrap();
    let caller = Caller::new(guard, &["api.seller.dev"], Limits::default());
    assert_eq!(caller.get(&format!("https://api.seller.dev.:{}/", address.port())).await.unwrap()["json"], 1);
    for (url, code) in
        [("https://other.seller.dev./", "not_granted"), ("https://api.seller.dev../", "not_granted"), ("https://com./", "not_granted")]
    {
        assert_eq!(caller.get(url).await.unwrap_err().code, code, "{url}");
    }
}
