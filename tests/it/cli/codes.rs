//! Exit codes and messages of commands. Programs read the code, and people read the message.

use std::fs;

use serde_json::{Value, json};

use super::{folders::started, harness::Shell};
use crate::harness::{Host, js, serve};

#[tokio::test]
async fn each_kind_of_end_has_its_code() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    host.publish(&js("theirs", 0.0, "export default () => 1;")).await;
    let shell = Shell::builder(&host, &key);
    shell.run(&["list"]).await.is(0);
    shell.run(&["show", "nothing"]).await.is(1);
    shell.run(&["payment", &format!("pmt_{}", "0".repeat(32))]).await.is(6).warned(
        "unknown: The host has no record of a payment with this id, so it is not known whether it was charged\n\
         before you pay again, look for the charge: tollhouse credits show, or …\n(unknown_payment, req_…)",
    );
    for words in
        [&["shwo"][..], &["show", "NO SLUG"], &["list", "--limit", "0"], &["logs"], &["list", "--url", "ftp://a"], &["delete", "theirs"]]
    {
        shell.run(words).await.is(2).stderr_text("");
    }
    shell.run(&["pause", "theirs"]).await.is(3).warned("error: This belongs to another builder\n…\n(not_owner, req_…)");
    shell.run(&["audit"]).await.is(3).warned("error: No admin token for …\nhint: …TOLLHOUSE_ADMIN_TOKEN");
    shell
        .run(&["register", "Second"])
        .await
        .is(4)
        .warned("error: Payment required\nhint: registering costs money: …\n(payment_required, req_…)");
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = format!("http://{nobody}");
    let refused = format!("error: The host at {nobody} does not answer: …refused…\nhint: nothing was sent; …--url");
    shell.run(&["list", "--url", &nobody]).await.is(5).warned(&refused);
    shell.run(&["pause", "theirs", "--url", &nobody]).await.is(5).warned(&refused);
    shell.run(&["key", "new"]).await.is(0);
    // The first request is the change.
    shell.run(&["key", "fund", "1", "--url", &nobody]).await.is(5).warned(&refused);
    let call = format!("error: {nobody} does not answer: …refused…\nhint: nothing was sent; …--url");
    shell.run(&["call", "theirs", "--url", &nobody]).await.is(5).warned(&call);
}

/// Starts a host that gives this answer to every request.
async fn answering(status: u16, body: &'static str) -> String {
    let status = axum::http::StatusCode::from_u16(status).unwrap();
    let router = axum::Router::new().fallback(move || async move { (status, body) });
    serve(router).await
}

