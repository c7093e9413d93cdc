//! Publishing a folder: the plan, values that stay unchanged, and concurrent changes.

use std::{
    fs,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    folders::{edit, edit_thrice, started},
    harness::Shell,
};
use crate::harness::{Host, eventually};

const YES: [&str; 3] = ["deploy", "--yes", "--attest"];

#[tokio::test]
async fn publication_is_reported_even_if_the_folder_is_read_only() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    let folder = started(&shell, "shout").await;
    fs::write(folder.join(".tollhouse"), "no folder").unwrap();
    let ran = shell.run_in(&folder, &YES).await.is(1);
    assert!(ran.stdout.contains("published ") && ran.stderr.contains("revision 1 was published"), "{ran:?}");
    fs::remove_file(folder.join(".tollhouse")).unwrap();
    shell.run_in(&folder, &["deploy", "--yes", "--attest", "--onto", "1"]).await.is(0);
}

#[tokio::test]
async fn deploy_shows_its_plan_and_publishes_once() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    let nobody = "error: Publish, and attest …: this question needs a terminal\nhint: answer with --yes --attest";
    shell.run_in(&folder, &["deploy"]).await.is(2).warned(nobody);
    shell.run_in(&folder, &["deploy", "--yes"]).await.is(2).warned("…\nhint: answer with --attest");
    shell.run_in(&folder, &["deploy", "--dry-run"]).await.is(0).warned("nothing was published.");
    host.get("/ai/endpoints/shout").await.fails(404, "unknown_endpoint", "caller");
    let made = format!(
        "shout → {}  (new)\n  handler…  …  +5\n…\n  priceUsd…  0.01…  you get 0.0095 a call\n…\npublished …, revision 1, in … ms\n{}/tools/shout",
        host.url, host.url
    );
    shell.run_in(&folder, &YES).await.is(0).stderr_text(&made);
    shell.run_in(&folder, &YES).await.is(0).warned("nothing to publish: the host is up to date");
    // Secrets, and values that are not in the folder, stay unchanged.
    host.as_builder(&key, Method::POST, "/ai/endpoints/shout/secrets", &json!({ "name": "TOKEN", "value": "abcdefghij" })).await.is(200);
    edit_thrice(&folder);
    let plan = format!(
        "shout → {}  (yours, revision 1)\n  handler       … → …  +1 −1\n  priceUsd      0.01 → 0.02          you get 0.019 a call\n  \
         capabilities  + httpGetJson api.example.com   needs approval; until then the tool works without it\n…\npublished …, revision 2, in … ms   waiting for an admin: httpGetJson\n{}/tools/shout",
        host.url, host.url
    );
    shell.run_in(&folder, &["deploy", "--yes", "--attest", "--note", "louder"]).await.is(0).stderr_text(&plan);
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/shout", &Value::Null).await.is(200).json();
    let version = record["endpoint"]["version"].clone();
    let stored = record["endpoint"]["versions"].as_array().unwrap().iter().find(|stored| stored["version"] == version).unwrap();
    assert_eq!((&stored["via"], &stored["note"]), (&json!("cli"), &json!("louder")));
    let secrets = host.as_builder(&key, Method::GET, "/ai/endpoints/shout/secrets", &Value::Null).await.is(200).json();
    assert_eq!(secrets["secrets"][0]["name"], "TOKEN");
}

