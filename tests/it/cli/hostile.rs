//! Words of others on somebody's terminal: they move no cursor, forge no line, and cost no memory.

use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Host, eventually, js};

const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}b\u{9b}31m\u{2066}c\u{200b}";

fn is_harmless(text: &str) -> bool {
    text.chars().all(|char| {
        char == '\n'
            || !char.is_control()
                && !('\u{200b}'..='\u{200f}').contains(&char)
                && !('\u{202a}'..='\u{202e}').contains(&char)
                && !('\u{2066}'..='\u{2069}').contains(&char)
    })
}

#[tokio::test]
async fn words_of_others_drive_no_terminal() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let source = "export default (req, ctx) => { ctx.log.error(req.input.words + '\\n10:00:00  error  call_0  forged', { [req.input.words]: req.input.words }); throw new Error(req.input.words); };";
    let mut tool = js("hostile", 0.0, source);
    tool["title"] = json!(HOSTILE);
    tool["description"] = json!(format!("{HOSTILE}\nslug      forged"));
    // What a scan of content holds is shown to admins, who are to be as safe.
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
    let router = axum::Router::new().fallback(move || {
        let body = body.clone();
        async move { (axum::http::StatusCode::BAD_REQUEST, body) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let ran = Shell::at(&url).run(&["show", "anything"]).await.is(1);
    assert!(is_harmless(&ran.stderr) && !ran.stderr.contains("\nerror: forged"), "{ran:?}");
    let ran = Shell::at(&url).run(&["show", "anything", "--json"]).await.is(1);
    assert!(is_harmless(&ran.stderr), "{ran:?}");
    assert_eq!(serde_json::from_str::<Value>(&ran.stderr).unwrap()["error"]["hint"], HOSTILE);
}

#[tokio::test]
async fn answer_without_end_is_not_read_for_ever() {
    let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b' '; 64 << 10])));
    let router = axum::Router::new().fallback(move || {
        let endless = endless.clone();
        async move { axum::body::Body::from_stream(endless) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Shell::at(&url).run(&["show", "anything"]).await.is(1).warned("error: the host's answer has more than … bytes");
    let events = axum::Router::new().fallback(|| async {
        let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b'a'; 64 << 10])));
        ([("content-type", "text/event-stream")], axum::body::Body::from_stream(endless))
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, events).await });
    let shell = Shell::at(&url).env("TOLLHOUSE_ADMIN_TOKEN", "t");
    shell.run(&["logs", "anything", "-f"]).await.is(1).warned("error: the host sent an event that is too large to be one");
}
