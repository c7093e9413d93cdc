//! Foreign text on a terminal. It cannot move the cursor, forge a line, or use much memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, extract::Request, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Host, eventually, js};

const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}b\u{9b}31m\u{2066}c\u{200b}";

/// Returns whether a text contains no control characters for a terminal.
pub fn is_harmless(text: &str) -> bool {
    text.chars().all(|char| {
        char == '\n'
            || !char.is_control()
                && !('\u{200b}'..='\u{200f}').contains(&char)
                && !('\u{202a}'..='\u{202e}').contains(&char)
                && !('\u{2066}'..='\u{2069}').contains(&char)
    })
}

async fn serving(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// An answer with the fields of all answers. `H` stands for an attack on the terminal, even where
/// numbers are expected.
const ANSWER: &str = r#"{
    "ok": true, "nextCursor": "H", "slug": "H", "name": "H", "since": "H", "version": "H", "revision": "H", "label": "H",
    "endpoint": {
        "slug": "H", "title": "H", "description": "H", "status": "H", "url": "H", "owner": "H", "builder": { "name": "H" },
        "handlerType": "js_request_response", "priceUsd": "H", "maxPriceUsd": "H", "version": "H", "revision": "H", "updatedAt": "H",
        "capabilities": { "H": true }, "allowedHosts": ["H"], "requestedCapabilities": { "H": true }, "requestedHosts": ["H"],
        "review": {
            "state": "H", "since": "H", "approvedVersion": "H", "decision": { "decision": "H", "reason": "H" },
            "findings": [{ "rule": "H", "field": "H", "line": "H", "excerpt": "H" }], "approvedFields": { "title": "before", "H": "H" }
        },
        "contentSafety": { "findings": [{ "rule": "H", "field": "H", "line": "H", "excerpt": "H" }] },
        "ownLimits": { "H": "H" }, "tags": ["H"], "usage": { "calls30d": "H", "medianMs": "H" },
        "versions": [{ "version": "H", "createdAt": "H", "by": "H", "via": "H", "note": "H" }]
    },
    "endpoints": [{
        "slug": "H", "state": "H", "title": "H", "priceUsd": "H", "revision": "H", "updatedAt": "H", "builder": { "name": "H" },
        "usage": { "calls30d": "H" }, "calls": "H", "coldCalls": "H", "running": "H", "refused": "H", "stops": "H"
    }],
    "handler": { "source": "H", "language": "js" },
    "check": { "version": "H", "needsReview": true, "requested": { "hosts": ["H"], "capabilities": { "H": true } }, "warnings": ["H"] },
    "logs": [{ "at": "H", "level": "H", "callId": "H", "message": "H", "fields": { "H": "H" } }],
    "calls": [{
        "at": "H", "outcome": "H", "code": "H", "callId": "H", "durationMs": "H", "cpuMs": "H", "priceUsd": "H", "payment": "H",
        "receiptId": "H", "version": "H", "error": "H", "thrownAt": ["H"]
    }],
    "events": [{ "at": "H", "kind": "H", "endpointSlug": "H", "data": { "H": "H" } }],
    "buckets": [{ "at": "H", "calls": "H", "paid": "H", "grossUsd": "H", "p50Ms": "H", "p95Ms": "H" }],
    "days": [{ "at": "H", "calls": "H", "paid": "H", "p50Ms": "H", "p95Ms": "H" }],
    "secrets": [{ "name": "H", "visibility": "H", "updatedAt": "H" }],
    "rotation": { "keyId": "H", "resealed": "H", "retired": ["H"], "unopened": 0 },
    "byEndpoint": [{ "endpointSlug": "H", "calls": "H", "byDay": [{ "day": "H", "calls": "H" }] }],
    "totals": { "calls": "H" }, "own": { "calls": "H" }, "waiting": { "receiptCount": "H" },
    "payouts": [{
        "id": "H", "status": "H", "receiptCount": "H", "network": "H", "createdAt": "H", "builderName": "H"
    }],
    "payout": {
        "id": "H", "status": "H", "receiptCount": "H", "builderId": "H", "address": "H", "network": "H", "asset": "H", "transaction": "H",
        "reason": "H", "digest": "H", "period": { "from": "H", "to": "H" }
    },
    "receipts": [{ "receiptId": "H" }],
    "payoutSettings": { "address": "H", "network": "H", "asset": "H" },
    "creditId": "H", "credit": "H", "balanceUsd": "H", "budget": { "perDayUsd": "H" }, "budgets": { "H": "H" },
    "revoked": { "reason": "H" },
    "credits": [{ "creditId": "H", "balanceUsd": "H", "createdAt": "H", "label": "H" }],
    "movements": [{ "at": "H", "kind": "H", "slug": "H", "receiptId": "H" }],
    "reviews": [{
        "slug": "H", "since": "H", "revision": "H", "requestedCapabilities": { "H": true }, "requestedHosts": ["H"], "content": "H",
        "owner": "H"
    }],
    "policy": { "a": "H", "H": "H" },
    "narrows": { "endpoints": "H", "longRunning": "H", "slugs": ["H"] },
    "entries": [{
        "at": "H", "actor": { "kind": "H" }, "method": "H", "path": "H", "slug": "H", "fields": ["H"], "outcome": { "code": "H" }
    }],
    "builderId": "H", "builderKey": "H", "builder": { "name": "H", "builderId": "H", "tier": "H" },
    "builders": [{ "builderId": "H", "endpoints": "H", "last30Days": { "calls": "H" }, "seenAt": "H", "name": "H", "contact": "H" }],
    "rescan": { "endpoints": "H", "review": "H", "blocked": "H" },
    "accounts": [{ "account": "H", "balance": "H", "unit": "H", "agrees": false }], "agrees": "H",
    "receipt": {
        "receiptId": "H", "slug": "H", "kind": "H", "payer": "H", "network": "H", "issuedAt": "H", "transaction": "H", "requestHash": "H"
    },
    "payment": {
        "paymentId": "H", "state": "H", "receiptId": "H", "transaction": "H", "updatedAt": "H",
        "accepts": [{ "asset": { "symbol": "H" }, "network": "H", "facilitator": "H" }]
    },
    "sandbox": { "workers": "H", "running": "H", "queued": "H", "jail": ["H"], "startsFail": "H" },
    "openSettlements": "H", "stored": { "backend": "H" }, "intake": { "connections": "H" }
}"#;

