//! Cases with recorded answers of other servers, run by `check` and by `dev` without a network.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{devs::Dev, folders::started, harness::Shell};
use crate::fixtures::{folders, jsonc};

/// A handler that requests the URLs in its input, and returns the results.
const HANDLER: &str = "export default async (req, ctx) => ({ came: await Promise.all(req.input.urls.map(async (url) => { try { const got = await ctx.httpGetJson(url); return { status: got.status, json: got.json, etag: got.headers.etag }; } catch (error) { return error.code; } })) });";

/// Creates the folder of a tool with that handler, which may call one host.
async fn asking(shell: &Shell, cases: &Value) -> std::path::PathBuf {
    let folder = started(shell, "asks").await;
    fs::remove_file(folder.join("handler.ts")).unwrap();
    fs::write(folder.join("handler.js"), HANDLER).unwrap();
    let tool = json!({
        "slug": "asks", "title": "Asks", "description": "Asks for documents.", "priceUsd": 0.01, "handlerType": "js_request_response",
        "inputSchema": { "type": "object" }, "outputSchema": { "type": "object" },
        "capabilities": { "httpGetJson": true }, "allowedHosts": ["api.example.com"],
    });
    fs::write(folder.join("tool.json"), tool.to_string()).unwrap();
    write(&folder, cases);
    folder
}

fn write(folder: &Path, cases: &Value) {
    fs::write(folder.join("cases.jsonc"), cases.to_string()).unwrap();
}

fn case(name: &str, http: &Value, urls: &[&str], received: &Value) -> Value {
    json!({ "name": name, "http": http, "input": { "urls": urls }, "output": { "came": received } })
}

#[tokio::test]
async fn recorded_answers_are_given_each_once_and_nothing_else_is_reached() {
    const ONE: &str = "https://api.example.com/one";
    let (first, second) = (json!({ "url": ONE, "json": { "n": 1 } }), json!({ "url": ONE, "status": 503, "headers": { "ETag": "\"2\"" } }));
    let (one, two) = (json!({ "status": 200, "json": { "n": 1 } }), json!({ "status": 503, "json": null, "etag": "\"2\"" }));
    let moved = json!({ "url": "https://api.example.com/old", "status": 302, "headers": { "location": "/one" } });
    let astray = json!({ "url": "https://api.example.com/old", "status": 302, "headers": { "location": "https://10.0.0.1/one" } });
    let cases = json!([
        case("nothing is there", &json!([]), &[ONE], &json!(["unreachable"])),
        case("the first comes first", &json!([first, second]), &[ONE, ONE, ONE], &json!([one, two, "unreachable"])),
        case("another address is another", &json!([first]), &["https://api.example.com/one?", ONE], &json!(["unreachable", one])),
        case("a redirect is followed", &json!([moved, first]), &["https://api.example.com/old"], &json!([one])),
        case("a redirect leads to no other host", &json!([astray]), &["https://api.example.com/old"], &json!(["not_granted"])),
        case(
            "another host stays closed",
            &json!([]),
            &["https://other.example.com/", "http://api.example.com/"],
            &json!(["not_granted", "forbidden_address"])
        ),
    ]);
    let shell = Shell::new();
    let folder = asking(&shell, &cases).await;
    shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\ncases   6/6");

    // A recorded answer that is never requested is an error, and so is an invalid one.
    write(&folder, &json!([case("asks for both", &json!([first, second]), &[ONE], &json!([one]))]));
    let expected = format!("cases.jsonc  ✗ \"asks for both\": no request was made to {ONE}\n…\ncases   0/1");
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text(&expected);
    write(&folder, &json!([case("no answer", &json!([{ "url": ONE, "body": 1 }]), &[], &json!([]))]));
    shell
        .run_in(&folder, &["check", "--no-types"])
        .await
        .is(1)
        .stderr_text("cases.jsonc:1:2  an answer in `http` cannot have `body`; its fields are method, url, status, headers, json, text\n…");

    // `dev` uses them too. The endpoint that it serves does not.
    write(&folder, &json!([case("is there", &json!([first]), &[ONE], &json!([one]))]));
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("cases 1/1").await;
    assert_eq!(dev.call_of("asks", &json!({ "urls": ["https://api.example.com.invalid/"] })).await["came"], json!(["not_granted"]));
    dev.end(rustix::process::Signal::TERM).await;
}

