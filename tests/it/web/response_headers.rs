//! Security headers, sizes and addresses of all answers.

use reqwest::{Method, header::HeaderMap};
use serde_json::json;

use super::{all_pages, html, page, values};
use crate::harness::{Answer, Host};

/// Maximum number of bytes of a first visit: markup, style, scripts.
const MAX: [usize; 3] = [40 << 10, 16 << 10, 30 << 10];

/// Maximum number of bytes of a document for people, which is longer.
const DOCUMENT: usize = 100 << 10;

/// Error pages.
const REFUSED: [(&str, u16); 8] = [
    ("/dashboard/nothing", 404),
    ("/dashboard/tools/none-such", 404),
    ("/dashboard/tools/%3Cscript%3E", 404),
    ("/dashboard/receipts/rcpt_none", 404),
    ("/dashboard/payments/pmt_none", 404),
    ("/guides/none", 404),
    ("/docs/none", 404),
    ("/dashboard?cursor=none", 400),
];

#[track_caller]
fn is_sealed(path: &str, answer: &Answer) {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
        base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{path}");
    }
    assert!(answer.has("permissions-policy").contains("camera=()"));
    assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control-")), "{path}: {answer:?}");
    assert_eq!(answer.header("set-cookie"), None);
}

#[tokio::test]
async fn every_page_is_sealed_and_light_and_has_no_script_of_its_own() {
    let host = Host::builder().with_catalogue().start().await;
    let mut pages = all_pages(&host).await;
    assert!(pages.len() > 14, "ten tools, the list, the receipts, the guides");
    for (path, status) in REFUSED {
        let answer = page(&host, path).await.is(status);
        assert!(html(&answer).contains("<h1>"), "{path}");
        pages.push((path.to_owned(), answer));
    }
    for (path, answer) in pages {
        is_sealed(&path, &answer);
        let html = html(&answer);
        let max = if path.starts_with("/docs") { DOCUMENT } else { MAX[0] };
        assert!(html.len() <= max, "{path} has {} bytes", html.len());
        assert_eq!(answer.header("content-encoding"), None, "`vary` names the encoding and the visitor's choice");
        for tag in html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.split([' ', '/']).next().unwrap();
            assert!(name != "script" || tag.contains(" src=\"/assets/"), "{path}: <{tag}>");
            assert!(name != "style" && name != "iframe" && name != "img" && name != "base", "{path}: <{tag}>");
            assert!(
                !tag.contains(" style=") && !tag.split(' ').any(|word| word.starts_with("on") && word.contains('=')),
                "{path}: <{tag}>"
            );
        }
    }
}

#[tokio::test]
async fn assets_are_cached_forever_under_their_content_hash() {
    let host = Host::start().await;
    let html = html(&page(&host, "/dashboard/receipts/rcpt_none").await) + &html(&page(&host, "/dashboard").await);
    let all: std::collections::BTreeSet<_> =
        values(&html, "href").into_iter().chain(values(&html, "src")).filter(|link| link.starts_with("/assets/")).collect();
    let (mut styles, mut scripts) = (0, 0);
    for path in &all {
        let answer = host.get(path).await.is(200);
        is_sealed(path, &answer);
        assert_eq!(answer.has("cache-control"), "public, max-age=31536000, immutable");
        let packed = host.send(host.request(Method::GET, path).header("accept-encoding", "gzip")).await.is(200);
        assert_eq!((packed.has("content-encoding"), packed.has("vary")), ("gzip", "accept-encoding"));
        assert!(packed.body.len() < answer.body.len());
        *(if answer.has("content-type").starts_with("text/css") { &mut styles } else { &mut scripts }) += answer.body.len();
    }
    assert!(all.len() >= 3 && styles > 0 && styles <= MAX[1] && scripts > 0 && scripts <= MAX[2], "{styles} and {scripts} bytes");
    let other = all.first().unwrap().replace("/assets/", "/assets/0");
    is_sealed(&other, &host.get(&other).await.is(404));
}