#[tokio::test]
async fn deploy_that_somebody_was_quicker_than_publishes_nothing() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    edit(&folder, "tool.json", "\"capabilities\"", "\"limits\": { \"wallMs\": 9000 },\n  \"capabilities\"");
    shell.run_in(&folder, &YES).await.is(0);
    host.change("shout", &json!({ "limits": { "wallMs": 5000 } })).await;
    edit(&folder, "tool.json", "\"priceUsd\": 0.01", "\"priceUsd\": 0.02");
    let conflict = "error: `shout` changed on the host since revision 1: now revision 2, by admin, …Z\n  limits.wallMs  9000 → 5000\nnothing was published.  keep theirs and publish: --onto 2   compare: tollhouse diff   use theirs: tollhouse pull";
    shell.run_in(&folder, &YES).await.is(1).stderr_text("").warned(conflict);
    let price = async || host.get("/ai/endpoints/shout").await.is(200).json()["endpoint"]["priceUsd"].clone();
    assert_eq!(price().await, 0.01);
    shell
        .run_in(&folder, &["diff"])
        .await
        .is(0)
        .stderr_text(&format!("shout on {} (revision 2) → this folder\n…\n  limits.wallMs  5000 → 9000", host.url));
    // Values that only the host changed stay as they are there.
    let onto = ["deploy", "--yes", "--attest", "--onto", "2"];
    shell.run_in(&folder, &onto).await.is(0).stderr_text(
        "shout → …\n  priceUsd  0.01 → 0.02  …\n  kept          limits.wallMs  9000 → 5000\npublished …, revision 3, in … ms\n…",
    );
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/shout", &Value::Null).await.is(200).json();
    assert_eq!((&record["endpoint"]["ownLimits"]["wallMs"], &record["endpoint"]["priceUsd"]), (&json!(5000), &json!(0.02)));
    shell.run_in(&folder, &["pull", "--yes"]).await.is(0).stderr_text("tool.json updated from revision 3 of shout");
    assert!(fs::read_to_string(folder.join("tool.json")).unwrap().contains("\"wallMs\": 5000"));
    shell.run_in(&folder, &["diff"]).await.is(0).stderr_text("").warned("shout on … is the same as this folder, revision 3");
    // Another folder that has never had this endpoint.
    let other = Shell::builder(&host, &key);
    let strange = started(&other, "shout").await;
    other.run_in(&strange, &YES).await.is(1).warned(
        "error: `shout` already exists on …, at revision 3, but was not published from this folder\nnothing was published.  …--onto 3",
    );
}

/// Regression test: `deploy` ended with 503, although a new source is the remedy.
#[tokio::test]
async fn deploy_replaces_a_source_that_the_host_has_lost() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    let folder = started(&shell, "shout").await;
    edit(&folder, "handler.ts", "text.toUpperCase()", &format!("text.toUpperCase() + \"{}\"", "x".repeat(20_000)));
    shell.run_in(&folder, &YES).await.is(0);
    let files = host.folder().join("data/files");
    assert_eq!(fs::read_dir(&files).unwrap().count(), 1, "the source is an object, because it is long");
    fs::rename(&files, host.folder().join("beside")).unwrap();
    host.manage(Method::GET, "/ai/endpoints/shout/source", &Value::Null).await.fails(503, "source_unavailable", "host");
    edit(&folder, "handler.ts", "+ \"x", "+ \"y");
    let ran = shell.run_in(&folder, &YES).await.is(0);
    assert!(ran.stderr.contains("cannot read the tool's current source"), "{ran:?}");
    host.manage(Method::GET, "/ai/endpoints/shout/source", &Value::Null).await.is(200);
}

#[tokio::test]
async fn deploy_goes_on_after_a_change_of_nothing_that_the_folder_has() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let (shell, admin) = (Shell::builder(&host, &key), Shell::admin(&host));
    let folder = started(&shell, "shout").await;
    edit_thrice(&folder);
    shell.run_in(&folder, &YES).await.is(0);
    admin.run(&["reviews", "approve", "shout", "--yes", "--onto", "1"]).await.is(0);
    host.change("shout", &json!({ "limits": { "wallMs": 5000 } })).await;
    edit(&folder, "handler.ts", "\"!\"", "\"?\"");
    let plan = "shout → …  (yours, revision 3)\n  handler  … → …  +1 −1\n…\npublished …, revision 4, in … ms\n…";
    shell.run_in(&folder, &YES).await.is(0).stderr_text(plan);
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/shout", &Value::Null).await.is(200).json();
    assert_eq!(record["endpoint"]["ownLimits"]["wallMs"], 5000);
    // An admin revokes what the folder has.
    admin.run(&["reviews", "revoke", "shout", "--capabilities", "httpGetJson", "--yes"]).await.is(0);
    edit(&folder, "handler.ts", "\"?\"", "\".\"");
    let conflict = "error: `shout` changed on the host since revision 4: now revision 5, by admin, …Z\n  capabilities.httpGetJson  true → nothing\n…\nnothing was published.  …--onto 5…";
    shell.run_in(&folder, &YES).await.is(1).warned(conflict);
}

