//! Foreign text on a terminal. It cannot move the cursor, forge a line, or use much memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, extract::Request, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Host, eventually, js, serve};

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

/// An answer with the fields of all answers. `H` stands for an attack on the terminal, in every field that is a text.
const ANSWER: &str = r#"{
    "ok": true, "nextCursor": "H", "slug": "H", "id": "H", "name": "H", "version": "H", "label": "H", "note": "H", "step": "1h",
    "since": "T", "createdAt": "T", "deleted": true, "removed": true, "total": 1, "warnings": [],
    "schema": "H", "dashboard": "H", "createEndpoint": "H", "lifecycle": {}, "builderControls": {}, "supportedHandlerTypes": {},
    "endpoint": {
        "slug": "H", "id": "H", "title": "H", "description": "H", "status": "active", "url": "H", "owner": "H", "method": "POST",
        "handlerType": "js_request_response", "runtime": "admin_gated_js_request_response_v1", "pricingMode": "free_public_utility",
        "priceUsd": 0, "maxPriceUsd": 0.5, "version": "H", "revision": 0, "createdAt": "T", "updatedAt": "T", "inputSchema": { "H": "H" },
        "outputSchema": { "H": "H" }, "capabilities": { "H": true }, "allowedHosts": ["H"], "requestedCapabilities": { "H": true },
        "requestedHosts": ["H"], "limits": { "H": 1 }, "ownLimits": { "H": 1 }, "limitCaps": { "H": 1 }, "tier": "jit", "tierCap": "jit",
        "isolation": "warm", "accepts": ["H"], "settle": "after", "tags": ["H"],
        "review": {
            "state": "content_review", "since": "T", "approvedVersion": "H", "decision": { "decision": "reject", "by": "H", "at": "T", "reason": "H" },
            "findings": [{ "rule": "H", "severity": "review", "field": "H", "line": 1, "excerpt": "H" }],
            "approvedFields": { "title": "before", "H": "H" }
        },
        "contentSafety": {
            "outcome": "review", "policyVersion": "H", "attestedAt": null,
            "findings": [{ "rule": "H", "severity": "review", "field": "H", "excerpt": "H" }]
        },
        "versions": [{ "version": "H", "createdAt": "T", "by": "owner", "via": "cli", "note": "H" }]
    },
    "endpoints": [{
        "slug": "H", "id": "H", "title": "H", "description": "H", "status": "active", "state": "held", "priceUsd": 0, "maxPriceUsd": 0.5,
        "pricingMode": "free_public_utility", "handlerType": "static_json", "runtime": "managed_builtin_handler", "url": "H", "method": "POST",
        "tags": ["H"], "inputSchema": {}, "outputSchema": {}, "capabilities": { "H": true }, "createdAt": "T", "updatedAt": "T",
        "ownerSuspended": false, "owner": "H", "version": "H", "revision": 1, "tier": "jit", "requestedCapabilities": { "H": true },
        "allowedHosts": ["H"], "requestedHosts": ["H"], "approvedVersion": "H", "since": "T", "decision": null, "heldForMs": 1,
        "secretsUnreadable": false, "builder": { "id": "H", "name": "H" }, "usage": { "calls30d": 1, "medianMs": 1.5 },
        "calls": 1, "coldCalls": 1, "running": 1, "refused": 1, "stops": 1, "cpuUs": 1
    }],
    "handler": { "version": "H", "source": "H", "language": "js" },
    "check": {
        "version": "H", "existing": true, "needsReview": true, "outcome": "review", "findings": [], "limits": { "H": 1 }, "warnings": ["H"],
        "granted": { "hosts": ["H"], "capabilities": { "H": true } }, "requested": { "hosts": ["H"], "capabilities": { "H": true } }
    },
    "logs": [{ "at": "T", "level": "error", "callId": "H", "message": "H", "fields": { "H": "H" } }],
    "calls": [{
        "at": "T", "outcome": "failed", "code": "H", "callId": "H", "charged": "unknown", "durationMs": 1.5, "cpuMs": 1.5, "priceUsd": 0.1,
        "payment": "x402", "inputBytes": 1, "receiptId": "H", "version": "H", "error": "H", "thrownAt": ["H"]
    }],
    "events": [{ "id": "H", "at": "T", "kind": "H", "endpointSlug": "H", "data": { "H": "H" } }],
    "buckets": [{ "at": "T", "calls": 1, "paid": 1, "failed": { "H": 1 }, "grossUsd": 1, "p50Ms": 1.5, "p95Ms": 1.5 }],
    "days": [{ "at": "T", "calls": 1, "p50Ms": 1.5, "p95Ms": 1.5 }],
    "secrets": [{ "name": "H", "visibility": "env", "createdAt": "T", "updatedAt": "T" }],
    "rotation": { "keyId": "H", "resealed": 1, "retired": ["H"], "unopened": 0, "needed": ["H"] },
    "byEndpoint": [{
        "endpointSlug": "H", "callsByDay": { "H": 1 }, "failedByDay": { "H": 1 },
        "calls": 1, "paidCalls": 1, "failedCalls": 1, "grossUsd": 1, "refundedUsd": 1, "feesUsd": 1, "netUsd": 1
    }],
    "byDay": [{
        "day": "H", "revenueUsd": 1,
        "calls": 1, "paidCalls": 1, "failedCalls": 1, "grossUsd": 1, "refundedUsd": 1, "feesUsd": 1, "netUsd": 1
    }],
    "totals": { "calls": 1, "paidCalls": 1, "failedCalls": 1, "grossUsd": 1, "refundedUsd": 1, "feesUsd": 1, "netUsd": 1 },
    "own": { "calls": 1, "paidCalls": 1, "failedCalls": 1, "grossUsd": 1, "refundedUsd": 1, "feesUsd": 1, "netUsd": 1 },
    "builders": { "calls": 1, "paidCalls": 1, "failedCalls": 1, "grossUsd": 1, "refundedUsd": 1, "feesUsd": 1, "netUsd": 1 },
    "revenueUsd": 1, "waiting": { "amountUsd": 1, "receiptCount": 1 },
    "payouts": [{
        "id": "H", "builderId": "H", "builderName": "H", "amountUsd": 1, "receiptCount": 1, "digest": "H", "period": { "from": "H", "to": "H" },
        "address": "H", "network": "H", "asset": "H", "createdAt": "T", "status": "created", "signature": "H", "updatedAt": "T"
    }],
    "payout": {
        "id": "H", "builderId": "H", "amountUsd": 1, "receiptCount": 1, "digest": "H", "period": { "from": "H", "to": "H" }, "address": "H",
        "network": "H", "asset": "H", "createdAt": "T", "status": "failed", "signature": "H", "updatedAt": "T", "transaction": "H", "reason": "H"
    },
    "receipts": [{ "receiptId": "H", "netUsd": 1 }],
    "payoutSettings": { "address": "H", "network": "H", "asset": "H", "minimumUsd": 1, "updatedAt": "T", "revision": 1 },
    "creditId": "H", "credit": "H", "balanceUsd": 1, "budget": { "perDayUsd": 1 },
    "budgets": { "admin": {}, "holder": { "perDayUsd": 1 }, "revision": 1 }, "revoked": { "since": "T", "amountUsd": 1, "reason": "H" },
    "today": { "spentUsd": 1, "leftUsd": null, "byTool": [{ "slug": "H", "spentUsd": 1, "leftUsd": null }], "alert": false, "resetsAt": "T" },
    "credits": [{
        "creditId": "H", "label": "H", "balanceUsd": 1, "createdAt": "T", "revoked": null, "budget": {},
        "budgets": { "admin": {}, "holder": {}, "revision": 1 }
    }],
    "movements": [{ "at": "T", "kind": "debit", "amountUsd": 1, "balanceUsd": 1, "slug": "H", "receiptId": "H" }],
    "reviews": [{
        "slug": "H", "title": "H", "owner": "H", "builder": { "id": "H", "name": "H" }, "version": "H", "approvedVersion": "H", "revision": 1,
        "tier": "jit", "capabilities": { "H": true }, "allowedHosts": ["H"], "requestedCapabilities": { "H": true }, "requestedHosts": ["H"],
        "content": "content_review", "findings": null, "since": "T"
    }],
    "policy": { "builderCapabilities": { "H": true }, "limits": { "H": 1 }, "tier": "jit", "requireReview": false, "maxEndpointsPerBuilder": 1 },
    "narrows": { "endpoints": 1, "limits": { "H": 1 }, "tier": 1, "longRunning": 1, "slugs": ["H"] },
    "entries": [{
        "id": "H", "at": "T", "actor": { "kind": "builder", "builderId": "H" }, "method": "H", "path": "H", "requestId": "H", "slug": "H",
        "fields": ["H"], "outcome": { "at": "T", "status": 400, "code": "H" }
    }],
    "builderId": "H", "builderKey": "H",
    "builder": {
        "builderId": "H", "name": "H", "contact": "H", "createdAt": "T", "keyCreatedAt": "T", "suspended": { "since": "T", "reason": "H" },
        "tier": "jit"
    },
    "rescan": { "endpoints": 1, "review": 1, "blocked": 1 },
    "openedAt": null, "units": [{ "unit": "H", "sum": "H" }], "accounts": [{ "account": "H", "balance": "H", "unit": "H", "agrees": false }],
    "agrees": true,
    "receipt": {
        "receiptId": "H", "slug": "H", "kind": "x402", "signature": "H", "payer": "H", "network": "H", "issuedAt": "H", "transaction": "H",
        "requestHash": "H", "priceUsd": "H"
    },
    "refund": { "receiptId": "H", "amountUsd": 1, "at": "T", "transaction": "H", "reason": "H", "warning": "H" }, "refundedUsd": 1,
    "payment": {
        "paymentId": "H", "state": "settled", "receiptId": "H", "transaction": "H", "updatedAt": "T",
        "accepts": [{ "asset": { "symbol": "H" }, "network": "H", "facilitator": "H" }]
    },
    "clock": "H", "replicas": null, "facilitator": "H", "facilitators": { "H": "H" }, "openSettlements": 1, "disk": null,
    "unpaid": {
        "runsLastMinute": 1, "warnings": ["H"],
        "gas": { "burnedLastHour": 1, "underpaidLastHour": 1, "revertedLastHour": 1, "limitPerHour": null, "burnedWei": "H" }
    },
    "sandbox": { "workers": "H", "running": "H", "queued": "H", "jail": ["H"], "startsFail": "H" },
    "stored": { "backend": "H" }, "intake": { "connections": "H" }
}"#;

