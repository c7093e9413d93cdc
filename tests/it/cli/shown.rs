//! The output of commands for people: charged amounts, familiar names, and commands that can be
//! typed.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, process::Stdio, time::Duration};

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{devs::Dev, folders::started, harness::Shell};
use crate::harness::{Host, eventually, js, tollhouse};

/// Returns a tool that sets its price itself.
fn metered(slug: &str) -> serde_json::Value {
    let mut tool = js(slug, 0.0, "export default async (req, ctx) => { await ctx.charge(0.01); return {}; };");
    tool["maxPriceUsd"] = json!(0.05);
    tool
}

#[tokio::test]
async fn whoami_reports_a_missing_sign_in() {
    let host = Host::start().await;
    let shell = Shell::at(&host.url);
    let hint = "hint: sign in: tollhouse login --url …, or set one of TOLLHOUSE_BUILDER_KEY, TOLLHOUSE_ADMIN_TOKEN, …";
    shell.run(&["whoami"]).await.is(3).warned(&format!("error: You are not signed in to {}\n{hint}", host.url));
}

#[tokio::test]
async fn receipt_is_verified_by_its_id_at_the_chosen_host() {
    let host = Host::start().await;
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    let id = host.call("free", &json!({})).await.is(200).receipt_id();
    let valid = format!("valid: {id} of `free`, … USD, signed by …");
    Shell::at(&host.url).run(&["verify-receipt", &id]).await.is(0).stderr_text(&valid);
    let shell = Shell::new();
    shell.run(&["verify-receipt", &id, "--url", &host.url]).await.is(0).stderr_text(&valid);
    shell.run(&["--url", &host.url, "verify-receipt", &id, "--json"]).await.is(0);
    let unknown = "rcpt_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    shell.run(&["verify-receipt", unknown, "--url", &host.url]).await.is(1).warned("error: …\n…(unknown_receipt, req_…)");
    let no_file = "error: `rcpt_1`: No such file or directory (os error 2)\nhint: name a file, the URL of a receipt, or its id (rcpt_…)";
    shell.run(&["verify-receipt", "rcpt_1"]).await.is(1).warned(no_file);
    let file = shell.file(&id, "{}");
    let ambiguous = shell.run(&["verify-receipt", &id]).await.is(2);
    assert!(ambiguous.stderr.contains("--keys"), "the file {file} takes precedence: {ambiguous:?}");
}

#[tokio::test]
async fn admin_who_names_no_builder_gets_the_flag() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    let missing = "error: The builder is missing\nhint: name the builder: --builder bld_…\n(invalid_request, req_…)";
    for words in [&["revenue"][..], &["payouts"], &["payouts", "make"], &["payouts", "settings"], &["builders", "new-key", "--yes"]] {
        shell.run(words).await.is(1).warned(missing);
    }
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    let ran = shell.run(&["calls", "free", "--outcome", "never"]).await.is(1);
    assert!(ran.stderr.starts_with("error: `--outcome` must be"), "{ran:?}");
}

#[tokio::test]
async fn list_and_show_show_what_a_metered_tool_may_cost() {
    let host = Host::start().await;
    host.publish(&metered("meter")).await;
    let shell = Shell::admin(&host);
    for words in [&["list", "--all"][..], &["list", "--public"]] {
        shell.run(words).await.is(0).stderr_text("…\nmeter  …up to $0.05…\n…");
    }
    shell.run(&["show", "meter"]).await.is(0).stderr_text("…\nprice…up to $0.05\n…");
}