/// Starts a host that gives this answer to every request, demands payment for its tools, and breaks
/// off streams.
pub async fn hostile() -> String {
    let words = json!(format!("{HOSTILE}\nforged")).to_string();
    let describe = |reported: &str| reported.replace("\"H\"", &words);
    let answer = describe(ANSWER);
    let log = r#"{ "at": "H", "level": "H", "callId": "H", "message": "H" }"#;
    let stream = describe(&format!("event: lagged\ndata: {{\"missed\":\"H\"}}\n\nevent: log\nid: 1\ndata: {log}\n\n"));
    let refusal = describe(r#"{ "ok": false, "error": { "code": "H", "message": "H", "hint": "H", "requestId": "H" } }"#);
    let method = json!({
        "scheme": "exact", "network": "eip155:84532", "amount": "1000", "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 40, "extra": { "name": "USDC", "version": "2" },
    });
    let challenge = STANDARD.encode(json!({ "x402Version": 2, "accepts": [method] }).to_string());
    let streams = Arc::new(AtomicUsize::new(0));
    serving(Router::new().fallback(move |request: Request| {
        let follows = request.headers().get("accept").is_some_and(|kind| kind == "text/event-stream");
        let reported = if request.uri().path().starts_with("/tools/") {
            (StatusCode::PAYMENT_REQUIRED, [("payment-required", challenge.clone())], String::new())
        } else if !follows {
            (StatusCode::OK, [("content-type", "application/json".to_owned())], answer.clone())
        } else if streams.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            (StatusCode::OK, [("content-type", "text/event-stream".to_owned())], stream.clone())
        } else {
            (StatusCode::NOT_FOUND, [("content-type", "application/json".to_owned())], refusal.clone())
        };
        async move { reported }
    }))
    .await
}

