//! Paying from the command line: the output, the charge, and calls whose answer is lost.

mod seller;
mod strangers;

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Host, eventually, js};
use seller::LossyProxy;

const PLAN: &str = "export default ({ input }) => ({ summary: `7 steps in 2 h: ${input.goal}.` });";
const SLOW: &str = "export default async ({ input }, ctx) => {
    ctx.progress('begun', 0.5);
    await new Promise((done) => setTimeout(done, input.ms ?? 0));
    return { n: 1.50 };
};";

/// Starts a host with a tool for $0.003, and creates a shell with a payer key and one simulated
/// dollar.
async fn at_a_shop() -> (Host, Shell) {
    let host = Host::start().await;
    host.publish(&js("creator-plan", 0.003, PLAN)).await;
    host.publish(&js("slow", 0.003, SLOW)).await;
    let shell = Shell::at(&host.url);
    funded(&shell).await;
    (host, shell)
}

pub(super) async fn funded(shell: &Shell) {
    shell.run(&["key", "new"]).await.is(0);
    shell.run(&["key", "fund", "1"]).await.is(0);
}

/// Returns the balance of the key, in micro-dollars.
pub(super) async fn remaining(shell: &Shell) -> u64 {
    crate::harness::micros(&shell.json(&["key", "balance"]).await["balanceUsd"])
}

