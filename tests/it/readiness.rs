//! The readiness check of a running host, applied to the host itself.

use std::net::Ipv4Addr;

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};

use crate::harness::Host;

const CHECK: &str = "x402-readiness-check";

async fn check(host: &Host, path: &str) -> Value {
    host.call(CHECK, &json!({ "url": format!("{}{path}", host.url) })).await.is(200).json()
}

#[tokio::test]
async fn a_host_checks_its_own_tools_and_its_own_mcp_endpoint() {
    let host = Host::builder().with_catalogue().start().await;
    let paid = check(&host, "/tools/receipt-echo-paid").await;
    assert_eq!((&paid["kind"], &paid["ready"], &paid["status"]), (&json!("paid_endpoint"), &json!(true), &json!(402)), "{paid:#}");
    let mcp = check(&host, "/ai/mcp").await;
    assert_eq!((&mcp["kind"], &mcp["ready"]), (&json!("mcp_endpoint"), &json!(true)), "{mcp:#}");
    assert!(mcp["found"]["mcp"]["tools"].as_u64() > Some(5), "{mcp:#}");
    let catalogue = check(&host, "/ai/endpoints").await;
    assert_eq!(catalogue["kind"], "endpoint_catalog", "{catalogue:#}");
}

#[tokio::test]
async fn a_host_checks_nothing_of_itself_that_is_not_for_everyone() {
    let host = Host::builder().with_catalogue().start().await;
    for path in ["/health", "/health/ready", "/metrics", "/dev/faucet?address=0x1", "/ai/admin/policy", "/ai/credits", "/tools/../health"] {
        let report = check(&host, path).await;
        assert_eq!((&report["reachable"], &report["reason"]["code"]), (&json!(false), &json!("forbidden_address")), "{path}: {report:#}");
    }
}

#[tokio::test]
async fn a_check_of_the_host_itself_is_its_askers_request_and_not_the_hosts() {
    let host = Host::builder().flag("--rate-limit", 5).with_catalogue().start().await;
    let elsewhere = Client::builder().no_proxy().local_address(Some(Ipv4Addr::new(127, 0, 0, 2).into())).build().unwrap();
    let request = json!({ "url": format!("{}/ai/mcp", host.url) });
    let checks = join_all((0..40).map(|_| async {
        let check = elsewhere.post(format!("{}/tools/{CHECK}", host.url)).json(&request);
        host.send(check).await.status
    }));
    let checks = checks.await;
    assert!(checks.contains(&200), "{checks:?}");
    // The host's own address has made no requests yet.
    for _ in 0..3 {
        host.get("/ai/manifest").await.is(200);
    }
}

#[tokio::test]
async fn invalid_url_gets_a_readable_error() {
    let host = Host::builder().with_catalogue().start().await;
    for (given, message) in
        [("nope", "the URL has no scheme; write a complete URL, for example `https://example.com/`"), ("https://", "the URL has no host")]
    {
        let report = host.call(CHECK, &json!({ "url": given })).await.is(200).json();
        assert_eq!(report["reason"]["message"], message, "{report:#}");
    }
}

#[tokio::test]
async fn a_check_of_a_check_ends_there() {
    let host = Host::builder().with_catalogue().start().await;
    let inner = format!("/tools/{CHECK}?url={}/tools/{CHECK}", host.url);
    let report = check(&host, &inner).await;
    assert_eq!((&report["reachable"], &report["kind"]), (&json!(true), &json!("unknown")), "{report:#}");
    let request = host.request(reqwest::Method::POST, &format!("/tools/{CHECK}"));
    let query = request.header("user-agent", concat!("tollhouse-readiness/", env!("CARGO_PKG_VERSION")));
    let report = host.send(query.json(&json!({ "url": format!("{}/tools/receipt-echo-paid", host.url) }))).await.is(200).json();
    assert_eq!((&report["reachable"], &report["reason"]["code"]), (&json!(false), &json!("asked_by_a_check")), "{report:#}");
}