#[tokio::test]
async fn unclear_charges_and_unreachable_hosts_have_exit_codes() {
    let unknown =
        r#"{"ok":false,"error":{"code":"settlement_unknown","fault":"host","message":"settlement was not confirmed","charged":"unknown"}}"#;
    for (status, body, code) in [
        (502, unknown, 6),
        (502, "<html>Bad Gateway</html>", 5),
        (404, "<html>Not Found</html>", 1),
        (200, "<html>Welcome</html>", 1),
        (403, r#"{"ok":false,"error":{"code":"budget_exceeded","message":"no"}}"#, 4),
        (401, r#"{"ok":false,"error":{}}"#, 3),
        (503, r#"{"ok":false,"error":{"code":"busy","message":"no"}}"#, 5),
    ] {
        let url = answering(status, body).await;
        let ran = Shell::at(&url).run(&["register", "Toolsmith"]).await.is(code);
        let head = if code == 6 { "unknown: " } else { "error: " };
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with(head), "{ran:?}");
    }
}

#[tokio::test]
async fn programs_read_an_error_as_they_read_an_answer() {
    let host = Host::start().await;
    let ran = Shell::at(&host.url).run(&["show", "nothing", "--json"]).await.is(1).stderr_text("");
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((&error["ok"], &error["error"]["code"], &error["error"]["exit"]), (&json!(false), &json!("unknown_endpoint"), &json!(1)));
    assert!(error["error"]["requestId"].as_str().unwrap().starts_with("req_"), "{error}");
    let ran = Shell::at(&host.url).run(&["audit", "--json"]).await.is(3);
    assert!(serde_json::from_str::<Value>(&ran.stderr).unwrap()["error"]["hint"].is_string());
}

#[tokio::test]
async fn a_command_line_that_does_not_read_is_reported_as_every_error() {
    let shell = Shell::new();
    for words in [&["list", "--json", "--limt", "1"][..], &["--json", "list", "--limt", "1"]] {
        let ran = shell.run(words).await.is(2).stderr_text("");
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!((&error["ok"], &error["error"]["exit"]), (&json!(false), &json!(2)), "{error}");
        assert_eq!(error["error"]["message"], "Unexpected argument '--limt' found");
        assert!(error["error"]["more"][0].as_str().unwrap().contains("'--limit'"), "{error}");
    }
    for words in [&["--json", "secrets"][..], &["--json", "frobnicate"], &["secrets", "rm", "--json"], &["--json", "call", "--bogus"]] {
        let ran = shell.run(words).await.is(2).stderr_text("");
        assert_eq!(serde_json::from_str::<Value>(&ran.stderr).unwrap()["error"]["exit"], 2, "{ran:?}");
    }
    // People get a suggestion. `--json` with the input of a tool does not mean that a program reads
    // the output.
    shell.run(&["lits"]).await.is(2).stderr_text("").warned("error: unrecognized subcommand 'lits'\n\n  tip: …'list'…\n…");
    shell
        .run(&["call", "shout", "--json", "{}", "--agian"])
        .await
        .is(2)
        .warned("error: unexpected argument '--agian' found\n\n  tip: …'--again'\n…");
    let help = shell.run(&["list", "--json", "--help"]).await.is(0).warned("");
    assert!(help.stdout.contains("Usage: tollhouse list"), "{help:?}");
}

#[tokio::test]
async fn invalid_argument_is_not_echoed() {
    let shell = Shell::new();
    let secret = "sk-live-123";
    for (words, flag) in [
        (&["secrets", "set", "API_KEY", secret][..], "--env-file"),
        (&["secrets", "set", "API_KEY", secret, "--json"], "--env-file"),
        (&["secrets", "set", "API_KEY=sk-live-123", "--slug", "keeper"], "--env-file"),
        (&["login", secret, "--url", "http://127.0.0.1:1"], "--credential-file"),
        (&["login", "--", "-sk-live-123"], "--credential-file"),
        (&["show", "shout", secret], ""),
    ] {
        let ran = shell.run(words).await.is(2).stderr_text("");
        assert!(!ran.stderr.contains("sk-live") && ran.stderr.contains(flag), "{ran:?}");
        assert_eq!(ran.stderr.contains("secrets cannot be arguments"), !flag.is_empty(), "{ran:?}");
    }
}

#[tokio::test]
async fn flags_of_hosts_that_are_asked_are_refused_elsewhere() {
    let shell = Shell::new();
    shell.run(&["--json", "--as", "admin", "ledger", "check"]).await.is(2).warned("{…`--as` is only for commands that use a host…}");
    shell.run(&["--url", "http://127.0.0.1:1", "store", "check"]).await.is(2).warned("error: `--url` is only for commands that use a host");
}

/// A closed output does not keep a command from doing its work, and does not turn a failure into a
/// success.
#[tokio::test]
async fn command_with_a_closed_stdout_completes_with_its_own_code() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    shell.unread_in(&folder, &["deploy", "--yes", "--attest"]).await.is(0).warned("");
    assert_eq!(shell.json(&["show", "shout"]).await["endpoint"]["revision"], 1);
    assert!(folder.join(".tollhouse/state.json").exists());
    shell.unread_in(&folder, &["list"]).await.is(0).warned("");
    fs::write(folder.join("handler.ts"), "export default (").unwrap();
    shell.unread_in(&folder, &["check", "--no-types"]).await.is(1).warned("error: … found");

    let ledger = r#"{"ok":true,"agrees":false,"units":[],"accounts":[{"account":"a","balance":"1","unit":"b","agrees":false}]}"#;
    let rotation = r#"{"ok":true,"rotation":{"keyId":"k","resealed":0,"unopened":1,"needed":["j"],"retired":[]}}"#;
    for (answer, words, reported) in [
        (ledger, &["host", "ledger"][..], "error: The ledger does not match the stored records"),
        (rotation, &["secrets", "rotate"], "error: Cannot decrypt 1 secret, and changed nothing there; old keys kept: j"),
    ] {
        let shell = Shell::new().env("TOLLHOUSE_ADMIN_TOKEN", &host.admin);
        let url = answering(200, answer).await;
        shell.unread_in(shell.home(), &[words, &["--url", &url]].concat()).await.is(1).warned(reported);
    }
}

#[tokio::test]
async fn unwritable_one_time_secret_is_reported() {
    let host = Host::start().await;
    let admin = Shell::admin(&host);
    let minted = admin.unread_in(admin.home(), &["credits", "mint", "1"]).await.is(1);
    minted.warned("credit crd_… with $1; …\nerror: The token of crd_… could not be written: …\nhint: …tollhouse credits revoke crd_…");
    let credit = host.mint(100.0).await;
    let payer = Shell::at(&host.url).env("TOLLHOUSE_CREDIT", &credit);
    let registered = payer.unread_in(payer.home(), &["register", "Toolsmith", "--json"]).await.is(1);
    let error: Value = serde_json::from_str(&registered.stderr).unwrap();
    assert!(error["error"]["hint"].as_str().unwrap().contains("builders new-key --builder bld_"), "{error}");
    let (_, key) = host.register("Second").await;
    let builder = Shell::builder(&host, &key);
    let renewed = builder.unread_in(builder.home(), &["builders", "new-key", "--yes"]).await.is(1);
    assert!(renewed.stderr.contains("error: The key of bld_"), "{renewed:?}");
}