/// Returns the ids of the payments that the command line has recorded.
fn written(shell: &Shell) -> Vec<String> {
    let entries = fs::read_dir(shell.home().join("state/tollhouse/payments")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect()
}

/// Returns the payment id in an output.
pub(super) fn printed(text: &str) -> String {
    let at = text.find("pmt_").unwrap_or_else(|| panic!("no payment: {text}"));
    text[at..].chars().take_while(|char| char.is_ascii_alphanumeric() || *char == '_').collect()
}

#[tokio::test]
async fn a_call_says_what_it_would_pay_and_what_it_paid() {
    let (host, shell) = at_a_shop().await;
    host.publish(&js("big-model", 0.25, "export default () => 1;")).await;
    let call = ["call", "creator-plan", "--json", r#"{"goal":"publish a launch video"}"#];
    let dry = "creator-plan  $0.003 USDC on eip155:84532 (simulated) to 0x…   limit $0.10 a call, $5.00 left today.  Nothing was sent";
    shell.run(&[&call[..], &["--dry-run"]].concat()).await.is(0).stderr_text(dry);
    assert_eq!((remaining(&shell).await, written(&shell).len()), (1_000_000, 0));
    let owner = Shell::admin(&host);
    owner.run(&[&call[..], &["--dry-run"]].concat()).await.is(0).stderr_text(&dry.replace("plan  $", "plan ……  $"));

    let ran = shell.run(&call).await.is(0).stderr_text(r#"{"summary":"7 steps in 2 h: publish a launch video."}"#);
    let ran = ran.warned("paid $0.003 (simulated)  rcpt_…  pmt_…  … s");
    assert_eq!(remaining(&shell).await, 997_000);
    assert_eq!(host.payment(&printed(&ran.stderr)).await.unwrap()["state"], "settled");
    assert_eq!(written(&shell), [printed(&ran.stderr)]);
    let file = shell.home().join(format!("state/tollhouse/payments/{}.jsonl", printed(&ran.stderr)));
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);

    let file = shell.file("in.json", "{}");
    let over = "error: `big-model` costs $0.25, above your limit of $0.10 (--max-usd).  Nothing was signed";
    shell.run(&["call", "big-model", "--json", &format!("@{file}")]).await.is(4).stderr_text("").warned(over);
    assert_eq!(written(&shell).len(), 1, "nothing was signed");
    shell.given("{}", &["call", "big-model", "--json", "-", "--max-usd", "0.25"]).await.is(0).stderr_text("1");
    let dry = shell.run(&["call", "creator-plan", "--dry-run"]).await.is(0);
    assert!(dry.stdout.contains("$4.747 left today"), "{dry:?}");
}

#[tokio::test]
async fn an_input_that_is_none_and_a_tool_that_fails_are_not_paid_for() {
    let (host, shell) = at_a_shop().await;
    host.publish(&js("broken", 0.003, "export default () => { throw new Error('no \\u001b[2J luck'); };")).await;
    host.publish(&js("free", 0.0, "export default () => ({ a: 1 });")).await;
    shell.run(&["call", "creator-plan", "--json", "{"]).await.is(2);
    shell.given("", &["call", "creator-plan", "--json", "-"]).await.is(2);
    shell.run(&["call"]).await.is(2);
    shell.run(&["call", "nobody-has-this"]).await.is(1);
    let ran = shell.run(&["call", "broken"]).await.is(1).stderr_text("");
    assert!(
        ran.stderr.contains("nothing was charged") && ran.stderr.contains("handler_failed") && !ran.stderr.contains('\u{1b}'),
        "{ran:?}"
    );
    shell.run(&["call", "free"]).await.is(0).stderr_text(r#"{"a":1}"#).warned("free  rcpt_…  … s");
    assert_eq!(remaining(&shell).await, 1_000_000);
    // A refunded amount does not count.
    let dry = shell.run(&["call", "creator-plan", "--dry-run"]).await.is(0);
    assert!(dry.stdout.contains("$5.00 left today"), "{dry:?}");
}

#[tokio::test]
async fn bytes_of_any_type_come_as_the_tool_sent_them() {
    let (host, shell) = at_a_shop().await;
    let source = "export default () => new Response('<b>hi</b>\\n', { status: 201, headers: { 'content-type': 'text/html' } });";
    host.publish(&js("page", 0.003, source)).await;
    for more in [&[][..], &["--stream"]] {
        let ran = shell.run(&[&["call", "page"], more].concat()).await.is(0).warned("paid $0.003 (simulated)  rcpt_…");
        assert_eq!(ran.stdout, "<b>hi</b>\n");
    }
    let ran = shell.run(&["call", "page", "-i"]).await.is(0);
    assert!(
        ran.stdout.starts_with("HTTP 201\n")
            && ran.stdout.contains("\ncontent-type: text/html\n")
            && ran.stdout.ends_with("\n\n<b>hi</b>\n"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn progress_is_printed_beside_the_answer() {
    let (_host, shell) = at_a_shop().await;
    let ran = shell.run(&["call", "slow", "--json", r#"{"ms":50}"#, "--stream"]).await.is(0).stderr_text(r#"{"n":1.5}"#);
    ran.warned("  … s   50 %  begun\n…\npaid $0.003 (simulated)  rcpt_…  pmt_…  … s");
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_by_the_same_payment_and_charged_once() {
    let (host, shell) = at_a_shop().await;
    let losing = LossyProxy::before(&host.url).await;
    let shell = shell.env("TOLLHOUSE_URL", &losing.url);
    losing.lose(true);
    let call = ["call", "creator-plan", "--json", r#"{"goal":"b"}"#];
    let ran = shell.run(&call).await.is(6).stderr_text("");
    let id = printed(&ran.stderr);
    let ran = ran.warned(&format!(
        "unknown: Payment {id} was sent, but no answer arrived; the host reports that it was charged once.\n\
         repeat the call with the same payment: tollhouse call --resume {id}"
    ));
    assert_eq!(losing.paid().len(), 4, "{ran:?}");
    assert!(losing.paid().windows(2).all(|two| two[0] == two[1]), "the repeated request is identical");
    // Meanwhile the same request is not paid a second time.
    let again = shell.run(&call).await.is(6).stderr_text("");
    assert!(again.stderr.contains(&format!("--resume {id}")) && losing.paid().len() == 4, "{again:?}");
    losing.lose(false);
    let ran = shell.run(&["call", "--resume", &id]).await.is(0).stderr_text(r#"{"summary":"7 steps in 2 h: b."}"#);
    assert!(ran.stderr.contains(&id) && ran.stderr.starts_with("paid $0.003 (simulated)  rcpt_"), "{ran:?}");
    assert_eq!(remaining(&shell).await, 997_000);
    // The answer can be fetched again, and the same request can be paid again.
    shell.run(&["call", "--resume", &id]).await.is(0).stderr_text(r#"{"summary":"7 steps in 2 h: b."}"#);
    shell.run(&call).await.is(0);
    assert_eq!(remaining(&shell).await, 994_000);
    shell.run(&["call", "--resume", &id.replace("pmt_", "pmt_0")]).await.is(2);
    shell.run(&["call", "--resume", "pmt_00000000000000000000000000000000"]).await.is(1);
}

#[tokio::test]
async fn unknown_outcome_is_not_claimed() {
    let (host, shell) = at_a_shop().await;
    let losing = LossyProxy::before(&host.url).await;
    let shell = shell.env("TOLLHOUSE_URL", &losing.url);
    losing.lose_all(true);
    let ran = shell.run(&["call", "creator-plan"]).await.is(6).stderr_text("");
    let id = printed(&ran.stderr);
    ran.warned(&format!(
        "unknown: Payment {id} was sent, but no answer arrived; it was charged at most once.\n\
         repeat the call with the same payment: tollhouse call --resume {id}"
    ));
    losing.lose_all(false);
    shell.run(&["call", "--resume", &id]).await.is(0);
    assert_eq!(remaining(&shell).await, 997_000);
}

/// Starts a call of `slow`, and waits until the host has its payment. Returns the payment id.
async fn in_flight(host: &Host, shell: &Shell, input: &str) -> (tokio::process::Child, String) {
    let child = shell.command(&["call", "slow", "--json", input]).spawn().unwrap();
    let id = eventually("the payment arrives", Duration::from_secs(20), async || {
        let id = written(shell).pop()?;
        host.payment(&id).await.map(|_| id)
    })
    .await;
    (child, id)
}

/// Does the same, and kills the command.
async fn cut_off(host: &Host, shell: &Shell) -> String {
    let (mut child, id) = in_flight(host, shell, r#"{"ms":1500}"#).await;
    child.kill().await.unwrap();
    id
}

/// A user who got no answer in time repeats the command while the first one still waits.
#[tokio::test]
async fn the_same_request_is_not_paid_for_while_another_process_pays() {
    let (host, shell) = at_a_shop().await;
    let input = r#"{"ms":6000}"#;
    let (child, id) = in_flight(&host, &shell, input).await;
    let again = ["call", "slow", "--json", input];
    shell.run(&again).await.is(1).stderr_text("").warned(&format!(
        "error: Another process is paying for the same request, with {id}.  Nothing was signed\n\
         hint: get its result later: tollhouse call --resume {id}   pay again: --again"
    ));
    let besides = [&again[..], &["--again"]].concat();
    let (first, besides) = tokio::join!(child.wait_with_output(), shell.run(&besides));
    assert_eq!(first.unwrap().stdout, besides.is(0).stdout.as_bytes());
    shell.run(&["call", "--resume", &id]).await.is(0).stderr_text(r#"{"n":1.5}"#);
    assert_eq!(remaining(&shell).await, 994_000);
}

#[tokio::test]
async fn identical_concurrent_requests_pay_once() {
    let (_host, shell) = at_a_shop().await;
    let call = ["call", "slow", "--json", r#"{"ms":6000}"#];
    let (one, two, three) = tokio::join!(shell.run(&call), shell.run(&call), shell.run(&call));
    let (paid, refused): (Vec<_>, Vec<_>) = [one, two, three].into_iter().partition(|ran| ran.status == 0);
    assert_eq!((paid.len(), written(&shell)), (1, vec![printed(&paid[0].stderr)]), "{refused:?}");
    for ran in refused {
        assert_eq!(printed(&ran.is(1).stderr_text("").stderr), printed(&paid[0].stderr));
    }
    assert_eq!(remaining(&shell).await, 997_000);
}

/// A payment that is in the budget but not recorded yet was not sent. The command must not claim
/// that it may have been charged.
#[tokio::test]
async fn payment_another_process_is_recording_is_waited_for() {
    let (host, shell) = at_a_shop().await;
    let losing = LossyProxy::before(&host.url).await;
    let shell = shell.env("TOLLHOUSE_URL", &losing.url);
    losing.lose(true);
    let call = ["call", "creator-plan"];
    let id = printed(&shell.run(&call).await.is(6).stderr);
    losing.lose(false);
    let folder = shell.home().join("state/tollhouse/payments");
    let book = fs::read_to_string(folder.join("spent.json")).unwrap();
    let put = |book: &str| {
        fs::write(folder.join("beside"), book).unwrap();
        fs::set_permissions(folder.join("beside"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(folder.join("beside"), folder.join("spent.json")).unwrap();
    };
    // Simulate another process that just added its payment to the budget.
    let other = format!("pmt_{}", "0".repeat(32));
    put(&book.replace(&id, &other));
    let ran = shell.run(&call).await.is(1).stderr_text("");
    assert!(ran.stderr.contains(&format!("Another process is paying for the same request, with {other}")), "{ran:?}");
    // The other process cannot record it, and removes it again.
    let mut without: Value = serde_json::from_str(&book).unwrap();
    without["open"] = json!([]);
    let lets_go = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        put(&without.to_string());
    };
    let (ran, ()) = tokio::join!(shell.run(&call), lets_go);
    ran.is(0);
}

#[tokio::test]
async fn a_payment_outlives_the_process_that_sent_it() {
    let (host, shell) = at_a_shop().await;
    let id = cut_off(&host, &shell).await;
    // Repeating the command does not pay twice.
    let ran = shell.run(&["call", "slow", "--json", r#"{"ms": 1500}"#]).await.is(6).stderr_text("");
    assert_eq!(printed(&ran.stderr), id);
    shell.run(&["call", "--resume", &id]).await.is(0).stderr_text(r#"{"n":1.5}"#);
    assert_eq!(remaining(&shell).await, 997_000);
}

/// A payment that was sent may have been accepted. That the host is now unreachable does not change
/// that.
#[tokio::test]
async fn a_payment_that_was_sent_stays_open_while_nobody_is_there() {
    let (mut host, shell) = at_a_shop().await;
    let id = cut_off(&host, &shell).await;
    host.kill9();
    let ran = shell.run(&["call", "--resume", &id]).await.is(6).stderr_text("");
    assert!(ran.stderr.contains("the host is unreachable") && ran.stderr.contains(&format!("--resume {id}")), "{ran:?}");
    // The payment is not forgotten. It counts as open, and can be sent again.
    let book = fs::read_to_string(shell.home().join("state/tollhouse/payments/spent.json")).unwrap();
    assert!(book.contains(&id), "{book}");
    assert_eq!(printed(&shell.run(&["call", "--resume", &id]).await.is(6).stderr), id);
}

#[tokio::test]
async fn a_key_whose_file_has_no_name_in_utf8_is_made_and_reported() {
    use std::os::unix::ffi::OsStringExt as _;
    let shell = Shell::new();
    let file = shell.home().join(std::ffi::OsString::from_vec(b"\xff.key".to_vec()));
    for does in ["new", "show"] {
        let ran = shell.command(&["key", does, "--key-file"]).arg(&file).output().await.unwrap();
        assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).starts_with("0x"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_host_that_is_not_there_is_paid_nothing() {
    let (mut host, shell) = at_a_shop().await;
    host.kill9();
    let ran = shell.run(&["call", "creator-plan"]).await.is(5).stderr_text("");
    assert!(ran.stderr.contains("does not answer") && written(&shell).is_empty(), "{ran:?}");
}

#[tokio::test]
async fn a_profile_that_is_made_up_has_no_day_of_its_own() {
    let (host, shell) = at_a_shop().await;
    for name in ["one", "two"] {
        shell.run(&["call", "creator-plan", "--profile", name, "--url", &host.url]).await.is(0);
    }
    let book = fs::read_to_string(shell.home().join("state/tollhouse/payments/spent.json")).unwrap();
    let days = serde_json::from_str::<Value>(&book).unwrap()["days"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(days, [""], "{book}");
}

#[tokio::test]
async fn concurrent_calls_over_the_daily_limit_run_once() {
    let (host, shell) = at_a_shop().await;
    let profile = format!("[profiles.a]\nurl = \"{}\"\ndaily_usd = 0.005\n", host.url);
    shell.file("config/tollhouse/config.toml", &profile);
    let (one, two) =
        tokio::join!(shell.run(&["call", "slow", "--json", r#"{"ms":200}"#]), shell.run(&["call", "slow", "--json", r#"{"ms":201}"#]));
    let mut ended = [one.status, two.status];
    ended.sort_unstable();
    assert_eq!(ended, [0, 4], "{one:?} {two:?}");
    let refused = if one.status == 4 { one } else { two };
    refused
        .stderr_text("")
        .warned("error: `slow` costs $0.003, but only $0.002 of today's $0.005 (daily_usd) is left.  Nothing was signed");
    assert_eq!(remaining(&shell).await, 997_000);
    let book = shell.home().join("state/tollhouse/payments/spent.json");
    fs::write(&book, "{").unwrap();
    shell.run(&["call", "creator-plan"]).await.is(1).stderr_text("");
    assert_eq!(remaining(&shell).await, 997_000, "the spending is unknown, so nothing is spent");
}

#[tokio::test]
async fn the_state_of_a_payment_from_this_machine_has_its_receipt() {
    let (host, shell) = at_a_shop().await;
    let shell = shell.env("TOLLHOUSE_CREDIT", &host.mint(1.0).await);
    for more in [&[][..], &["--credit"]] {
        let call = ["call", "creator-plan", "--json", r#"{"goal":"a"}"#];
        let id = printed(&shell.run(&[&call[..], more].concat()).await.is(0).stderr);
        let receipt = host.payment(&id).await.unwrap()["receiptId"].clone();
        assert_eq!((receipt.is_string(), &shell.json(&["payment", &id]).await["payment"]["receiptId"]), (true, &receipt));
        let elsewhere = Shell::at(&host.url).json(&["payment", &id]).await;
        assert_eq!((&elsewhere["payment"]["state"], elsewhere["payment"].get("receiptId")), (&json!("settled"), None));
    }
}

#[tokio::test]
async fn a_call_over_its_budget_names_the_command_that_sets_it() {
    let (host, shell) = at_a_shop().await;
    let shell = shell.env("TOLLHOUSE_CREDIT", &host.mint(1.0).await);
    shell.run(&["credits", "budget", "--per-day", "0.001"]).await.is(0);
    let ran = shell.run(&["call", "creator-plan", "--credit"]).await.is(4).stderr_text("");
    assert!(ran.stderr.contains("tollhouse credits budget") && !ran.stderr.contains("/ai/"), "{ran:?}");
}

#[tokio::test]
async fn a_credit_pays_within_the_same_limits_and_once() {
    let (host, shell) = at_a_shop().await;
    let credit = host.mint(1.0).await;
    shell.run(&["call", "creator-plan", "--credit"]).await.is(3).stderr_text("");
    let losing = LossyProxy::before(&host.url).await;
    let shell = shell.env("TOLLHOUSE_CREDIT", &credit).env("TOLLHOUSE_URL", &losing.url);
    let dry = shell.run(&["call", "creator-plan", "--credit", "--dry-run"]).await.is(0);
    dry.stderr_text("creator-plan  $0.003 by credit   limit $0.10 a call, $5.00 left today.  Nothing was sent");
    let call = ["call", "creator-plan", "--credit", "--json", r#"{"goal":"c"}"#];
    shell.run(&[&call[..], &["--max-usd", "0.002"]].concat()).await.is(4).stderr_text("");
    losing.lose(true);
    let id = printed(&shell.run(&call).await.is(6).stderr);
    losing.lose(false);
    let record = shell.home().join(format!("state/tollhouse/payments/{id}.jsonl"));
    let stored = fs::read_to_string(&record).unwrap();
    assert!(!stored.contains(&credit), "the credit is stored in one place");
    let ran = shell.run(&["call", "--resume", &id]).await.is(0).stderr_text(r#"{"summary":"7 steps in 2 h: c."}"#);
    ran.warned("paid $0.003 by credit  rcpt_…  pmt_…  … s");
    assert_eq!(host.credit_balance(&credit).await, 997_000);
    // After 7 days, the host no longer knows the key, and would charge it again.
    let (before, after) = stored.split_once(r#""madeAt":""#).unwrap();
    let after = after.split_once('"').unwrap().1;
    fs::write(&record, format!(r#"{before}"madeAt":"2020-01-01T00:00:00.000Z"{after}"#)).unwrap();
    shell.run(&["call", "--resume", &id]).await.is(6).stderr_text("").warned(&format!(
        "unknown: Payment {id} is older than 7 days, so the host could charge it again.  Nothing was sent\n\
         look for the charge: tollhouse credits show   call and pay again: --again, without --resume"
    ));
    assert_eq!(host.credit_balance(&credit).await, 997_000);
    shell.run(&["call", &format!("{}/elsewhere", host.url), "--credit"]).await.is(2);
}

#[tokio::test]
async fn uncharged_part_of_a_maximum_is_not_counted() {
    let (host, shell) = at_a_shop().await;
    let mut tool = js("meter", 0.0, "export default async ({ input }, ctx) => { await ctx.charge('0.0123'); return 1; };");
    tool["maxPriceUsd"] = json!(0.05);
    host.publish(&tool).await;
    shell.run(&["call", "meter", "--max-usd", "0.04"]).await.is(4).stderr_text("");
    shell.run(&["call", "meter"]).await.is(0).stderr_text("1").warned("paid $0.0123 of up to $0.05 (simulated)  rcpt_…");
    assert_eq!(remaining(&shell).await, 987_700);
    let dry: Value = serde_json::from_str(&shell.run(&["--json", "call", "meter", "--dry-run"]).await.is(0).stdout).unwrap();
    assert_eq!((&dry["leftTodayUsd"], &dry["most"]), (&json!(4.9877), &json!(true)));
}
