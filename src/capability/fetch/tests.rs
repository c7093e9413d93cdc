mod pieces;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes as Body,
    http::{HeaderMap as Received, Method as Asked, StatusCode, Uri},
    response::IntoResponse,
    routing::{any, get},
};
use serde_json::{Value, json};
use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_protocol::Limits;

use super::*;
use crate::{
    AllowedHosts, CallGrants, Grant, Guard, GuardSettings,
    guard::{RecordedAnswer, RecordedAnswers},
    http::HttpCounters,
    secret::{Placeholder, Placeholders, Secret, SecretPlace, Visibility},
    testing::serve,
};

const SECRET: &str = "K-AbCdEf0123456789012345";

struct Caller {
    guard: Guard,
    hosts: AllowedHosts,
    call: CallGrants,
    counters: HttpCounters,
    hidden: Redactor,
    recorded: Option<Arc<RecordedAnswers>>,
}

impl Caller {
    fn new(guard: Guard, hosts: &[&str], limits: Limits) -> Self {
        let call = CallGrants {
            owner: tollhouse_tool::Owner::Platform,
            endpoint_id: EndpointId::generate(),
            call_id: CallId::generate(),
            by_owner: false,
            grant: Arc::new(Grant::default()),
            secrets: Vec::new(),
            limits,
        };
        let hosts = AllowedHosts::parse(hosts).unwrap();
        Self { guard, hosts, call, counters: HttpCounters::default(), hidden: Redactor::new([SECRET]), recorded: None }
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
            recorded: self.recorded.clone(),
        }
    }

    /// Sends a request. Returns the head and the body of its response.
    async fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        mode: RedirectMode,
    ) -> Result<(Value, Bytes), OpFailure> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let body = Bytes::copy_from_slice(body);
        let id = fastrand::u32(..);
        match self.outgoing().send(method.to_owned(), url.to_owned(), headers, body, mode, id).await? {
            OpValue::Response { head, body, more } => {
                let mut body = body.to_vec();
                let mut is_open = more;
                while is_open {
                    match self.outgoing().read(id).await? {
                        OpValue::Bytes(piece) => body.extend_from_slice(&piece),
                        _ => is_open = false,
                    }
                }
                Ok((serde_json::from_slice(&head).unwrap(), body.into()))
            }
            OpValue::None | OpValue::Json(_) | OpValue::Bytes(_) => panic!("expected a response"),
        }
    }

    async fn get(&self, url: &str) -> Result<(Value, Bytes), OpFailure> {
        self.send("GET", url, &[], b"", RedirectMode::Follow).await
    }
}

async fn local(router: Router, limits: Limits) -> (Caller, String) {
    let address = serve(router).await;
    let guard = Guard::new(GuardSettings { allow: vec![address.to_string()], ..GuardSettings::default() }).unwrap();
    (Caller::new(guard, &["127.0.0.1"], limits), format!("http://{address}"))
}

/// Returns the values of a header in a head.
fn values<'h>(head: &'h Value, name: &str) -> Vec<&'h str> {
    let rows = head["headers"].as_array().unwrap().iter();
    rows.filter(|row| row[0] == name).map(|row| row[1].as_str().unwrap()).collect()
}

#[tokio::test]
async fn method_headers_and_body_reach_the_server() {
    let echo = |method: Asked, uri: Uri, headers: Received, body: Body| async move {
        let value = |name: &str| headers.get(name).map(|value| value.as_bytes().iter().copied().map(char::from).collect::<String>());
        let names = ["content-type", "range", "origin", "x-own", "host", "accept-encoding", "x-forwarded-for", "content-length"];
        let headers: Vec<_> = names.iter().map(|name| (*name, value(name))).collect();
        axum::Json(json!({ "method": method.as_str(), "uri": uri.to_string(), "headers": headers, "body": body.to_vec() }))
    };
    let (caller, base) = local(Router::new().route("/", any(echo)), Limits { http_requests: 50, ..Limits::default() }).await;
    let own = [
        ("content-type", "application/x-own"),
        ("range", "bytes=0-1"),
        ("origin", "https://a.example"),
        ("x-own", "caf\u{e9}"),
        ("host", "forged.example"),
        ("content-length", "99"),
        ("accept-encoding", "identity"),
        ("x-forwarded-for", "1.1.1.1"),
        ("transfer-encoding", "chunked"),
    ];
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"] {
        let (head, body) = caller.send(method, &format!("{base}/?a=b#c"), &own, &[0, 255], RedirectMode::Follow).await.unwrap();
        assert_eq!((&head["status"], &head["statusText"], &head["redirected"]), (&json!(200), &json!("OK"), &json!(false)));
        assert_eq!(head["url"], format!("{base}/?a=b"), "without the fragment");
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["method"], &body["uri"], &body["body"]), (&json!(method), &json!("/?a=b"), &json!([0, 255])));
        let host = base.strip_prefix("http://");
        let sent = json!([
            ["content-type", "application/x-own"],
            ["range", "bytes=0-1"],
            ["origin", "https://a.example"],
            ["x-own", "caf\u{e9}"],
            ["host", host],
            ["accept-encoding", "identity"],
            ["x-forwarded-for", null],
            ["content-length", "2"],
        ]);
        assert_eq!(body["headers"], sent, "{method}");
    }
}

