//! `tollhouse dev --allow`: an upstream on this machine, and secrets with hosts.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, http::HeaderMap, routing::any};
use serde_json::{Value, json};

use super::{devs::Dev, folders::started, harness::Shell};
use crate::harness::{Host, js, listen};

const VALUE: &str = "sk-of-a-developer";

#[tokio::test]
async fn an_upstream_under_development_is_asked_and_gets_the_secrets() {
    let seen = Arc::new(Mutex::new(Vec::<String>::new()));
    let stored = Arc::clone(&seen);
    let answer = move |headers: HeaderMap| async move {
        stored.lock().unwrap().push(headers["authorization"].to_str().unwrap().to_owned());
        Json(json!({ "ok": true }))
    };
    let address = listen(Router::new().route("/", any(answer))).await;
    let shell = Shell::new();
    let folder = started(&shell, "asks").await;
    fs::remove_file(folder.join("handler.ts")).unwrap();
    let handler = "export default async (req, ctx) => {
  const key = ctx.env.SELLER_KEY;
  const response = await fetch(req.input.url, { headers: { authorization: `Bearer ${key}` } }).catch(({ cause }) => cause);
  return { code: response.code ?? 'none', prefix: key.slice(0, 17) };
};\n";
    fs::write(folder.join("handler.js"), handler).unwrap();
    let tool = json!({
        "slug": "asks", "title": "Asks", "description": "Asks an upstream.", "priceUsd": 0.01, "handlerType": "js_request_response",
        "inputSchema": { "type": "object" }, "outputSchema": { "type": "object" },
        "capabilities": { "fetch": true }, "allowedHosts": ["api.example.com"],
    });
    fs::write(folder.join("tool.json"), tool.to_string()).unwrap();
    let case = json!({
        "name": "the real one is recorded", "http": [{ "url": "https://api.example.com/", "json": {} }],
        "input": { "url": "https://api.example.com/" }, "output": { "code": "none", "prefix": "tollhouse_secret_" },
    });
    fs::write(folder.join("cases.jsonc"), json!([case]).to_string()).unwrap();
    fs::write(folder.join(".env.dev"), format!("# --host api.example.com\nSELLER_KEY={VALUE}\n")).unwrap();
    let url = format!("http://{address}/");
    let mut dev = Dev::start(&shell, &folder, &["--no-types", "--allow", &address.to_string()]);
    dev.wait_for("cases 1/1").await;
    let answered: Value = dev.call_of("asks", &json!({ "url": url })).await;
    assert_eq!(answered, json!({ "code": "none", "prefix": "tollhouse_secret_" }));
    assert_eq!(*seen.lock().unwrap(), [format!("Bearer {VALUE}")]);
    let other = dev.call_of("asks", &json!({ "url": "http://127.0.0.1:1/" })).await;
    assert_eq!(other["code"], "not_granted");
    dev.end(rustix::process::Signal::TERM).await;

    let mut dev = Dev::start(&shell, &folder, &["--no-types"]);
    dev.wait_for("cases 1/1").await;
    assert_eq!(dev.call_of("asks", &json!({ "url": url })).await["code"], "not_granted");
    dev.end(rustix::process::Signal::TERM).await;

    shell.run_in(&folder, &["dev", "--allow", "localhost"]).await.is(2);
    // A host that is served has no such flag.
    shell.run_in(&folder, &["serve", "--allow", &address.to_string()]).await.is(2);
}

#[tokio::test]
async fn secrets_are_set_with_hosts_by_flags_and_by_comments() {
    let host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default (req, ctx) => ctx.env.KEY.slice(0, 17);")).await;
    let shell = Shell::admin(&host);
    let set = ["secrets", "set", "KEY", "--slug", "keeper", "--host", "b.example.com", "--host", "a.example.com", "--in", "url"];
    shell.given("a-value-of-24-characters", &set).await.is(0).stderr_text("set KEY for keeper");
    assert_eq!(host.call("keeper", &json!({})).await.is(200).json(), "tollhouse_secret_");
    let file = shell.file(".env", "# --host api.example.com\nA_TOKEN=abcdefgh\nB_TOKEN=abcdefgh\n");
    shell.run(&["secrets", "set", "--env-file", &file, "--slug", "keeper"]).await.is(0);
    let listed = shell.json(&["secrets", "list", "--slug", "keeper"]).await["secrets"].clone();
    let rows: Vec<_> = listed.as_array().unwrap().iter().map(|row| (&row["name"], &row["hosts"], &row["places"])).collect();
    let [none, header, url] = [Value::Null, json!(["header"]), json!(["url"])];
    let [api, both] = [json!(["api.example.com"]), json!(["a.example.com", "b.example.com"])];
    assert_eq!(rows, [(&json!("A_TOKEN"), &api, &header), (&json!("B_TOKEN"), &none, &none), (&json!("KEY"), &both, &url)]);
    // Without its hosts, the handler would get the new value.
    let again = ["secrets", "set", "KEY", "--slug", "keeper"];
    let refused = shell.given("another-value-of", &again).await.is(1);
    refused.warned("error: …`--host a.example.com --host b.example.com`…`--expose`…\n…");
    assert_eq!(host.call("keeper", &json!({})).await.is(200).json(), "tollhouse_secret_");
    shell.given("another-value-of", &[&again[..], &["--expose"]].concat()).await.is(0);
    assert_eq!(host.call("keeper", &json!({})).await.is(200).json(), "[redacted]");
    for wrong in [
        &["--host", "a.example.com", "--auth"][..],
        &["--in", "url"],
        &["--host", "a.example.com", "--in", "path"],
        &["--host", "a.example.com", "--expose"],
    ] {
        shell.run(&[&["secrets", "set", "KEY", "--slug", "keeper"][..], wrong].concat()).await.is(2);
    }
}