#[tokio::test]
async fn deploy_that_pauses_a_selling_tool_needs_a_flag_of_its_own() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let (shell, admin) = (Shell::builder(&host, &key), Shell::admin(&host));
    let folder = started(&shell, "shout").await;
    shell.run_in(&folder, &YES).await.is(0);
    admin.run(&["policy", "edit", "requireReview=true", "--yes"]).await.is(0);
    // A price is not reviewed, so this change pauses nothing.
    edit(&folder, "tool.json", "\"priceUsd\": 0.01", "\"priceUsd\": 0.02");
    shell.run_in(&folder, &["deploy", "--yes"]).await.is(0);
    edit(&folder, "handler.ts", "text.toUpperCase()", "text.toUpperCase() + \"!\"");
    let warning = "…\n  warning       this pauses shout: its calls get 409 endpoint_paused until an admin approves it, or you roll back\n…";
    let stopped = shell.run_in(&folder, &YES).await.is(2).stderr_text(warning);
    stopped.warned("error: Publish, pause shout until an admin approves it, and attest …: this question needs a terminal\nhint: answer with --allow-pause");
    assert_eq!(shell.json(&["show", "shout"]).await["endpoint"]["status"], "active");
    let paused = shell.run_in(&folder, &["deploy", "--yes", "--attest", "--allow-pause"]).await.is(0);
    paused.stderr_text("…\npublished …, revision 3, in … ms   waiting for an admin: the tool itself\n…");
    // A tool that takes no calls already cannot be paused again.
    edit(&folder, "handler.ts", "\"!\"", "\"?\"");
    shell.run_in(&folder, &YES).await.is(0).stderr_text("…\n  an admin reviews it before it takes calls\n…\npublished …, revision 4, …\n…");
}

#[tokio::test]
async fn deploy_warns_of_unset_secrets_and_of_the_description_of_a_new_tool() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    edit(&folder, "handler.ts", "text.toUpperCase()", "text.toUpperCase() + (ctx.env.API_KEY ?? \"\")");
    let unset = "the secret `API_KEY` is not set on the host: ";
    let check = ["check", "--no-types"];
    let first = format!("…\n        {unset}publish with `\"status\": \"paused\"`, then run `tollhouse secrets set API_KEY`\n…");
    shell.run_in(&folder, &check).await.is(0).stderr_text(&first);
    edit(&folder, "tool.json", "\"priceUsd\": 0.01", "\"status\": \"paused\",\n  \"priceUsd\": 0.01");
    let made = format!(
        "…\n  warning       the description is that of a new tool: …\n  warning       {unset}run `tollhouse secrets set API_KEY`\n\
         published …, revision 1, in … ms   paused; to sell it: tollhouse resume\n…"
    );
    shell.run_in(&folder, &YES).await.is(0).stderr_text(&made);
    shell.run_in(&folder, &YES).await.is(0).warned("nothing to publish: the host is up to date, and the tool is paused");
    assert!(shell.run_in(&folder, &check).await.is(0).stdout.contains(unset));
    shell.given("abcdefghij", &["secrets", "set", "API_KEY", "--slug", "shout"]).await.is(0);
    assert!(!shell.run_in(&folder, &check).await.is(0).stdout.contains(unset));
    edit(&folder, "tool.json", "\"status\": \"paused\",\n", "");
    shell.run_in(&folder, &["resume"]).await.is(0);
    edit(&folder, "handler.ts", "?? \"\"", "?? \"?\"");
    let again = shell.run_in(&folder, &YES).await.is(0);
    assert!(!again.stdout.contains("warning") && !again.stdout.contains("paused"), "{again:?}");
}

