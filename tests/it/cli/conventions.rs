//! General rules for commands: they never wait for input without a terminal, take no secret as an
//! argument, end silently when the reader goes, and show help quickly.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use super::harness::Shell;
use crate::harness::{Host, js};

/// Returns all commands from the table of the documents, with their arguments.
async fn commands(shell: &Shell) -> Vec<String> {
    let table = shell.run(&["man", "--table"]).await.is(0).stdout;
    let names = table.lines().skip(2).filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    names.map(|name| name.split(" [").next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn no_command_waits_for_input_without_a_terminal() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    let shell = Shell::admin(&host).env("TOLLHOUSE_CREDIT", &host.mint(1.0).await);
    let all = commands(&shell).await;
    assert!(all.len() > 50, "{all:?}");
    for command in all {
        // These commands run until they are stopped, and are hosts themselves.
        if ["serve", "dev"].contains(&command.split(' ').next().unwrap()) {
            continue;
        }
        // A value for each required argument.
        let words: Vec<_> = command
            .split(' ')
            .map(|word| if word.chars().all(|char| char.is_uppercase() || "_=".contains(char)) { "shout" } else { word })
            .collect();
        let ran = shell.run(&words).await;
        assert!(ran.status <= 6, "{words:?}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{words:?}: {ran:?}");
    }
}

#[tokio::test]
async fn each_prompt_has_a_flag_that_is_named_where_nobody_can_be_asked() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    let shell = Shell::admin(&host);
    for (words, flag) in [
        (&["delete", "shout"][..], "--yes"),
        (&["reviews", "approve", "shout"], "--yes"),
        (&["policy", "edit", "requireReview=true"], "--yes"),
        (&["builders", "new-key"], "--yes"),
        (&["builders", "suspend", "bld_1"], "--yes"),
        (&["builders", "restore", "bld_1"], "--yes"),
        (&["builders", "grant", "bld_1"], "--yes"),
        (&["builders", "revoke", "bld_1"], "--yes"),
        (&["builders", "tier", "bld_1", "jitless"], "--yes"),
        (&["credits", "revoke", "crd_1"], "--yes"),
        (&["credits", "restore", "crd_1"], "--yes"),
        (&["payouts", "approve", "po_1"], "--yes"),
        (&["payouts", "paid", "po_1", "--transaction", "0x1"], "--yes"),
        (&["payouts", "failed", "po_1"], "--yes"),
        (&["refund", "rcpt_1"], "--yes"),
        (&["settlements", "resolve", "pmt_1", "--unpaid"], "--yes"),
        (&["secrets", "set", "A", "--slug", "shout"], "--env-file"),
        (&["login"], "--credential-file"),
        (&["register"], "NAME"),
    ] {
        let ran = shell.run(words).await.is(2).stderr_text("");
        assert!(ran.stderr.contains(flag), "{ran:?}");
    }
}

/// A secret in an argument is visible in the list of processes and in the history of the shell.
#[tokio::test]
async fn no_command_that_asks_a_host_takes_a_secret_as_an_argument() {
    let shell = Shell::new();
    let table = shell.run(&["man", "--table"]).await.is(0).stdout;
    // For these commands, `operated.rs` tests that they refuse secrets.
    let of_hosts = ["serve", "doctor", "secrets rotate", "backup", "restore", "store", "ledger"];
    for row in table.lines().skip(2).filter(|row| !of_hosts.iter().any(|name| row.starts_with(&format!("| `{name}")))) {
        let flags = row.split('`').filter_map(|piece| piece.strip_prefix("--"));
        for flag in flags {
            let words: Vec<_> = flag.split('-').collect();
            let holds = |word: &str| words.contains(&word);
            let is_secret = holds("key") || holds("token") || holds("secret") || holds("password") || holds("credential") || holds("value");
            let is_known = holds("file") || ["keep"].contains(&flag);
            assert!(!is_secret || is_known, "`--{flag}`: {row}");
        }
    }
    let global = shell.run(&["list", "--help"]).await.is(0).stdout;
    for secret in ["TOLLHOUSE_ADMIN_TOKEN", "TOLLHOUSE_BUILDER_KEY", "TOLLHOUSE_CREDIT", "--admin-token", "--builder-key", "--credit"] {
        assert!(!global.contains(secret), "{secret}: {global}");
    }
}

#[tokio::test]
async fn reader_who_goes_is_no_error() {
    let host = Host::builder().with_catalogue().start().await;
    let shell = Shell::at(&host.url);
    for words in [&["list"][..], &["list", "--json"], &["man", "--table"], &["completions", "bash"]] {
        let mut child = shell.command(words).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""), "{words:?}");
    }
}

#[tokio::test]
async fn colors_are_for_terminals_alone() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => { throw new Error('no'); };")).await;
    host.call("shout", &serde_json::json!({})).await;
    let shell = Shell::admin(&host);
    super::harness::call_output(&shell, "shout").await;
    let calls = shell.run(&["calls", "shout"]).await.is(0);
    assert!(calls.stdout.contains("handler_failed") && !calls.stdout.contains('\u{1b}'), "{calls:?}");
}

#[tokio::test]
async fn help_is_reported_at_once() {
    let shell = Shell::new();
    let mut quickest = Duration::MAX;
    for _ in 0..20 {
        let started = Instant::now();
        let ended = shell.command(&["--help"]).stdout(Stdio::null()).status().await.unwrap();
        assert!(ended.success());
        quickest = quickest.min(started.elapsed());
    }
    println!("--help took {quickest:?}");
    // A debug build is several times slower than the released one.
    let max = if cfg!(debug_assertions) { 100 } else { 20 };
    assert!(quickest <= Duration::from_millis(max), "{quickest:?}");
}

#[tokio::test]
async fn manuals_and_completions_are_of_every_command() {
    let shell = Shell::new();
    let folder = shell.home().join("man");
    shell.run(&["man", &folder.display().to_string()]).await.is(0).stderr_text("");
    let pages: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    let all = commands(&shell).await;
    for command in &all {
        let words: Vec<_> = command.split(' ').filter(|word| !word.chars().any(char::is_uppercase)).collect();
        let page = format!("tollhouse-{}.1", words.join("-"));
        assert!(pages.contains(&page), "{page} of {pages:?}");
    }
    for shell_name in ["bash", "zsh", "fish"] {
        let script = shell.run(&["completions", shell_name]).await.is(0).stdout;
        assert!(["secrets", "payouts", "rollback"].iter().all(|name| script.contains(name)), "{shell_name}");
    }
    let checked = tokio::process::Command::new("bash").args(["-n"]).stdin(Stdio::piped()).spawn();
    if let Ok(mut bash) = checked {
        let script = shell.run(&["completions", "bash"]).await.stdout;
        tokio::io::AsyncWriteExt::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).await.unwrap();
        assert!(bash.wait().await.unwrap().success());
    }
}