#[tokio::test]
async fn a_request_without_a_body_has_a_length_if_its_method_expects_one() {
    let length = |headers: Received| async move {
        headers.get("content-length").map_or("none".to_owned(), |length| length.to_str().unwrap().to_owned())
    };
    let moved = || async { (StatusCode::SEE_OTHER, [("location", "/")]) };
    let server = Router::new().route("/", any(length)).route("/moved", any(moved));
    let (caller, base) = local(server, Limits { http_requests: 50, ..Limits::default() }).await;
    for (method, length) in [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("GET", "none"), ("DELETE", "none"), ("OPTIONS", "none")] {
        assert_eq!(caller.send(method, &base, &[], b"", RedirectMode::Follow).await.unwrap().1, length, "{method}");
    }
    let (_, body) = caller.send("POST", &format!("{base}/moved"), &[], b"", RedirectMode::Follow).await.unwrap();
    assert_eq!(body, "none", "it became a GET");
}

#[tokio::test]
async fn only_whole_responses_may_be_compressed() {
    let accepted = |headers: Received| async move { headers["accept-encoding"].to_str().unwrap().to_owned() };
    let (caller, base) = local(Router::new().route("/", any(accepted)), Limits::default()).await;
    for (headers, accepted) in [(&[][..], "gzip, deflate, br, zstd"), (&[("range", "bytes=0-1")][..], "identity")] {
        assert_eq!(caller.send("GET", &base, headers, b"", RedirectMode::Follow).await.unwrap().1, accepted);
    }
}

#[tokio::test]
async fn headers_of_a_head_response_describe_the_body_of_a_get() {
    let answer = || async { [("content-encoding", "gzip"), ("content-length", "1234")] };
    let (caller, base) = local(Router::new().route("/", any(answer)), Limits::default()).await;
    let (head, body) = caller.send("HEAD", &base, &[], b"", RedirectMode::Follow).await.unwrap();
    assert_eq!((values(&head, "content-encoding"), values(&head, "content-length")), (vec!["gzip"], vec!["1234"]));
    assert_eq!(body.len(), 0);
}

#[tokio::test]
async fn invalid_requests_are_refused_again_by_the_host() {
    let (caller, base) = local(Router::new(), Limits::default()).await;
    let large = vec![0; REQUEST_BODY_BYTES + 1];
    let many: Vec<_> = (0..33).map(|_| ("a", "b")).collect();
    for (method, headers, body) in [
        ("TRACE", &[][..], &b""[..]),
        ("connect", &[], b""),
        ("Track", &[], b""),
        ("a b", &[], b""),
        ("", &[], b""),
        (&"X".repeat(65), &[], b""),
        ("GET", &[("a", "b\r\nc: d")], b""),
        ("GET", &[("a", "\u{2603}")], b""),
        ("GET", &[("a\r\nb", "c")], b""),
        ("GET", &[("", "c")], b""),
        ("GET", &many, b""),
        ("POST", &[], &large),
    ] {
        let refused = caller.send(method, &base, headers, body, RedirectMode::Follow).await.unwrap_err();
        assert_eq!(refused.code, "invalid_argument", "{method} {headers:?}");
    }
    assert_eq!(caller.get("https://elsewhere.dev/").await.unwrap_err().code, "not_granted");
}