/// Fields that are of another type in the answer to these paths.
const BY_PATH: &[(&str, &str)] = &[
    (
        "/ai/manifest",
        r#"{
            "service": { "H": "H" }, "mcp": { "H": "H" }, "endpoints": { "H": "H" }, "quotes": { "H": "H" }, "receipts": { "H": "H" },
            "builders": { "capabilities": { "H": true }, "limits": { "H": 1 }, "requireReview": false, "maxEndpoints": 1, "feeBps": 1 }
        }"#,
    ),
    (
        "/ai/admin/builders",
        r#"{
            "builders": [{
                "builderId": "H", "name": "H", "contact": "H", "createdAt": "T", "keyCreatedAt": "T", "suspended": null, "tier": "jit",
                "endpoints": 1, "seenAt": "T",
                "last30Days": { "calls": 1, "paidCalls": 1, "failedCalls": 1, "grossUsd": 1, "refundedUsd": 1, "feesUsd": 1, "netUsd": 1 }
            }]
        }"#,
    ),
];

/// Returns the answer to a path.
fn answer(path: &str, fill: impl Fn(&str) -> String) -> String {
    let mut answer: Value = serde_json::from_str(&fill(ANSWER)).unwrap();
    if let Some((_, fields)) = BY_PATH.iter().find(|(of, _)| path == *of) {
        let fields: serde_json::Map<String, Value> = serde_json::from_str(&fill(fields)).unwrap();
        answer.as_object_mut().unwrap().extend(fields);
    }
    answer.to_string()
}