#[tokio::test]
async fn recorded_answers_of_fetch_are_chosen_by_method() {
    const URL: &str = "https://api.example.com/orders";
    let shell = Shell::new();
    let posted = json!({ "method": "POST", "url": URL, "status": 201, "json": { "id": 7 } });
    let listed = json!({ "url": URL, "text": "7\n" });
    let input = json!({ "item": "a" });
    let output = json!({ "status": 201, "id": 7, "list": "7\n" });
    let cases = json!([{ "name": "orders and lists", "http": [listed, posted], "input": input, "output": output }]);
    let folder = asking(&shell, &cases).await;
    let handler = "export default async (req) => {
  const ordered = await fetch('https://api.example.com/orders', { method: 'POST', body: JSON.stringify(req.input) });
  const list = await fetch('https://api.example.com/orders').then((response) => response.text());
  return { status: ordered.status, id: (await ordered.json()).id, list };
};\n";
    fs::write(folder.join("handler.js"), handler).unwrap();
    let tool = fs::read_to_string(folder.join("tool.json")).unwrap();
    fs::write(folder.join("tool.json"), tool.replace("httpGetJson", "fetch")).unwrap();
    shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\ncases   1/1");
    // An entry for another method answers nothing.
    fs::write(folder.join("handler.js"), handler.replace("'POST'", "'PUT'")).unwrap();
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text("…\ncases   0/1");
}

#[tokio::test]
async fn cases_of_check_have_the_secrets_of_dev_with_their_visibility() {
    let shell = Shell::new();
    let http = json!([{ "url": "https://api.example.com/one", "json": {} }]);
    let output = json!({ "status": 200, "key": "undefined", "plan": "gold" });
    let folder = asking(&shell, &json!([{ "name": "has its secrets", "http": http, "input": {}, "output": output }])).await;
    let handler = "export default async (req, ctx) => {
  const { status } = await ctx.httpGetJson('https://api.example.com/one', { auth: { header: 'authorization', env: 'RATE_KEY' } });
  return { status, key: typeof ctx.env.RATE_KEY, plan: ctx.env.PLAN };
};\n";
    fs::write(folder.join("handler.js"), handler).unwrap();
    shell.run_in(&folder, &["check", "--no-types"]).await.is(1).stderr_text("…\ncases   0/1");
    fs::write(folder.join(".env.dev"), "RATE_KEY=sk-of-a-test\nPLAN=gold\n").unwrap();
    shell.run_in(&folder, &["check", "--no-types"]).await.is(0).stderr_text("…\ncases   1/1");
    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("cases 1/1").await;
    dev.end(rustix::process::Signal::TERM).await;

    fs::rename(folder.join(".env.dev"), folder.join("other.env")).unwrap();
    let other = ["check", "--no-types", "--env", "other.env"];
    shell.run_in(&folder, &other).await.is(0).stderr_text("…\ncases   1/1");
    fs::write(folder.join("other.env"), "RATE_KEY=sk-of-a-test\nPLAN=gold\nplan=x\n").unwrap();
    shell.run_in(&folder, &other).await.is(1).stderr_text("other.env:3  the secret `plan`: A name must …\n…\ncases   1/1");
    shell.run_in(&folder, &["check", "--no-types", "--env", "none.env"]).await.is(1).stderr_text("none.env  does not exist\n…");
}

#[tokio::test]
async fn shipped_tools_pass_their_recorded_cases() {
    let mut tried = 0;
    for folder in folders("tools") {
        let cases = jsonc(&folder.join("cases.jsonc"));
        let cases = cases.as_array().unwrap();
        if !cases.iter().any(|case| case.get("http").is_some()) {
            continue;
        }
        tried += 1;
        let shell = Shell::new();
        let copy = shell.home().join("tool");
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(&folder).unwrap().flatten() {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        let expected = format!("…\ncases   {0}/{0}", cases.len());
        shell.run_in(&copy, &["check", "--no-types"]).await.is(0).stderr_text(&expected);
    }
    assert!(tried > 0);
}
