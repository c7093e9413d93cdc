//! Foreign text on a terminal. It cannot move the cursor, forge a line, or use much memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, extract::Request, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Host, documented, eventually, js, serve};

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

/// Returns the hostile answer to a request. The list of credits has the same operation as one credit, which is its example.
fn answer(request: &Request, hostile: &str) -> Value {
    let answer = documented::hostile_answer(request.method(), request.uri().path(), hostile);
    let is_list = request.method() == Method::GET && request.uri().path() == "/ai/credits";
    if is_list && !request.uri().query().unwrap_or_default().contains("creditId") {
        let card =
            ["creditId", "label", "balanceUsd", "createdAt", "revoked", "budget", "budgets"].map(|name| (name, answer[name].clone()));
        return json!({ "ok": true, "credits": [Value::from_iter(card)] });
    }
    answer
}

/// Starts a host that answers every request as documented, with hostile text wherever the document permits it. It
/// demands payment for its tools, and breaks off streams.
pub async fn hostile() -> String {
    let hostile = format!("{HOSTILE}\nforged");
    let words = json!(hostile).to_string();
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
            (StatusCode::OK, [("content-type", "application/json".to_owned())], answer(&request, &hostile).to_string())
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
    let shown = documented::hostile_answer(&Method::GET, "/ai/endpoints/anything", HOSTILE);
    let revision = shown["endpoint"]["revision"].to_string();
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
        &["deploy", "--dry-run", "--onto", &revision],
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
        &["payouts", "approve", "p", "--yes"],
        &["credits", "list"],
        &["credits", "show", "c"],
        &["credits", "mint", "1"],
        &["credits", "budget", "c", "--per-day", "1"],
        &["credits", "revoke", "c", "--yes"],
        &["reviews"],
        &["reviews", "show", "anything"],
        &["reviews", "approve", "anything", "--yes", "--onto", &revision],
        &["policy"],
        &["policy", "check", &policy],
        &["policy", "edit", "a=1", "--yes"],
        &["audit"],
        &["builders"],
        &["builders", "suspend", "b", "--yes"],
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
    let expected = "error: The host's answer has more than … bytes";
    Shell::at(&url).run(&["show", "anything"]).await.is(1).warned(expected);
    Shell::new().run(&["verify-receipt", &format!("{url}/ai/receipts/rcpt_1")]).await.is(1).warned(expected);
    let events = Router::new().fallback(|| async {
        let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b'a'; 64 << 10])));
        ([("content-type", "text/event-stream")], axum::body::Body::from_stream(endless))
    });
    let shell = Shell::at(&serving(events).await).env("TOLLHOUSE_ADMIN_TOKEN", "t");
    shell.run(&["logs", "anything", "-f"]).await.is(1).warned("error: The host sent an event that is too large");
}