#[tokio::test]
async fn pull_takes_an_endpoint_into_an_empty_folder_and_asks_before_it_writes_over() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    let more = "\"properties\": { \"zeta\": {}, \"alpha\": {}, \"mid\": {}, ";
    edit(&folder, "tool.json", "\"properties\": { ", more);
    shell.run_in(&folder, &YES).await.is(0);
    let empty = shell.home().join("empty");
    fs::create_dir(&empty).unwrap();
    shell.run_in(&empty, &["pull", "shout"]).await.is(0).stderr_text("tool.json, handler.ts updated from revision 1 of shout");
    assert_eq!(fs::read(empty.join("handler.ts")).unwrap(), fs::read(folder.join("handler.ts")).unwrap());
    shell.run_in(&empty, &["diff"]).await.is(0).stderr_text("");
    let pulled = fs::read_to_string(empty.join("tool.json")).unwrap();
    let at = |name: &str| pulled.find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("no {name}: {pulled}"));
    assert!(at("zeta") < at("alpha") && at("alpha") < at("mid"), "properties stay in their order: {pulled}");
    edit(&empty, "handler.ts", "toUpperCase", "toLowerCase");
    shell.run_in(&empty, &["pull"]).await.is(2).warned("error: Overwrite the local changes in handler.ts: …\nhint: answer with --yes");
    assert!(fs::read_to_string(empty.join("handler.ts")).unwrap().contains("toLowerCase"));
    shell.run_in(&empty, &["diff"]).await.is(0).stderr_text("shout on …\n  handler  … → …  +1 −1\n--- handler.ts (revision 1, …)\n+++ handler.ts\n@@…\n…\n-  return { text: text.toUpperCase() };\n+  return { text: text.toLowerCase() };\n…");
    shell.run_in(&empty, &["pull", "--yes"]).await.is(0).stderr_text("handler.ts updated from revision 1 of shout");
    let handler = fs::read_to_string(empty.join("handler.ts")).unwrap();
    fs::write(empty.join("handler.ts"), handler.replace('\n', "\r\n")).unwrap();
    let patch = shell.run_in(&empty, &["diff"]).await.is(0).stdout;
    assert!(patch.contains("\n-  return { text: text.toUpperCase() };\n"), "{patch:?}");
    assert!(patch.contains("\n+  return { text: text.toUpperCase() };\r\n"), "{patch:?}");
}

#[tokio::test]
async fn pull_asks_before_it_writes_over_a_handler_of_a_folder_that_is_no_tool_yet() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    shell.run_in(&folder, &YES).await.is(0);
    shell.file("own/handler.ts", "mine");
    shell.file("other/handler.js", "mine");
    let (own, other) = (shell.home().join("own"), shell.home().join("other"));
    let request = "error: Overwrite the existing handler.ts: this question needs a terminal\nhint: answer with --yes";
    shell.run_in(&own, &["pull", "shout"]).await.is(2).warned(request);
    let two = "error: `handler.js` already exists, and a tool can have only one handler\nhint: use an empty folder";
    shell.run_in(&other, &["pull", "shout", "--yes"]).await.is(1).warned(two);
    for (folder, file) in [(&own, "handler.ts"), (&other, "handler.js")] {
        assert_eq!((fs::read_to_string(folder.join(file)).unwrap().as_str(), fs::read_dir(folder).unwrap().count()), ("mine", 1));
    }
    shell.run_in(&own, &["pull", "shout", "--yes"]).await.is(0).stderr_text("tool.json, handler.ts updated from revision 1 of shout");
    // If the files already equal the host's, there is no question.
    fs::remove_file(own.join("tool.json")).unwrap();
    shell.run_in(&own, &["pull", "shout"]).await.is(0).stderr_text("tool.json updated from revision 1 of shout");
}

#[tokio::test]
async fn pull_from_another_host_asks_and_the_folder_is_of_that_one_then() {
    let (one, two) = (Host::start().await, Host::start().await);
    let (here, there) = (Shell::admin(&one), Shell::admin(&two));
    let (folder, other) = (started(&here, "shout").await, started(&there, "shout").await);
    here.run_in(&folder, &YES).await.is(0);
    edit(&other, "handler.ts", "toUpperCase", "toLowerCase");
    there.run_in(&other, &YES).await.is(0);
    let request = "error: Overwrite the existing handler.ts: …\nhint: answer with --yes";
    there.run_in(&folder, &["pull"]).await.is(2).warned(request);
    assert!(fs::read_to_string(folder.join("handler.ts")).unwrap().contains("toUpperCase"));
    let bound = format!("this folder belonged to shout on {}; it now belongs to shout on {}", one.url, two.url);
    there.run_in(&folder, &["pull", "--yes"]).await.is(0).stderr_text("handler.ts updated from revision 1 of shout").warned(&bound);
    assert!(fs::read_to_string(folder.join("handler.ts")).unwrap().contains("toLowerCase"));
    // The files have not been changed since.
    there.run_in(&folder, &["pull"]).await.is(0).stderr_text("shout is up to date, revision 1").warned("");
    here.run_in(&folder, &YES)
        .await
        .is(1)
        .warned("error: `shout` already exists on …, at revision 1, but was not published from this folder\n…");
}