#[tokio::test]
async fn any_status_any_body_and_all_headers_are_returned() {
    let answer = || async {
        let headers = [("set-cookie", "a=b"), ("x-powered-by", "x"), ("content-type", "image/png")];
        let mut response = (StatusCode::IM_A_TEAPOT, headers, vec![0_u8, 159, 255]).into_response();
        response.headers_mut().append("set-cookie", axum::http::HeaderValue::from_static("c=d"));
        response.headers_mut().append("x-latin", axum::http::HeaderValue::from_bytes(b"caf\xe9").unwrap());
        response
    };
    let (caller, base) = local(Router::new().route("/", any(answer)), Limits::default()).await;
    let (head, body) = caller.get(&base).await.unwrap();
    assert_eq!((&head["status"], &head["statusText"], &body[..]), (&json!(418), &json!("I'm a teapot"), &[0, 159, 255][..]));
    assert_eq!((values(&head, "set-cookie"), values(&head, "x-powered-by")), (vec!["a=b", "c=d"], vec!["x"]));
    assert_eq!(values(&head, "x-latin"), ["caf\u{e9}"]);
    let (head, body) = caller.send("HEAD", &base, &[], b"", RedirectMode::Follow).await.unwrap();
    assert_eq!((&head["status"], body.len()), (&json!(418), 0));
}

#[tokio::test]
async fn redirects_are_followed_returned_or_refused() {
    let server = Router::new()
        .route("/here", any(|method: Asked| async move { method.to_string() }))
        .route("/moved", any(|| async { (StatusCode::SEE_OTHER, [("location", "/here")]) }))
        .route("/inside", any(|| async { (StatusCode::TEMPORARY_REDIRECT, [("location", "http://127.0.0.1:1/")]) }))
        .route("/away", any(|| async { (StatusCode::TEMPORARY_REDIRECT, [("location", "https://elsewhere.dev/")]) }));
    let (caller, base) = local(server, Limits::default()).await;
    let post = async |path: &str, mode| caller.send("POST", &format!("{base}{path}"), &[], b"body", mode).await;
    let (head, body) = post("/moved", RedirectMode::Follow).await.unwrap();
    assert_eq!((&head["url"], &head["redirected"], &body[..]), (&json!(format!("{base}/here")), &json!(true), &b"GET"[..]));
    let (head, _) = post("/moved", RedirectMode::Manual).await.unwrap();
    assert_eq!((&head["status"], values(&head, "location"), &head["redirected"]), (&json!(303), vec!["/here"], &json!(false)));
    assert_eq!(post("/moved", RedirectMode::Error).await.unwrap_err().code, "redirected");
    assert_eq!(post("/inside", RedirectMode::Follow).await.unwrap_err().code, "forbidden_address");
    assert_eq!(post("/away", RedirectMode::Follow).await.unwrap_err().code, "not_granted");
}

#[tokio::test]
async fn a_secret_sent_back_is_hidden_in_every_part_of_a_response() {
    let lower = SECRET.to_ascii_lowercase();
    let escaped: String = SECRET.chars().map(|character| format!("\\u{:04x}", u32::from(character))).collect();
    let body = format!("plain {SECRET}, escaped \"{escaped}\", hex {}", hex::encode(SECRET));
    let name = axum::http::HeaderName::from_bytes(lower.as_bytes()).unwrap();
    let location = format!("/here?{SECRET}");
    let server = Router::new()
        .route(
            "/here",
            get(move || async move {
                let mut response = body.into_response();
                response.headers_mut().insert("x-echo", format!("<{SECRET}>").parse().unwrap());
                response.headers_mut().insert(name, "1".parse().unwrap());
                response
            }),
        )
        .route("/moved", get(move || async move { (StatusCode::FOUND, [("location", location)]) }));
    let (caller, base) = local(server, Limits::default()).await;
    let (head, body) = caller.get(&format!("{base}/moved")).await.unwrap();
    assert_eq!(body, "plain [redacted], escaped \"[redacted]\", hex [redacted]");
    assert_eq!((&head["url"], values(&head, "x-echo")), (&json!(format!("{base}/here?[redacted]")), vec!["<[redacted]>"]));
    assert!(!head.to_string().to_ascii_lowercase().contains("abcdef"), "{head}");
}