/// Starts a host that gives this answer to every request, demands payment for its tools, and breaks
/// off streams.
pub async fn hostile() -> String {
    let words = json!(format!("{HOSTILE}\nforged")).to_string();
    let describe = move |text: &str| text.replace("\"H\"", &words).replace("\"T\"", "\"2026-11-21T09:58:03.000Z\"");
    let log = r#"{ "at": "T", "level": "error", "callId": "H", "message": "H", "fields": { "H": "H" } }"#;
    let stream = describe(&format!("event: lagged\ndata: {{\"missed\":3}}\n\nevent: log\nid: 1\ndata: {log}\n\n"));
    let refusal = describe(r#"{ "ok": false, "error": { "code": "H", "message": "H", "hint": "H", "requestId": "H" } }"#);
    let method = json!({
        "scheme": "exact", "network": "eip155:84532", "amount": "1000", "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 40, "extra": { "name": "USDC", "version": "2" },
    });
    let challenge = STANDARD.encode(json!({ "x402Version": 2, "accepts": [method] }).to_string());
    let streams = Arc::new(AtomicUsize::new(0));
    serve(Router::new().fallback(move |request: Request| {
        let follows = request.headers().get("accept").is_some_and(|kind| kind == "text/event-stream");
        let reported = if request.uri().path().starts_with("/tools/") {
            (StatusCode::PAYMENT_REQUIRED, [("payment-required", challenge.clone())], String::new())
        } else if !follows {
            (StatusCode::OK, [("content-type", "application/json".to_owned())], answer(request.uri().path(), &describe))
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
    assert_eq!(record["endpoint"]["title"], HOSTILE, "programs read the original text");
}

#[tokio::test]
async fn error_of_a_host_drives_no_terminal() {
    let body = json!({ "ok": false, "error": { "code": HOSTILE, "message": format!("{HOSTILE}\nerror: forged"), "hint": HOSTILE, "requestId": HOSTILE } }).to_string();
    let router = Router::new().fallback(move || {
        let body = body.clone();
        async move { (StatusCode::BAD_REQUEST, body) }
    });
    let url = serve(router).await;
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
    let url = serve(router).await;
    let expected = "error: the host's answer has more than … bytes";
    Shell::at(&url).run(&["show", "anything"]).await.is(1).warned(expected);
    Shell::new().run(&["verify-receipt", &format!("{url}/ai/receipts/rcpt_1")]).await.is(1).warned(expected);
    let events = Router::new().fallback(|| async {
        let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b'a'; 64 << 10])));
        ([("content-type", "text/event-stream")], axum::body::Body::from_stream(endless))
    });
    let shell = Shell::at(&serving(events).await).env("TOLLHOUSE_ADMIN_TOKEN", "t");
    shell.run(&["logs", "anything", "-f"]).await.is(1).warned("error: the host sent an event that is too large");
}
