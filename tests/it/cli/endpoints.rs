//! Endpoints from the command line, as transcripts. `…` stands for parts that vary.

use serde_json::json;

use super::harness::Shell;
use crate::harness::{Host, js};

const SHOUT: &str = "export default async (req, ctx) => { ctx.log.info('shouting', { length: req.input.text.length }); return { text: req.input.text.toUpperCase() }; };";

async fn published(host: &Host, key: &str) {
    let mut tool = js("shout", 0.01, SHOUT);
    tool["title"] = json!("Shout");
    tool["description"] = json!("Says it louder.");
    tool["tags"] = json!(["text"]);
    host.as_builder(key, reqwest::Method::POST, "/ai/endpoints/create", &tool).await.is(200);
}

#[tokio::test]
async fn endpoint_is_listed_shown_paused_and_deleted() {
    let host = Host::start().await;
    let (id, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    shell.run(&["list"]).await.is(0).stderr_text("").warned("no tools yet; create one: tollhouse init, then tollhouse deploy");
    published(&host, &key).await;
    shell
        .run(&["list"])
        .await
        .is(0)
        .stderr_text("slug   state   price  rev  changed            title\nshout  active  $0.01    1  …Z  Shout");
    let record = format!(
        "slug      shout
title     Shout
status    active
url       {}/tools/shout
owner     {id}
price     $0.01
version   …
revision  1
granted   kv logs
tags      text
changed   …Z

  Says it louder.",
        host.url
    );
    shell.run(&["show", "shout"]).await.is(0).stderr_text(&record);
    shell.run(&["show", "shout", "--source"]).await.is(0).stderr_text(&format!("{SHOUT}\n// shout"));
    shell.run(&["pause", "shout"]).await.is(0).stderr_text("shout is paused, revision 2").warned("");
    shell.run(&["list", "--state", "paused"]).await.is(0).stderr_text("…\nshout  paused  …");
    shell.run(&["resume", "shout"]).await.is(0).stderr_text("shout is active, revision 3");
    shell
        .run(&["delete", "shout"])
        .await
        .is(2)
        .stderr_text("")
        .warned("error: Delete shout: this question needs a terminal\nhint: answer with --yes");
    assert_eq!(shell.json(&["show", "shout"]).await["endpoint"]["status"], "active");
    shell.run(&["delete", "shout", "--yes"]).await.is(0).stderr_text("deleted shout");
    shell.run(&["show", "shout"]).await.is(1).warned("error: No tool …`shout`…\nhint: find it: …\n(unknown_endpoint, req_…)");
}

/// Without a terminal, the output goes to a program or a file unchanged.
#[tokio::test]
async fn source_is_copied_as_it_is() {
    let host = Host::start().await;
    let source = "// \u{202e}\u{200b}\r\nexport default () => 1;\r\n";
    host.publish(&js("copied", 0.0, source)).await;
    let ran = Shell::admin(&host).run(&["show", "copied", "--source"]).await.is(0);
    assert_eq!(ran.stdout, format!("{source}\n// copied"));
}

#[tokio::test]
async fn catalog_is_readable_without_a_credential() {
    let host = Host::builder().with_catalogue().start().await;
    let shell = Shell::at(&host.url);
    shell.run(&["list", "--search", "receipt", "--limit", "2"]).await.is(0).stderr_text("slug …title\n…\n…receipt…\n…");
    shell.run(&["list", "--tag", "no-such-tag"]).await.is(0).stderr_text("").warned("no matching tools");
    let all = shell.json(&["list", "--limit", "500"]).await;
    assert_eq!(all["endpoints"].as_array().unwrap().len() as u64, all["total"].as_u64().unwrap());
    let free = shell.json(&["list", "--free"]).await;
    assert!(free["endpoints"].as_array().unwrap().iter().all(|tool| tool["priceUsd"] == 0), "{free}");
    let (first, cursor) = (shell.json(&["list", "--limit", "1"]).await, "nextCursor");
    let second = shell.json(&["list", "--limit", "1", "--cursor", first[cursor].as_str().unwrap()]).await;
    assert_ne!(first["endpoints"][0]["slug"], second["endpoints"][0]["slug"]);
}

#[tokio::test]
async fn resume_warns_of_missing_approvals_and_secrets() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let source = "export default async (req, ctx) => ctx.httpGetJson('https://a.example/' + ctx.env.API_KEY);";
    let mut tool = js("asks", 0.01, source);
    tool["status"] = json!("paused");
    tool["capabilities"]["httpGetJson"] = json!(true);
    tool["allowedHosts"] = json!(["a.example"]);
    host.as_builder(&key, reqwest::Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    shell.run(&["resume", "asks"]).await.is(0).stderr_text("asks is active, revision 2").warned(
        "warning: `ctx.httpGetJson` is refused (line 1): `capabilities.httpGetJson` waits for an admin\n\
         warning: the secret `API_KEY` is not set on the host: run `tollhouse secrets set API_KEY`",
    );
    shell.run(&["pause", "asks"]).await.is(0).warned("");
    shell.given("abcdefghij", &["secrets", "set", "API_KEY", "--slug", "asks"]).await.is(0);
    let warnings = shell.json(&["resume", "asks"]).await["warnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 1, "{warnings}");
}

#[tokio::test]
async fn version_is_run_again_by_the_first_characters_of_its_hash() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    let first = host.change("shout", &json!({})).await["version"].as_str().unwrap().to_owned();
    host.change("shout", &json!({ "handler": { "language": "js", "source": "export default () => 2;" } })).await;
    let (short, whole) = (&first[7..15], first.as_str());
    shell
        .run(&["versions", "shout"])
        .await
        .is(0)
        .stderr_text("version   published          by …  state  note\n…  runs\n…")
        .stderr_text(&format!("…\n{short}  …\n…"));
    let back = format!("shout runs {short} again, revision …; secrets, grants and price did not change");
    shell.run(&["rollback", "shout"]).await.is(0).stderr_text(&back);
    host.call("shout", &json!({})).await.is(200);
    assert_eq!(shell.json(&["versions", "shout"]).await["version"], whole);
    shell.run(&["rollback", "shout"]).await.is(1).warned(&format!("error: `shout` has no stored version before {short}"));
    let revision = async || shell.json(&["show", "shout"]).await["endpoint"]["revision"].clone();
    let before = revision().await;
    let same = format!("shout already runs {short}, at revision {before}; nothing was changed");
    shell.run(&["rollback", "shout", "--to", short]).await.is(0).stderr_text(&same);
    assert_eq!(revision().await, before);
    shell.run(&["rollback", "shout", "--to", "ffff"]).await.is(1).warned("error: …version…\n…(unknown_version, req_…)");
}

#[tokio::test]
async fn secrets_come_from_standard_input_or_a_file_and_are_reported_by_name() {
    let host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default (req, ctx) => ctx.env.KEY === req.input.guess;")).await;
    let shell = Shell::admin(&host);
    shell.given("s3cret-value\n", &["secrets", "set", "KEY", "--slug", "keeper"]).await.is(0).stderr_text("set KEY for keeper");
    assert_eq!(host.call("keeper", &json!({ "guess": "s3cret-value" })).await.is(200).json(), true);
    shell
        .run(&["secrets", "set", "KEY", "--slug", "keeper"])
        .await
        .is(2)
        .warned("error: Value of KEY: the input is empty\nhint: use standard input, or --env-file FILE");
    let file = shell.file(".env", "# two\nA_TOKEN=\"one two three\"\nB_TOKEN=abcdefgh\n");
    shell
        .run(&["secrets", "set", "--env-file", &file, "--slug", "keeper", "--auth"])
        .await
        .is(0)
        .stderr_text("set A_TOKEN for keeper\nset B_TOKEN for keeper");
    let listed = shell.run(&["secrets", "list", "--slug", "keeper"]).await.is(0);
    assert!(!listed.stdout.contains("one two three") && !listed.stdout.contains("s3cret-value"));
    listed.stderr_text("name     for                   set\nA_TOKEN  requests with `auth`  …Z\nB_TOKEN  requests with `auth`  …Z\nKEY      the handler           …Z");
    shell
        .run(&["secrets", "rm", "KEY", "--slug", "keeper"])
        .await
        .is(0)
        .stderr_text("removed KEY of keeper; workers that had it are stopped");
    shell.run(&["secrets", "rm", "KEY", "--slug", "keeper"]).await.is(1).warned("error: …\n(unknown_secret, req_…)");
    shell.run(&["secrets", "rotate", "--url", &host.url]).await.is(0).stderr_text("re-encrypted 2 secrets with key …; retired keys: …");
}

#[tokio::test]
async fn tool_folder_selects_its_endpoint() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    let shell = Shell::new().env("TOLLHOUSE_ADMIN_TOKEN", &host.admin);
    let state = json!({ "slug": "shout", "host": host.url, "revision": 1 }).to_string();
    shell.file("tools/shout/.tollhouse/state.json", &state);
    shell.file("tools/shout/src/deep/handler.ts", "");
    let inside = shell.home().join("tools/shout/src/deep");
    // The host that a folder names is used for public data only. Credentials go only to a host that
    // the user chose.
    shell.run_in(&inside, &["show"]).await.is(0).stderr_text("slug        shout\n…");
    shell.run_in(&inside, &["pause"]).await.is(3).warned("error: No builder key or admin token for …\n…");
    shell.run_in(&inside, &["pause", "--url", &host.url]).await.is(0).stderr_text("shout is paused, revision 2");
    let noted = std::fs::read_to_string(shell.home().join("tools/shout/.tollhouse/state.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&noted).unwrap()["revision"], 2, "a change from the folder is nobody else's");
    shell.run(&["pause", "--url", &host.url]).await.is(2).warned("error: Name a tool: this folder was never published");
}

#[tokio::test]
async fn command_in_a_folder_that_was_never_published_names_the_next_step() {
    let shell = Shell::at("http://127.0.0.1:9").env("TOLLHOUSE_ADMIN_TOKEN", "t");
    shell.run(&["init", "shout"]).await.is(0);
    let folder = shell.home().join("shout");
    let never = "error: `shout` was never published from this folder\nhint: ";
    for (words, hint) in [
        (&["secrets", "set", "KEY"][..], "publish it first, with `\"status\": \"paused\"` in tool.json: tollhouse deploy"),
        (&["secrets", "list"], "publish it first, with `\"status\": \"paused\"` in tool.json: tollhouse deploy"),
        (&["call"], "publish it: tollhouse deploy, or serve it here: tollhouse dev"),
        (&["logs"], "publish it: tollhouse deploy"),
        (&["metrics"], "publish it: tollhouse deploy"),
        (&["pause"], "publish it: tollhouse deploy"),
    ] {
        shell.run_in(&folder, words).await.is(2).stderr_text("").warned(&format!("{never}{hint}"));
    }
}