#[tokio::test]
async fn pull_takes_a_new_answer_without_asking_where_nothing_was_changed() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    shell.file("fixed/tool.json", "{ \"slug\": \"fixed\", \"title\": \"Fixed\", \"handlerType\": \"static_json\" }");
    shell.file("fixed/response.json", "{ \"b\": 1, \"a\": [1, 2] }");
    let folder = shell.home().join("fixed");
    shell.run_in(&folder, &YES).await.is(0);
    host.change("fixed", &json!({ "handler": { "response": { "a": 3 } } })).await;
    shell.run_in(&folder, &["pull"]).await.is(0).stderr_text("…response.json updated from revision 2 of fixed");
    assert_eq!(fs::read_to_string(folder.join("response.json")).unwrap(), "{\n  \"a\": 3\n}\n");
    host.change("fixed", &json!({ "handler": { "response": { "a": 4 } } })).await;
    edit(&folder, "response.json", "3", "5");
    shell.run_in(&folder, &["pull"]).await.is(2).warned("error: Overwrite the local changes in response.json: …\nhint: …");
}

#[tokio::test]
async fn static_answer_keeps_its_digits_in_flight_through_a_folder() {
    const TEXT: &str = "{\n  \"a\": [\n    12345678901234567890123,\n    0.1000,\n    1e400\n  ]\n}\n";
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    shell.file("exact/tool.json", "{ \"slug\": \"exact\", \"title\": \"Exact\", \"handlerType\": \"static_json\" }");
    shell.file("exact/response.json", "{ \"a\": [12345678901234567890123, 0.1000, 1e400] }");
    let folder = shell.home().join("exact");
    shell.run_in(&folder, &YES).await.is(0);
    let answered = async |text: &str| {
        let answer = host.request(Method::POST, "/tools/exact").json(&json!({})).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), text);
    };
    answered("{\"a\":[12345678901234567890123,0.1000,1e400]}").await;
    assert_eq!(shell.run_in(&folder, &["show", "--source"]).await.is(0).stdout, TEXT);
    let document = shell.run_in(&folder, &["show", "--source", "--json"]).await.is(0).stdout;
    assert!(document.contains("\"response\":{\"a\":[12345678901234567890123,0.1000,1e400]}"), "{document}");
    shell.run_in(&folder, &YES).await.is(0).warned("nothing to publish: the host is up to date");
    edit(&folder, "response.json", "890123,", "890124,");
    let ran = shell.run_in(&folder, &["diff"]).await.is(0);
    assert!(ran.stdout.contains("-    12345678901234567890123,\n+    12345678901234567890124,\n"), "{ran:?}");
    shell.run_in(&folder, &YES).await.is(0);
    answered("{\"a\":[12345678901234567890124,0.1000,1e400]}").await;
    let other = shell.home().join("other");
    fs::create_dir(&other).unwrap();
    shell.run_in(&other, &["pull", "exact"]).await.is(0);
    assert_eq!(fs::read_to_string(other.join("response.json")).unwrap(), TEXT.replace("890123,", "890124,"));
}

#[tokio::test]
async fn deploy_on_loopback_is_quick() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    let mut elapsed: Vec<Duration> = vec![];
    for round in 0..7 {
        edit(&folder, "handler.ts", "export default", &format!("// {round}\nexport default"));
        let started_at = Instant::now();
        shell.run_in(&folder, &YES).await.is(0);
        elapsed.push(started_at.elapsed());
    }
    elapsed.sort();
    println!("deploy on loopback: median {} ms, slowest {} ms", elapsed[3].as_millis(), elapsed[6].as_millis());
    // The fastest of seven, because the machine does other work. `cargo xtask bench cli` measures it.
    assert!(elapsed[0] < Duration::from_millis(1500), "{elapsed:?}");
}