#[tokio::test]
async fn the_dashboard_is_reached_by_the_hosts_own_names_alone() {
    let host = Host::start().await;
    let port = host.url.rsplit(':').next().unwrap();
    for (name, status) in [
        ("evil.example".to_owned(), 403),
        (format!("localhost.evil.example:{port}"), 403),
        ("[::2]".to_owned(), 403),
        ("a b".to_owned(), 400),
        (format!("localhost:{port}"), 200),
        (format!("127.0.0.1:{port}"), 200),
    ] {
        for path in ["/dashboard", "/guides/build-a-tool", "/dashboard/receipts", "/docs", "/docs/limits", "/docs/search?q=a"] {
            let answer = host.send(host.request(Method::GET, path).header("host", &name)).await.is(status);
            is_sealed(path, &answer);
            assert!(status == 200 || html(&answer).contains("<h1>"));
        }
    }
}

#[tokio::test]
async fn other_names_are_refused_before_anything_is_looked_for() {
    let host = Host::start().await;
    let request = |method: Method, path: &str| host.request(method, path).header("host", "evil.example");
    for (method, path) in [
        (Method::GET, "/dashboard/nothing"),
        (Method::GET, "/guides/nothing"),
        (Method::GET, "/assets/0/nothing.js"),
        (Method::POST, "/dashboard"),
        (Method::DELETE, "/dashboard/tools/any"),
        (Method::PUT, "/docs"),
        (Method::POST, "/"),
    ] {
        let answer = host.send(request(method.clone(), path)).await.is(403);
        is_sealed(path, &answer);
        assert!(html(&answer).contains("is not a name of this host"), "{method} {path}");
    }
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let answer = host.send(request(method, "/ai/mcp")).await.is(403);
        assert_eq!(answer.json()["error"]["data"]["code"], "forbidden");
    }
    for (method, path, code) in [(Method::GET, "/dashboard/api/ai/nothing", 403), (Method::GET, "/ai/nothing", 404)] {
        host.send(request(method, path)).await.is(code);
    }
}

#[tokio::test]
async fn pages_of_other_origins_read_nothing_of_it() {
    let host = Host::start().await;
    let asks = [("origin", "https://evil.example"), ("access-control-request-method", "GET")];
    let headers: HeaderMap = asks.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    for path in ["/dashboard", "/dashboard/tools/any", "/guides/build-a-tool"] {
        let preflight = host.preflight(path, headers.clone()).await;
        assert!(preflight.headers.keys().all(|name| !name.as_str().starts_with("access-control-")), "{preflight:?}");
        let read = host.send(host.request(Method::GET, path).headers(headers.clone())).await;
        is_sealed(path, &read);
    }
    assert_eq!(host.preflight("/ai/endpoints", headers).await.has("access-control-allow-origin"), "*", "programs' addresses are as ever");
}

#[tokio::test]
async fn a_refusal_is_reported_in_the_apis_words() {
    let host = Host::start().await;
    let refused = host.send(host.request(Method::POST, "/dashboard").json(&json!({}))).await.is(405);
    is_sealed("/dashboard", &refused);
    assert!(refused.has("allow").contains("GET"));
    let html = html(&refused);
    for reported in ["`POST` is not allowed for this path", "method_not_allowed", "nothing was charged", refused.has("x-request-id")] {
        assert!(html.contains(reported), "{reported}: {html}");
    }
    let limited = Host::builder().flag("--rate-limit", 1).start().await;
    let mut last = None;
    for _ in 0..10 {
        last = Some(page(&limited, "/dashboard").await).filter(|answer| answer.status == 429);
        if last.is_some() {
            break;
        }
    }
    let last = last.expect("the address is limited");
    is_sealed("/dashboard", &last);
    assert!(last.has("retry-after").parse::<u64>().is_ok());
    assert!(super::html(&last).contains("rate_limited"));
}

#[tokio::test]
async fn the_root_and_a_slash_too_many_lead_to_a_page() {
    let host = Host::start().await;
    let guide = "/guides/x402-agent-payment-infrastructure";
    for (path, page) in [("/", "/dashboard"), ("/dashboard/", "/dashboard"), ("/docs/", "/docs"), ("/guides", guide), ("/guides/", guide)] {
        assert_eq!(host.get(path).await.is(303).has("location"), page);
    }
}