#[tokio::test]
async fn no_command_has_a_host_drive_a_terminal() {
    let url = hostile().await;
    let shell = Shell::at(&url).env("TOLLHOUSE_ADMIN_TOKEN", "t");
    let policy = shell.file("policy.json", "{}");
    shell.run(&["init", "anything"]).await.is(0);
    let folder = shell.home().join("anything");
    let commands: &[&[&str]] = &[
        &["list", "--all"],
        &["list", "--public"],
        &["show", "anything"],
        &["versions", "anything"],
        &["rollback", "anything", "--to", "3f9a1c0b"],
        &["pause", "anything"],
        &["delete", "anything", "--yes"],
        &["diff"],
        &["deploy", "--dry-run", "--onto", "0"],
        &["call", "anything", "--dry-run"],
        &["logs", "anything"],
        &["logs", "anything", "--follow"],
        &["calls", "anything"],
        &["events"],
        &["metrics", "anything"],
        &["metrics", "anything", "--public"],
        &["secrets", "list", "--slug", "anything"],
        &["secrets", "rm", "A", "--slug", "anything"],
        &["secrets", "rotate", "--url", &url],
        &["revenue", "--daily"],
        &["revenue", "--host"],
        &["payouts", "list"],
        &["payouts", "show", "p"],
        &["payouts", "make"],
        &["payouts", "settings"],
        &["payouts", "approve", "p"],
        &["credits", "list"],
        &["credits", "show", "c"],
        &["credits", "mint", "1"],
        &["credits", "budget", "c", "--per-day", "1"],
        &["credits", "revoke", "c"],
        &["reviews"],
        &["reviews", "show", "anything"],
        &["reviews", "approve", "anything", "--yes"],
        &["policy"],
        &["policy", "check", &policy],
        &["policy", "edit", "a=1", "--yes"],
        &["audit"],
        &["builders"],
        &["builders", "suspend", "b"],
        &["builders", "new-key", "--yes"],
        &["register", "Toolsmith"],
        &["whoami"],
        &["host"],
        &["host", "manifest"],
        &["host", "runtime"],
        &["host", "ledger"],
        &["host", "rescan"],
        &["receipt", "r"],
        &["payment", "p"],
        &["refund", "r", "--yes"],
    ];
    for words in commands {
        // After a broken stream the command reconnects, and is refused.
        let status = if words.contains(&"--follow") { 1 } else { 0 };
        for words in [words.to_vec(), [&["--json"][..], *words].concat()] {
            let ran = shell.run_in(&folder, &words).await.is(status);
            assert!(is_harmless(&ran.stdout) && is_harmless(&ran.stderr), "{words:?}: {ran:?}");
            assert!(!ran.stdout.contains("\nforged") && !ran.stderr.contains("\nforged"), "{words:?}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn words_of_others_drive_no_terminal() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let source = "export default (req, ctx) => { ctx.log.error(req.input.words + '\\n10:00:00  error  call_0  forged', { [req.input.words]: req.input.words }); throw new Error(req.input.words); };";
    let mut tool = js("hostile", 0.0, source);
    tool["title"] = json!(HOSTILE);
    tool["description"] = json!(format!("{HOSTILE}\nslug      forged"));
    // Admins also see endpoints that the content scan holds back. They must be as safe.
    host.publish(&tool).await;
    host.call("hostile", &json!({ "words": HOSTILE })).await;
    let mut tool = js("held", 0.0, "export default () => eval('1');");
    tool["title"] = json!("held");
    host.as_builder(&key, reqwest::Method::POST, "/ai/endpoints/create", &tool).await;
    let verdict = json!({ "decision": "reject", "reason": "no, thanks" });
    host.manage(reqwest::Method::POST, "/ai/admin/reviews/held", &verdict).await;
    let shell = Shell::admin(&host);
    eventually("the line is stored", std::time::Duration::from_secs(10), async || {
        (!shell.json(&["logs", "hostile"]).await["logs"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    for words in [
        &["list", "--all"][..],
        &["list", "--public"],
        &["show", "hostile"],
        &["logs", "hostile"],
        &["calls", "hostile"],
        &["reviews", "show", "hostile"],
        &["audit"],
    ] {
        let ran = shell.run(words).await.is(0);
        assert!(is_harmless(&ran.stdout) && is_harmless(&ran.stderr), "{words:?}: {ran:?}");
        let as_json = shell.run(&[words, &["--json"]].concat()).await.is(0);
        assert!(is_harmless(&as_json.stdout), "{words:?}: {as_json:?}");
    }
    let log = shell.run(&["logs", "hostile"]).await.is(0);
    assert!(log.stdout.contains("U+200B") && !log.stdout.contains("\n10:00:00"), "{log:?}");
    let shown = shell.run(&["show", "hostile"]).await.is(0);
    assert!(shown.stdout.contains("U+001B[2JU+001B]0;ownedU+0007U+202EbU+009B31mU+2066cU+200B\n  slug      forged"), "{shown:?}");
    let record = shell.json(&["show", "hostile"]).await;
    assert_eq!(record["endpoint"]["title"], HOSTILE, "programs read what was written");
}

#[tokio::test]
async fn error_of_a_host_drives_no_terminal() {
    let body = json!({ "ok": false, "error": { "code": HOSTILE, "message": format!("{HOSTILE}\nerror: forged"), "hint": HOSTILE, "requestId": HOSTILE } }).to_string();
    let router = Router::new().fallback(move || {
        let body = body.clone();
        async move { (StatusCode::BAD_REQUEST, body) }
    });
    let url = serving(router).await;
    let ran = Shell::at(&url).run(&["show", "anything"]).await.is(1);
    assert!(is_harmless(&ran.stderr) && !ran.stderr.contains("\nerror: forged"), "{ran:?}");
    let ran = Shell::at(&url).run(&["show", "anything", "--json"]).await.is(1);
    assert!(is_harmless(&ran.stderr), "{ran:?}");
    assert_eq!(serde_json::from_str::<Value>(&ran.stderr).unwrap()["error"]["hint"], HOSTILE);
}

#[tokio::test]
async fn answer_without_end_is_not_read_forever() {
    let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b' '; 64 << 10])));
    let router = Router::new().fallback(move || {
        let endless = endless.clone();
        async move { axum::body::Body::from_stream(endless) }
    });
    let url = serving(router).await;
    let expected = "error: the host's answer has more than … bytes";
    Shell::at(&url).run(&["show", "anything"]).await.is(1).warned(expected);
    Shell::new().run(&["verify-receipt", &format!("{url}/ai/receipts/rcpt_1")]).await.is(1).warned(expected);
    let events = Router::new().fallback(|| async {
        let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b'a'; 64 << 10])));
        ([("content-type", "text/event-stream")], axum::body::Body::from_stream(endless))
    });
    let shell = Shell::at(&serving(events).await).env("TOLLHOUSE_ADMIN_TOKEN", "t");
    shell.run(&["logs", "anything", "-f"]).await.is(1).warned("error: the host sent an event that is too large to be one");
}