#[tokio::test]
async fn a_secret_in_json_is_hidden_whatever_the_response_declares() {
    let escaped: String = SECRET.chars().map(|character| format!("\\\\u{:04x}", u32::from(character))).collect();
    let nested = format!(r#"{{"a":"{{\"b\":\"{escaped}\"}}"}}"#);
    for kind in ["application/json", "text/plain", "application/octet-stream"] {
        let body = nested.clone();
        let server = Router::new().route("/", get(move || async move { ([("content-type", kind)], body) }));
        let (caller, base) = local(server, Limits::default()).await;
        let body: Value = serde_json::from_slice(&caller.get(&base).await.unwrap().1).unwrap();
        let inner: Value = serde_json::from_str(body["a"].as_str().unwrap()).unwrap();
        assert_eq!(inner, json!({ "b": "[redacted]" }), "{kind}");
    }
}

#[tokio::test]
async fn limits_are_shared_with_http_get_json() {
    let server = Router::new()
        .route("/", any(|| async { axum::Json(1) }))
        .route("/slow", any(std::future::pending::<()>))
        .route("/large", any(|| async { "x".repeat(3_000) }));
    let limits = Limits { http_requests: 4, http_wall_ms: 1_000, http_body_bytes: 2_000, ..Limits::default() };
    let (caller, base) = local(server, limits).await;
    assert_eq!(caller.get(&format!("{base}/slow")).await.unwrap_err().code, "timeout");
    assert_eq!(caller.get(&format!("{base}/large")).await.unwrap_err().code, "body_too_large");
    let outgoing = caller.outgoing();
    assert!(outgoing.get(base.clone(), vec![], None, None).await.is_ok());
    assert!(caller.get(&base).await.is_ok());
    assert_eq!(caller.get(&base).await.unwrap_err().code, "quota_exceeded");
    assert_eq!(outgoing.get(base, vec![], None, None).await.unwrap_err().code, "quota_exceeded");
}

#[tokio::test]
async fn recorded_answers_are_chosen_by_method() {
    let answer = |method: Asked, body: &'static str| RecordedAnswer {
        method,
        url: "https://api.example.com/".parse().unwrap(),
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()),
    };
    let mut caller = Caller::new(Guard::new(GuardSettings::default()).unwrap(), &["api.example.com"], Limits::default());
    let recorded =
        Arc::new(RecordedAnswers::new(vec![answer(Asked::GET, "got"), answer(Asked::POST, "posted"), answer(Asked::PUT, "put")]));
    caller.recorded = Some(Arc::clone(&recorded));
    let url = "https://api.example.com/";
    assert_eq!(caller.send("POST", url, &[], b"a", RedirectMode::Follow).await.unwrap().1, "posted");
    assert_eq!(caller.get(&format!("{url}#part")).await.unwrap().1, "got");
    assert_eq!(caller.get(url).await.unwrap_err().code, "unreachable");
    assert_eq!(recorded.remaining(), [(Asked::PUT, url.parse().unwrap())]);
}

/// Serves the reversed `authorization`, query and body of a request, so that no redactor finds a secret in them.
fn reversing() -> Router {
    let echo = |uri: Uri, headers: Received, body: String| async move {
        let sent = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let all = format!("{sent}|{}|{body}", uri.query().unwrap_or_default());
        axum::Json(all.chars().rev().collect::<String>())
    };
    let moved = |uri: Uri| async move { (StatusCode::TEMPORARY_REDIRECT, [("location", uri.query().unwrap().to_owned())]) };
    Router::new().route("/", any(echo)).route("/moved", any(moved))
}

/// Returns a caller with a secret for the first of two servers, their URLs, and the placeholder.
async fn with_placeholder(places: &[SecretPlace]) -> (Caller, [String; 2], String) {
    let addresses = [serve(reversing()).await, serve(reversing()).await];
    let allow = addresses.iter().map(ToString::to_string).collect();
    let guard = Guard::new(GuardSettings { allow, ..GuardSettings::default() }).unwrap();
    let mut caller = Caller::new(guard, &["127.0.0.1"], Limits { http_requests: 50, ..Limits::default() });
    let hosts = AllowedHosts::parse(&[addresses[0].to_string()]).unwrap();
    let secret = Secret { placeholder: Placeholder::generate(hosts, places.to_vec()), ..Secret::new("KEY", SECRET, Visibility::Hosts) };
    let placeholder = secret.in_env().unwrap().to_owned();
    caller.call.secrets.push(secret);
    (caller, addresses.map(|address| format!("http://{address}")), placeholder)
}

fn reversed(body: &Bytes) -> String {
    serde_json::from_slice::<String>(body).unwrap().chars().rev().collect()
}

