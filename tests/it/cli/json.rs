//! `--json` for commands that work on a folder or a key, or that run until stopped: one document,
//! or one object per line, and nothing else.

use std::fs;

use serde_json::{Value, json};

use super::{
    devs::Dev,
    folders::{edit, started},
    harness::{Ran, Shell},
};
use crate::harness::Host;

/// Returns the document of a command. The standard output must be this document and a newline.
#[track_caller]
fn document(ran: &Ran) -> Value {
    assert!(ran.stdout.lines().count() == 1 && ran.stdout.ends_with('\n'), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[tokio::test]
async fn a_folders_commands_report_programs_one_document() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::builder(&host, &key);
    let made = document(&shell.run(&["init", "other", "--json"]).await.is(0));
    assert_eq!(made["files"][0], json!({ "file": "other/tool.json", "written": true, "what": "created" }));
    let folder = started(&shell, "shout").await;
    let of_folder = async |words: &[&str], status: i32| {
        let ran = shell.run_in(&folder, &[words, &["--json"]].concat()).await.is(status);
        document(&ran)
    };
    fs::write(folder.join("tool.d.ts"), "old").unwrap();
    assert_eq!(of_folder(&["types"], 0).await["files"][0]["file"], "tool.d.ts");
    assert_eq!(of_folder(&["check", "--no-types"], 0).await["ok"], true);
    let planned = of_folder(&["deploy", "--dry-run"], 0).await;
    assert_eq!((&planned["published"], &planned["dryRun"], &planned["onto"]), (&json!(false), &json!(true), &Value::Null));
    let deploy = ["deploy", "--yes", "--attest"];
    let published = of_folder(&deploy, 0).await;
    assert_eq!((&published["published"], &published["revision"], &published["slug"]), (&json!(true), &json!(1), &json!("shout")));
    assert!(published["tookMs"].is_u64() && published["handler"]["after"].is_string(), "{published}");
    assert_eq!(of_folder(&deploy, 0).await["published"], false);
    assert_eq!(of_folder(&["diff"], 0).await["changes"], json!([]));
    edit(&folder, "tool.json", "\"priceUsd\": 0.01", "\"priceUsd\": 0.02");
    edit(&folder, "handler.ts", "toUpperCase", "toLowerCase");
    let differs = of_folder(&["diff"], 0).await;
    assert_eq!(differs["changes"], json!([{ "field": "priceUsd", "host": 0.01, "folder": 0.02 }]));
    assert!(differs["handler"].as_str().unwrap().contains("+  return { text: text.toLowerCase() };"), "{differs}");
    assert_eq!(of_folder(&["pull", "--yes"], 0).await["written"], json!(["tool.json", "handler.ts"]));
    assert_eq!(of_folder(&["pull"], 0).await["written"], json!([]));

    for (words, member) in [
        (&["key", "new"][..], "file"),
        (&["key", "show"], "file"),
        (&["key", "fund", "1"], "balanceUsd"),
        (&["key", "balance"], "balanceUsd"),
    ] {
        let answer = of_folder(words, 0).await;
        assert!(
            !answer[member].is_null() && answer["address"].as_str().is_some_and(|address| address.starts_with("0x")),
            "{words:?}: {answer}"
        );
    }

    // The reason of a failure is also a document, on standard error.
    let refused = shell.run(&["diff", "--json"]).await.is(2);
    let error: Value = serde_json::from_str(&refused.stderr).unwrap();
    assert!(refused.stdout.is_empty() && error["error"]["exit"] == 2, "{refused:?}");
}

#[tokio::test]
async fn dev_reports_programs_an_object_a_line() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut dev = Dev::start(&shell, &folder, &["--json", "--no-types"]);
    dev.wait_for("\"event\":\"looked\"").await;
    shell.run_in(&folder, &["call", "shout", "--json", "{\"text\":\"hi\"}"]).await.is(0);
    dev.wait_for("\"event\":\"log\"").await;
    edit(&folder, "cases.jsonc", "\"HI\"", "\"HO\"");
    dev.wait_for("\"event\":\"looked\"").await;
    fs::write(folder.join("handler.ts"), "export default (").unwrap();
    dev.wait_for("\"event\":\"problem\"").await;
    let events: Vec<Value> = dev.printed().iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name}: {events:#?}"));
    assert!(of("published")["tookMs"].is_u64() && of("published")["slug"] == "shout");
    assert_eq!((&of("looked")["cases"]["passed"], &of("looked")["types"]), (&json!(3), &Value::Null));
    assert_eq!((&of("call")["call"]["outcome"], &of("call")["call"]["charged"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(of("log")["log"]["message"], "shouting");
    assert!(of("problem")["problem"]["message"].is_string());
    assert_eq!(dev.end(rustix::process::Signal::TERM).await, Some(0));
}
