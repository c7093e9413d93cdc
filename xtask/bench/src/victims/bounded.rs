//! Attacks on structures with bounds: names, keys and values from strangers, and requests that the host makes itself.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::attack::{Attack, JS_VICTIM, Met, PACE, TIMEOUT, VICTIM, publish_at, publish_with};
use crate::{
    Failure,
    client::{Client, Request},
    host::{ADMIN_TOKEN, Host},
    http2::{Flood, HeldRequest},
    mcp,
};

/// Requests of several megabytes that an attacker sends per second.
const LARGE_PACE: f64 = 8.0;

/// Returns the rows.
pub(super) fn attacks(host: &Host) -> Result<Vec<(String, Attack)>, Failure> {
    const ANSWERS_A_MEBIBYTE: &str = "export default () => ({ text: 'x'.repeat((1 << 20) - 64) });";
    const CHECK: &str = "checks-readiness";
    publish_with(host, "answers-a-mebibyte", ANSWERS_A_MEBIBYTE, &json!({ "outputBytes": 1 << 20 }))?;
    let check =
        json!({ "slug": CHECK, "title": CHECK, "priceUsd": 0, "handlerType": "x402_readiness_check", "inputSchema": { "type": "object" } });
    let check = Request::post("/ai/endpoints/create", &check.to_string()).with("x-admin-token", ADMIN_TOKEN);
    Client::connect(host.address())?.expect_ok(&check)?;
    let call = |params: serde_json::Value| mcp::request("/ai/mcp", "tools/call", params);
    let long = "n".repeat(4_000_000);
    let tree = format!("[{}[]]", "[],".repeat(900_000));
    let tree: serde_json::Value = serde_json::from_str(&tree)?;
    let batch = json!(vec![json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }); 20]).to_string();
    let json = vec![("content-type", "application/json"), ("accept", "application/json")];
    let of_mcp = [&json[..], &[("mcp-protocol-version", "2025-03-26")]].concat();
    let own = |path: &str| format!("http://{}{path}", host.address());
    let checks = ["/ai/endpoints", "/ai/mcp", "/tools/find-images-00012"];
    let checks = checks.map(|path| Request::post(&format!("/tools/{CHECK}"), &json!({ "url": own(path) }).to_string()));
    let quote = |slug: &str| Request::post("/ai/quote", &json!({ "slug": slug }).to_string());
    let form = format!("credential=wrong&again=%2Fdashboard%2Fnew&sent%3Atext%3A%2Ftitle={}", "a".repeat(3_700_000));
    let sign_in = Request::form("/dashboard/session", &form).with("sec-fetch-site", "same-origin");
    Ok(vec![
        ("WINDOW_UPDATE over 4 connections".to_owned(), Attack::Floods(4, Flood::Windows)),
        ("PRIORITY over 4 connections".to_owned(), Attack::Floods(4, Flood::Priorities)),
        ("frames of an unknown kind over 4 connections".to_owned(), Attack::Floods(4, Flood::Unknown)),
        ("requests with 1,900 HPACK fields".to_owned(), Attack::Hoards(HeldRequest::Fields("/health/live", 1_900))),
        ("heads without bodies over HTTP/2".to_owned(), Attack::Hoards(HeldRequest::Head("/tools/receipt-echo-free"))),
        (
            "answers of 1 MiB that nobody takes".to_owned(),
            Attack::Hoards(HeldRequest::Post("/tools/answers-a-mebibyte", json, "{}".to_owned())),
        ),
        ("requests that join a running call".to_owned(), Attack::Hoards(joins(host)?)),
        ("MCP batches that nobody takes".to_owned(), Attack::Hoards(HeldRequest::Post("/ai/mcp", of_mcp, batch))),
        ("calls from a new address each".to_owned(), Attack::Moves(Request::post(&format!("/tools/{VICTIM}"), "{}"), 4.0 * PACE)),
        (
            "names of tools and texts of 4 MB".to_owned(),
            Attack::Asks(
                vec![call(json!({ "name": long, "arguments": {} })), call(json!({ "name": VICTIM, "arguments": { "a": long } }))],
                LARGE_PACE,
            ),
        ),
        (
            "MCP messages of 900,000 values".to_owned(),
            Attack::Asks(vec![call(json!({ "name": JS_VICTIM, "arguments": {}, "_meta": { "a": tree } }))], LARGE_PACE),
        ),
        ("readiness checks of the host itself".to_owned(), Attack::Asks(checks.to_vec(), PACE)),
        ("quotes".to_owned(), Attack::Asks(vec![quote("find-images-00012"), quote("none-such")], PACE)),
        ("sign-in forms of 3.7 MB".to_owned(), Attack::Asks(vec![sign_in], LARGE_PACE)),
    ])
}

/// Returns a request for a run that is never charged. Sent again, it joins the run.
fn joins(host: &Host) -> Result<HeldRequest, Failure> {
    const FAILS_LATE: &str = "export default async () => {
        await new Promise((done) => setTimeout(done, 15_000));
        throw new Error('late');
    };";
    publish_at(host, "fails-late", 0.01, FAILS_LATE, &json!({ "wallMs": 20_000 }))?;
    let (_, minted) = host.admin(Request::post("/ai/credits", &json!({ "amountUsd": 1, "label": "joins" }).to_string()))?;
    let token = minted["credit"].as_str().ok_or_else(|| format!("no credit was minted: {minted}"))?;
    // The benchmark has one, and a request lives as long as the benchmark.
    let token: &'static str = token.to_owned().leak();
    let fields = vec![("content-type", "application/json"), ("x-developer-credit", token), ("idempotency-key", "one-key-for-all-of-them")];
    Ok(HeldRequest::Post("/tools/fails-late", fields, "{}".to_owned()))
}

/// Sends `pace` requests per second, each from another loopback address. Returns the statuses of the answers.
pub(super) fn moves(address: SocketAddr, request: &Request, pace: f64, ending: &AtomicBool) -> Met {
    let (started, mut met) = (Instant::now(), Met::new());
    for turn in 0_u32.. {
        let due = Duration::from_secs_f64(f64::from(turn) / pace);
        while started.elapsed() < due && !ending.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_sub(started.elapsed()).min(Duration::from_millis(20)));
        }
        if ending.load(Ordering::Relaxed) {
            break;
        }
        let [_, high, middle, low] = (turn % (1 << 20) + (1 << 16)).to_be_bytes();
        let own = Ipv4Addr::new(127, high, middle, low.max(1));
        let query = Client::connect_from(own, address, TIMEOUT).and_then(|mut client| client.ask(request));
        *met.entry(query.unwrap_or(0)).or_default() += 1;
    }
    met
}