/// A handler with a package and a second file, which throws.
const THROWS: &str = "import ms from \"ms\";\nimport { deep } from \"./lib/deep.ts\";\n\nexport default function (req: ToolRequest<{ text: string }>) {\n  return { text: deep(req.input.text, ms(\"2h\")) };\n}\n";
const DEEP: &str = "export function deep(text: string, wait: number): string {\n  if (text === \"boom\") throw new TypeError(\"boom\");\n  return text + wait;\n}\n";

#[tokio::test]
async fn errors_of_a_bundle_name_the_builders_own_lines() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let folder = started(&shell, "shout").await;
    fs::create_dir(folder.join("lib")).unwrap();
    fs::write(folder.join("handler.ts"), THROWS).unwrap();
    fs::write(folder.join("lib/deep.ts"), DEEP).unwrap();
    fs::write(folder.join("cases.jsonc"), "[]").unwrap();
    shell.run_in(&folder, &YES).await.is(0);
    shell.run(&["key", "new"]).await.is(0);
    shell.run(&["key", "fund", "1"]).await.is(0);

    // A payer sees the message. The builder also sees the position in the folder.
    let call = ["call", "shout", "--json", "{\"text\":\"boom\"}"];
    let expected =
        "error: Handler failed: TypeError: boom\n  nothing was charged\n  thrown at lib/deep.ts:2:30\n…\n(handler_failed, req_…)";
    shell.run_in(&folder, &call).await.is(1).warned(expected);
    shell.run(&call).await.is(1).warned("error: Handler failed: TypeError: boom\n  nothing was charged\n…\n(handler_failed, req_…)");
    eventually("both calls are stored", Duration::from_secs(10), async || {
        let stored = async |list: &str| shell.json(&[list, "shout"]).await[list].as_array().unwrap().len();
        (stored("calls").await == 2 && stored("logs").await == 2).then_some(())
    })
    .await;
    let calls = shell.run_in(&folder, &["calls"]).await.is(0);
    let line = "…  handler_failed  call_…  Handler failed: TypeError: boom  lib/deep.ts:2:30";
    calls.stderr_text(&format!("{line}\n{line}"));
    let logs = ["logs", "--level", "error", "--limit", "1"];
    let logged = shell.run_in(&folder, &logs).await.is(0);
    assert!(logged.stdout.contains("lib/deep.ts:2:30") && logged.stdout.contains("handler.ts:5:"), "{logged:?}");
    for words in [&["calls", "--limit", "1", "--json"][..], &["logs", "--level", "error", "--limit", "1", "--json"]] {
        let expected: Value = serde_json::from_str(&shell.run_in(&folder, words).await.is(0).stdout).unwrap();
        assert_eq!(expected[words[0]][0]["place"], json!({ "file": "lib/deep.ts", "line": 2, "column": 30 }), "{expected}");
    }
    // Without the files, the position refers to the published source.
    shell.run(&["calls", "shout", "--limit", "1"]).await.is(0).stderr_text("…  Handler failed: TypeError: boom  tool:/shout/…:…");

    // Errors of an older version keep the line numbers of that version.
    fs::write(folder.join("lib/deep.ts"), format!("// Above.\n{}", DEEP.replace("text + wait", "text + (wait - 1)"))).unwrap();
    shell.run_in(&folder, &YES).await.is(0);
    let expected = "…\n  thrown at lib/deep.ts:3:30\n…";
    shell.run_in(&folder, &call).await.is(1).warned(expected);
    let id = shell.json(&["calls", "shout", "--limit", "1"]).await["calls"][0]["callId"].as_str().unwrap().to_owned();
    shell.run_in(&folder, &["calls", "--call", &id]).await.is(0).stderr_text("…  lib/deep.ts:3:30");
    let all = shell.run_in(&folder, &["calls"]).await.is(0);
    assert_eq!((all.stdout.matches("lib/deep.ts:2:30").count(), all.stdout.matches("lib/deep.ts:3:30").count()), (2, 1), "{all:?}");
}
