//! Permissions of pages from other origins, as browsers ask for them.

use reqwest::{Method, header::HeaderMap};
use serde_json::json;

use crate::harness::{Host, js};

const ECHO: &str = "export default (req) => req.input;";

/// Headers that clients in browsers send beyond those that every page may send.
const SENT: [&str; 15] = [
    "accept",
    "authorization",
    "content-type",
    "idempotency-key",
    "if-match",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-param-region",
    "mcp-protocol-version",
    "mcp-session-id",
    "payment-signature",
    "x-admin-token",
    "x-developer-credit",
    "x-payment",
];

#[tokio::test]
async fn every_header_of_the_fields_clients_passes_a_preflight() {
    let host = Host::start().await;
    for (path, method) in [("/ai/mcp", "POST"), ("/tools/echo", "POST"), ("/ai/credits", "GET"), ("/ai/endpoints/echo", "PATCH")] {
        let asks = [
            ("origin", "http://localhost:3000"),
            ("access-control-request-method", method),
            ("access-control-request-headers", &SENT.join(",")),
        ];
        let headers: HeaderMap = asks.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let answer = host.preflight(path, headers).await.is(200);
        assert_eq!(answer.has("access-control-allow-origin"), "*");
        assert_eq!(answer.header("access-control-allow-credentials"), None, "a browser's own credentials are nobody's business");
        assert!(answer.has("access-control-allow-methods").split(',').any(|one| one == method));
        let allowed = answer.has("access-control-allow-headers").to_ascii_lowercase();
        // A wildcard would not include `authorization`.
        let missing: Vec<_> = SENT.iter().filter(|name| !allowed.split(',').any(|one| one.trim() == **name)).collect();
        assert!(missing.is_empty(), "{path}: {missing:?} are not in {allowed}");
    }
}

#[tokio::test]
async fn preflights_count_as_requests_of_their_address() {
    let host = Host::builder().flag("--rate-limit", 1).start().await;
    let asks = [("origin", "http://localhost:3000"), ("access-control-request-method", "POST")];
    let headers: HeaderMap = asks.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    let mut is_refused = false;
    for _ in 0..10 {
        is_refused |= host.preflight("/ai/mcp", headers.clone()).await.status == 429;
    }
    assert!(is_refused, "no preflight was refused");
}

#[tokio::test]
async fn browser_clients_can_read_the_headers_they_need() {
    let host = Host::builder().flag("--rate-limit", 1).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let mut last = None;
    for _ in 0..10 {
        let request = host.request(Method::POST, "/tools/echo").header("origin", "http://localhost:3000").json(&json!({}));
        last = Some(host.send(request).await).filter(|answer| answer.status == 429);
        if last.is_some() {
            break;
        }
    }
    let limited = last.expect("the address is limited");
    let exposed = limited.has("access-control-expose-headers").to_ascii_lowercase();
    for name in ["retry-after", "ratelimit", "ratelimit-policy", "payment-required", "payment-response", "x-receipt-id", "etag"] {
        assert!(exposed.split(',').any(|one| one.trim() == name), "{name} is not in {exposed}");
    }
    assert_eq!(limited.header("vary"), None, "answers do not depend on the origin");
}