#[tokio::test]
async fn calls_and_revenue_show_what_was_taken_and_when() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let builder = Shell::builder(&host, &key);
    let source = "export default (req) => { if (req.input.fail) throw new Error('no'); return {}; };";
    let mut tool = js("moody", 0.01, source);
    tool["safetyAttestation"] = json!({ "accepted": true });
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    let payer = Shell::at(&host.url);
    payer.run(&["key", "new"]).await.is(0);
    payer.run(&["key", "fund", "1"]).await.is(0);
    payer.run(&["call", "moody"]).await.is(0);
    payer.run(&["call", "moody", "--json", r#"{"fail":true}"#]).await.is(1);
    eventually("both calls are shown", Duration::from_secs(20), async || {
        let calls = builder.run(&["calls", "moody"]).await.is(0);
        (calls.stdout.lines().count() == 2).then_some(calls)
    })
    .await
    .stderr_text("…succeeded…  $0.01  …\n…handler_failed…  not charged  …");
    eventually("the sale is counted", Duration::from_secs(20), async || {
        (builder.json(&["revenue"]).await["totals"]["paidCalls"] == 1).then_some(())
    })
    .await;
    let daily = "tool   day …\nmoody …2 …1 …1 …\n       20…-…-… …2 …1…\nall …20…-…-… …\nall …";
    builder.run(&["revenue", "--daily"]).await.is(0).stderr_text(daily);
    let metrics = builder.run(&["metrics", "moody"]).await.is(0);
    assert!((2..=3).contains(&metrics.stdout.lines().count()), "rows with calls, and none without: {metrics:?}");
}

#[tokio::test]
async fn payouts_name_commands_networks_and_tokens() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let builder = Shell::builder(&host, &key);
    let unset = "error: No payout address is set\nhint: tollhouse payouts settings --address 0x…\n(payout_settings_missing, req_…)";
    builder.run(&["payouts", "make"]).await.is(1).warned(unset);
    let settings = ["payouts", "settings", "--address", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"];
    builder.run(&settings).await.is(0).stderr_text("…\nnetwork…base-sepolia (eip155:84532)\nasset…USDC (0x…)\n…");
    let wrong = ["payouts", "settings", "--address", "0x1"];
    builder.run(&wrong).await.is(1).warned("error: …\n…at --address\n…");
    Shell::at(&host.url)
        .env("TOLLHOUSE_BUILDER_KEY", "bk_wrong")
        .run(&["payouts"])
        .await
        .is(3)
        .warned("error: …\n…\nhint: sign in with another credential: tollhouse login\n(unauthorized, req_…)");
}

#[tokio::test]
async fn payouts_with_one_transaction_are_recorded_with_a_warning() {
    let host = Host::start().await;
    let (admin, credit) = (Shell::admin(&host), host.mint(5.0).await);
    let hash = format!("0x{}", "5".repeat(64));
    let mut first = None;
    for slug in ["earns-one", "earns-two"] {
        let (_, key) = host.register(slug).await;
        let tool = js(slug, 2.0, "export default () => ({});");
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
        host.call_credit(slug, &json!({}), &credit).await.is(200);
        let settings = json!({ "address": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C" });
        host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &settings).await.is(200);
        let made = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &serde_json::Value::Null).await.is(200).json();
        let id = made["payout"]["id"].as_str().unwrap().to_owned();
        admin.run(&["payouts", "approve", &id, "--yes"]).await.is(0);
        let ran = admin.run(&["payouts", "paid", &id, "--transaction", &hash, "--yes"]).await.is(0);
        let other = first.get_or_insert_with(|| id.clone());
        let warned = format!("the transaction is also recorded for `{other}`");
        assert_eq!(format!("{}{}", ran.stdout, ran.stderr).contains(&warned), *other != id, "{ran:?}");
    }
}

#[tokio::test]
async fn call_pays_as_everyone_and_not_as_an_admin() {
    let host = Host::start().await;
    host.publish(&js("free", 0.0, "export default () => ({ ok: 1 });")).await;
    let shell = Shell::admin(&host);
    shell.run(&["call", "free", "--as", "admin"]).await.is(2).warned("error: `--as` selects the admin token, …\nhint: omit `--as`, …");
    shell.run(&["call", "free"]).await.is(0);
}

#[tokio::test]
async fn registration_by_call_has_a_receipt_that_holds() {
    let host = Host::start().await;
    let payer = Shell::at(&host.url);
    payer.run(&["key", "new"]).await.is(0);
    payer.run(&["key", "fund", "5"]).await.is(0);
    let register = format!("{}/ai/builders/register", host.url);
    let ran = payer.run(&["call", &register, "--json", r#"{"name":"Ann Tools"}"#, "--max-usd", "1"]).await.is(0);
    assert!(ran.stdout.contains("bk_"), "{ran:?}");
    assert!(ran.stderr.contains(" (simulated)") && !ran.stderr.contains("warning"), "{ran:?}");
}

#[tokio::test]
async fn init_from_a_shipped_tool_makes_a_folder_of_its_name() {
    let shell = Shell::new();
    shell.run(&["init", "--from", "conversion-quote-demo"]).await.is(0).warned("next: cd conversion-quote-demo && tollhouse dev");
    assert!(shell.home().join("conversion-quote-demo/tool.json").is_file() && !shell.home().join("tool.json").exists());
    shell.run(&["init", "own-name", "--from", "conversion-quote-demo"]).await.is(0);
    assert!(shell.home().join("own-name/tool.json").is_file());
}

#[tokio::test]
async fn types_are_checked_though_a_folder_above_has_a_tsconfig() {
    let shell = Shell::new();
    shell.run(&["init", "shout"]).await.is(0);
    let folder = shell.home().join("shout");
    _ = fs::remove_file(folder.join("tsconfig.json"));
    let bin = folder.join("node_modules/.bin");
    fs::create_dir_all(&bin).unwrap();
    // A compiler that behaves as TypeScript 6 and later do. Earlier versions report an unknown flag
    // in the same way.
    let text = "error TS5112: tsconfig.json is present but will not be loaded if files are specified on commandline. Use '--ignoreConfig' to skip this error.";
    fs::write(bin.join("tsc"), format!("#!/bin/sh\ncase \"$*\" in *--ignoreConfig*) exit 0;; esac\necho \"{text}\"\nexit 1\n")).unwrap();
    fs::set_permissions(bin.join("tsc"), fs::Permissions::from_mode(0o755)).unwrap();
    let ran = shell.run_in(&folder, &["check"]).await;
    assert!(ran.stdout.contains("types   ok"), "{ran:?}");
}

#[tokio::test]
async fn serve_shows_where_the_dashboard_and_the_admin_token_are() {
    let data = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::from(tollhouse());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path().join("d")).env_remove("TOLLHOUSE_ADMIN_TOKEN");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("it starts").unwrap().unwrap();
    let url = next().await.strip_prefix("listening on ").unwrap().to_owned();
    assert_eq!(next().await, format!("dashboard at {url}/dashboard"));
    let token = next().await.strip_prefix("admin token: in ").unwrap().to_owned();
    assert!(fs::read_to_string(&token).is_ok_and(|token| !token.trim().is_empty()), "{token}");
}

#[tokio::test]
async fn commands_in_a_folder_that_dev_serves_are_about_its_tool() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let secrets =
        "\u{feff}A=1\nB=\"x\" # note\nC=x # note\nD=\"l1\\nl2\"\nE='a#b'\nF=\"-----BEGIN\nAAAA\n-----END\"\nexport G = spaced\r\nH=a=b==\n";
    fs::write(folder.join(".env.dev"), secrets).unwrap();
    fs::write(
        folder.join("handler.ts"),
        "export default (req: { input: unknown }, ctx: any) => {
    ctx.log.info('was called');
    return { text: JSON.stringify(Object.fromEntries([...'ABCDEFGH'].map((name) => [name, [...ctx.env[name]]]))) };
};\n",
    )
    .unwrap();
    let mut dev = Dev::start(&shell, &folder, &["--no-types", "--price", "0"]);
    dev.wait_for("published").await;
    let called = shell.run_in(&folder, &["call", "--json", r#"{"text":"hi"}"#]).await.is(0);
    let answer: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
    // The handler returns the letters of each value, because a whole value is redacted.
    let letters: BTreeMap<String, Vec<String>> = serde_json::from_str(answer["text"].as_str().unwrap()).unwrap();
    let env = json!(letters.into_iter().map(|(name, letters)| (name, letters.concat())).collect::<BTreeMap<_, _>>());
    let requested = json!({
        "A": "1", "B": "x", "C": "x", "D": "l1\nl2", "E": "a#b", "F": "-----BEGIN\nAAAA\n-----END", "G": "spaced", "H": "a=b=="
    });
    assert_eq!(env, requested);
    eventually("the log line is shown", Duration::from_secs(20), async || {
        shell.run_in(&folder, &["logs"]).await.is(0).stdout.contains("was called").then_some(())
    })
    .await;
    eventually("the call is shown", Duration::from_secs(20), async || {
        shell.run_in(&folder, &["calls"]).await.is(0).stdout.contains("succeeded").then_some(())
    })
    .await;
    // A value that cannot be parsed is refused with its line. Unbalanced quotes are never dropped
    // silently.
    fs::write(folder.join(".env.dev"), format!("{secrets}I=\"un\n")).unwrap();
    dev.wait_for("line 11 of ").await;
    assert_eq!(dev.end(rustix::process::Signal::TERM).await, Some(0));
}