#[tokio::test]
async fn a_placeholder_becomes_its_secret_at_the_hosts_of_the_secret_alone() {
    let (caller, [own, other], key) = with_placeholder(&[SecretPlace::Header, SecretPlace::Body]).await;
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    let send = |url: String, body: &'static [u8]| {
        let (caller, headers) = (&caller, &headers);
        async move { caller.send("POST", &url, headers, body, RedirectMode::Follow).await }
    };
    let sent = format!("Bearer {SECRET}||");
    assert_eq!(reversed(&send(format!("{own}/"), b"").await.unwrap().1), sent);
    assert_eq!(reversed(&send(format!("{own}/moved?/"), b"").await.unwrap().1), sent, "a redirect to the same origin");
    let refused = send(format!("{other}/"), b"").await.unwrap_err();
    assert_eq!(refused.code, "not_granted");
    assert!(refused.message.contains("the secret `KEY` can only be sent to `127.0.0.1:"), "{}", refused.message);
    // To another origin, the header is not sent.
    assert_eq!(reversed(&send(format!("{own}/moved?{other}/"), b"").await.unwrap().1), "||");
    let body = key.clone().into_bytes();
    let moved = caller.send("POST", &format!("{own}/moved?{other}/"), &headers, &body, RedirectMode::Follow).await;
    assert_eq!(moved.unwrap_err().code, "not_granted", "nor is the body");
    let kept = caller.send("POST", &format!("{own}/"), &[], &body, RedirectMode::Follow).await.unwrap().1;
    assert_eq!(reversed(&kept), format!("||{SECRET}"));
}

#[tokio::test]
async fn a_server_cannot_redirect_the_value_of_a_placeholder_to_others() {
    let (caller, [own, other], key) = with_placeholder(&[SecretPlace::Url]).await;
    let (head, body) = caller.get(&format!("{own}/?k={key}")).await.unwrap();
    assert_eq!(reversed(&body), format!("|k={SECRET}|"));
    assert_eq!(head["url"], format!("{own}/?k={key}"));
    let refused = caller.get(&format!("{own}/moved?{other}/%3Fk={key}")).await.unwrap_err();
    assert_eq!(refused.code, "forbidden_address");
    assert!(refused.message.contains("it would send the secret `KEY` to another host"), "{}", refused.message);
    let manual = caller.send("GET", &format!("{own}/moved?{other}/{key}"), &[], b"", RedirectMode::Manual).await.unwrap().0;
    assert_eq!(values(&manual, "location"), [format!("{other}/[redacted]")]);
}

#[tokio::test]
async fn http_get_json_sends_the_secret_of_a_placeholder() {
    let (caller, [own, other], key) = with_placeholder(&[SecretPlace::Header]).await;
    let auth = || Some(tollhouse_protocol::HeaderFromEnv { header: "authorization".to_owned(), env: "KEY".to_owned() });
    let get = async |url: &str, headers: Vec<(String, String)>, auth| caller.outgoing().get(url.to_owned(), headers, None, auth).await;
    let headers = || vec![("authorization".to_owned(), key.clone())];
    for (headers, auth) in [(headers(), None), (vec![], auth())] {
        let OpValue::Json(json) = get(&own, headers, auth).await.unwrap() else { panic!("expected JSON") };
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["json"].as_str().unwrap().chars().rev().collect::<String>(), format!("{SECRET}||"));
    }
    assert_eq!(get(&other, headers(), None).await.unwrap_err().code, "not_granted");
    assert_eq!(get(&other, vec![], auth()).await.unwrap_err().code, "not_granted");
}

#[tokio::test]
async fn recorded_answers_name_secrets_in_urls_and_are_no_way_around_their_hosts() {
    let guard = Guard::new(GuardSettings::default()).unwrap();
    let mut caller = Caller::new(guard, &["api.example.com", "b.example.com"], Limits::default());
    let hosts = AllowedHosts::parse(&["api.example.com"]).unwrap();
    let secret =
        Secret { placeholder: Placeholder::generate(hosts, vec![SecretPlace::Url]), ..Secret::new("KEY", SECRET, Visibility::Hosts) };
    let key = secret.in_env().unwrap().to_owned();
    caller.call.secrets.push(secret);
    let answer = |url: &str| RecordedAnswer {
        method: Asked::GET,
        url: url.parse().unwrap(),
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"recorded"),
    };
    let recorded = RecordedAnswers::new(vec![answer("https://api.example.com/bot$KEY/me"), answer("https://b.example.com/bot$KEY/me")]);
    caller.recorded = Some(Arc::new(recorded));
    assert_eq!(caller.get(&format!("https://api.example.com/bot{key}/me")).await.unwrap().1, "recorded");
    assert_eq!(caller.get(&format!("https://b.example.com/bot{key}/me")).await.unwrap_err().code, "not_granted");
}
