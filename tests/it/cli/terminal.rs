//! Commands at a terminal, which `script` of util-linux provides: they ask questions, hide secrets,
//! and use colors.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    folders::{edit, edit_thrice, started},
    harness::{Shell, call_output, fits},
    hostile::{hostile, is_harmless},
};
use crate::harness::{Host, js};

/// A command at a terminal.
struct Terminal {
    child: tokio::process::Child,
    seen: String,
}

impl Terminal {
    fn start(shell: &Shell, words: &[&str]) -> Self {
        Self::start_in(shell, shell.home(), words)
    }

    fn start_in(shell: &Shell, folder: &Path, words: &[&str]) -> Self {
        let command = shell.command(words);
        let quoted = |word: &std::ffi::OsStr| match word.to_str().unwrap() {
            // Words for the shell itself.
            word @ (";" | "echo" | "stty" | "ended $?") => word.to_owned(),
            word => format!("'{word}'"),
        };
        let line: Vec<_> = std::iter::once(command.as_std().get_program()).chain(command.as_std().get_args()).map(quoted).collect();
        let mut script = tokio::process::Command::new("script");
        script.args(["--quiet", "--return", "--flush", "--command", &line.join(" "), "/dev/null"]).current_dir(folder);
        script.env_clear().envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)))).env("SHELL", "/bin/bash");
        let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        Self { child, seen: String::new() }
    }

    /// Reads until this is shown.
    async fn shows(&mut self, requested: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let read = async {
            while !self.seen.contains(requested) {
                let mut bytes = [0; 1 << 10];
                let read @ 1.. = stdout.read(&mut bytes).await.unwrap() else { panic!("it ended: {}", self.seen) };
                self.seen += &String::from_utf8_lossy(&bytes[..read]);
            }
        };
        tokio::time::timeout(Duration::from_secs(30), read).await.unwrap_or_else(|_| panic!("no `{requested}`"));
    }

    /// Reads until this is shown again.
    async fn shows_next(&mut self, requested: &str) {
        let seen = std::mem::take(&mut self.seen);
        self.shows(requested).await;
        self.seen = seen + &self.seen;
    }

    async fn types(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits for the end. Returns the exit code and all output.
    async fn ended(mut self) -> (i32, String) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut rest = Vec::new();
        tokio::time::timeout(Duration::from_secs(30), stdout.read_to_end(&mut rest)).await.expect("it goes on").unwrap();
        let seen = self.seen + &String::from_utf8_lossy(&rest);
        (self.child.wait().await.unwrap().code().unwrap(), seen)
    }
}

#[tokio::test]
async fn terminal_question_needs_an_explicit_yes() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    let shell = Shell::admin(&host);
    for (answer, code, reported) in [
        ("\n", 1, "error: Canceled; nothing was changed"),
        ("nay\n", 1, "error: Canceled; nothing was changed"),
        ("y\n", 0, "deleted shout"),
    ] {
        let mut terminal = Terminal::start(&shell, &["delete", "shout"]);
        terminal.shows("[y/N] ").await;
        terminal.types(answer).await;
        let (ended, seen) = terminal.ended().await;
        assert!(ended == code && seen.contains(reported), "{answer:?}: {ended}: {seen}");
    }
    shell.run(&["show", "shout"]).await.is(1);
}

#[tokio::test]
async fn secret_is_typed_without_echo() {
    let host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default (req, ctx) => ctx.env.KEY === req.input.guess;")).await;
    let shell = Shell::new();
    let mut terminal = Terminal::start(&shell, &["login", "--url", &host.url, "--as", "admin"]);
    terminal.shows("developer credit for").await;
    terminal.shows(": ").await;
    terminal.types(&format!("{}\n", host.admin)).await;
    let (ended, seen) = terminal.ended().await;
    assert!(ended == 0 && seen.contains("for profile default") && !seen.contains(&host.admin), "{ended}: {seen}");
    let mut terminal = Terminal::start(&shell, &["secrets", "set", "KEY", "--slug", "keeper"]);
    terminal.shows("value of KEY: ").await;
    terminal.types("s3cret-value\n").await;
    let (ended, seen) = terminal.ended().await;
    assert!(ended == 0 && seen.contains("set KEY for keeper") && !seen.contains("s3cret"), "{ended}: {seen}");
    assert_eq!(host.call("keeper", &json!({ "guess": "s3cret-value" })).await.is(200).json(), true);
}

/// Ctrl-C at a hidden question restores the terminal, so that input is visible again.
#[tokio::test]
async fn ctrl_c_at_a_hidden_question_leaves_the_terminal_as_it_was() {
    let host = Host::start().await;
    let shell = Shell::new();
    let mut terminal = Terminal::start(&shell, &["login", "--url", &host.url, ";", "echo", "ended $?", ";", "stty"]);
    terminal.shows("developer credit for").await;
    terminal.types("half\u{3}").await;
    let (_, seen) = terminal.ended().await;
    assert!(seen.contains("ended 130") && !seen.contains("half") && !seen.contains("-echo ") && !seen.contains("-isig"), "{seen}");
    assert!(!shell.config("credentials.toml").exists());
}

#[tokio::test]
async fn colors_need_a_terminal_and_no_setting_against_them() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => { throw new Error('no'); };")).await;
    host.call("shout", &json!({})).await;
    call_output(&Shell::admin(&host), "shout").await;
    for (name, value, are_there) in [("TERM", "xterm", true), ("TERM", "dumb", false), ("NO_COLOR", "1", false)] {
        let shell = Shell::admin(&host).env("TERM", "xterm").env(name, value);
        let (ended, seen) = Terminal::start(&shell, &["calls", "shout"]).ended().await;
        assert!(ended == 0 && seen.contains("handler_failed"), "{ended}: {seen}");
        assert_eq!(seen.contains("\u{1b}[31m"), are_there, "{name}={value}: {seen:?}");
        let (_, seen) = Terminal::start(&shell, &["calls", "shout", "--json"]).ended().await;
        assert!(!seen.contains('\u{1b}'), "{seen:?}");
    }
}

/// Text of the host is cleaned before it is shown. Colors come from the command itself.
#[tokio::test]
async fn a_terminal_follows_colors_of_ours_and_nothing_of_a_host() {
    let shell = Shell::at(&hostile().await).env("TOLLHOUSE_ADMIN_TOKEN", "t").env("TERM", "xterm");
    for (words, color) in [
        (&["calls", "anything"][..], "\u{1b}[31m"),
        (&["logs", "anything"], "\u{1b}[31m"),
        (&["show", "anything", "--source"], ""),
        (&["pause", "anything"], ""),
        (&["host", "ledger"], ""),
    ] {
        let (ended, seen) = Terminal::start(&shell, words).ended().await;
        assert!(ended == 0 && seen.contains(color) && !seen.contains("U+001B[0m"), "{words:?}: {ended}: {seen:?}");
        let reported = [color, "\u{1b}[0m"].iter().fold(lines(&seen), |reported, ours| reported.replace(ours, ""));
        assert!(is_harmless(&reported), "{words:?}: {seen:?}");
    }
}

/// Returns the lines of a terminal as they were written.
fn lines(seen: &str) -> String {
    seen.replace('\r', "")
}

#[tokio::test]
async fn dev_at_a_terminal_shows_what_happens_and_follows_its_keys() {
    let shell = Shell::new().env("NO_COLOR", "1");
    let folder = started(&shell, "shout").await;
    edit(&folder, "tool.json", "{ \"type\": \"string\" } },\n    \"required\": [\"text\"]", "{ \"type\": \"string\" } }");
    let dev = ["dev", "--port", "0", ";", "echo", "ended $?", ";", "stty"];
    let mut terminal = Terminal::start_in(&shell, &folder, &dev);
    terminal.shows("cases 3/3").await;

    // The answer and the log lines of the call can come in any order.
    terminal.types("c").await;
    terminal.shows("answer of \"shouts\"  200  {\"text\":\"HI\"}").await;
    terminal.shows("{\"length\":2}").await;
    terminal.types("xr").await;
    terminal.shows_next("cases 3/3").await;
    terminal.types("s").await;
    terminal.shows("the tool has no schedule").await;
    terminal.types("o").await;
    // There is no browser here.
    terminal.shows("/dashboard/sign-in").await;
    shell.run_in(&folder, &["call", "shout", "--json", "{\"text\":\"hey\"}"]).await.is(0);
    terminal.shows("{\"length\":3}").await;
    edit(&folder, "handler.ts", "text: text.toUpperCase()", "text: req.input.txt");
    terminal.shows("got nothing").await;
    terminal.types("q").await;
    let (ended, seen) = terminal.ended().await;
    let seen = lines(&seen);
    assert_eq!(ended, 0, "{seen}");
    // Character for character. If the compiler takes more than a second, its output is in separate
    // lines.
    let head = "shout  http://127.0.0.1:…/tools/shout  $0.01, play money   edit http://127.0.0.1:…/dashboard/tools/shout/edit
[c] call again  [s] schedule  [r] cases  [o] open  [q] quit
…:…:…  published … in … ms…
…";
    assert!(fits(&seen, head), "{seen}");
    for reported in [
        &["…:…:…  published … in … ms   types ok   cases 3/3", "…:…:…  published … in … ms\n          types ok   cases 3/3"][..],
        &["…:…:…  POST 200  … ms  cpu … ms  free for the owner  rcpt_…"],
        &["…:…:…    info  shouting  {\"length\":2}"],
        &["          types ok   cases 3/3"],
        &["          http://127.0.0.1:…/dashboard/sign-in…"],
        &["…:…:…  POST 200  … ms  cpu … ms  $0.01 settled (simulated)  rcpt_…\n…:…:…    info  shouting  {\"length\":3}"],
        &["…:…:…  types   handler.ts:4:28  Property 'txt' does not exist on type '{ text: string; }'. Did you mean 'text'?"],
        &[
            "…:…:…  published … in … ms   cases 2/3   ✗ \"shouts\": /text expected \"HI\", got nothing",
            "          cases 2/3   ✗ \"shouts\": /text expected \"HI\", got nothing",
        ],
    ] {
        assert!(reported.iter().any(|reported| fits(&seen, &format!("…\n{reported}\n…"))), "no {reported:?} in\n{seen}");
    }
    // The terminal is restored, and the typed keys are not shown.
    assert!(seen.contains("ended 0") && !seen.contains("-icanon") && !seen.contains("-echo "), "{seen}");
    assert!(!seen.lines().any(|line| ["c", "x", "xr", "r", "o", "q"].contains(&line)), "{seen}");
}

#[tokio::test]
async fn ctrl_c_ends_dev_and_leaves_the_terminal_as_it_was() {
    let shell = Shell::new();
    let folder = started(&shell, "shout").await;
    let mut terminal = Terminal::start_in(&shell, &folder, &["dev", "--port", "0", "--no-types", ";", "echo", "ended $?", ";", "stty"]);
    terminal.shows("cases 3/3").await;
    terminal.types("\u{3}").await;
    let (_, seen) = terminal.ended().await;
    assert!(seen.contains("ended 0") && !seen.contains("-icanon") && !seen.contains("-echo "), "{seen}");
    assert!(!folder.join(".tollhouse/dev.json").exists());
}

#[tokio::test]
async fn interactive_deploy_asks_for_the_attestation() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let shell = Shell::new().env("NO_COLOR", "1");
    shell.given(&key, &["login", "--url", &host.url, "--profile", "prod"]).await.is(0);
    let folder = started(&shell, "shout").await;
    let question = "publish, and attest that the content is yours to publish, legal, and has no secrets or private data? [y/N] ";
    let deploy = async |answer: &str| {
        let mut terminal = Terminal::start_in(&shell, &folder, &["deploy", "--profile", "prod"]);
        terminal.shows(question).await;
        terminal.types(answer).await;
        let (ended, seen) = terminal.ended().await;
        (ended, lines(&seen))
    };
    let (ended, seen) = deploy("\n").await;
    let head = format!("shout → {}  (profile prod, new)\n", host.url);
    assert!(ended == 1 && seen.starts_with(&head) && seen.ends_with("error: Nothing was published\n"), "{ended}: {seen}");
    host.get("/ai/endpoints/shout").await.fails(404, "unknown_endpoint", "caller");
    assert_eq!(deploy("y\n").await.0, 0);
    edit_thrice(&folder);
    let (ended, seen) = deploy("y\n").await;
    let expected = format!(
        "shout → {}  (profile prod, yours, revision 1)
  handler       … → …  +1 −1
  priceUsd      0.01 → 0.02          you get 0.019 a call
  capabilities  + httpGetJson api.example.com   needs approval; until then the tool works without it
…
{question}y
published …, revision 2, in … ms   waiting for an admin: httpGetJson
{}/tools/shout",
        host.url, host.url
    );
    assert!(ended == 0 && fits(&seen, &expected), "{ended}: {seen}");
}

#[tokio::test]
async fn dev_at_a_terminal_runs_a_schedule_on_a_key() {
    let shell = Shell::new().env("NO_COLOR", "1");
    let folder = started(&shell, "shout").await;
    edit(&folder, "tool.json", "\"priceUsd\"", "\"schedules\": [\"0 0 1 1 *\"],\n  \"priceUsd\"");
    let handler = folder.join("handler.ts");
    let source = std::fs::read_to_string(&handler).unwrap();
    let scheduled = "export const scheduled: ScheduledHandler = (event, ctx) => { ctx.log.info('ticking', { cron: event.cron }); };";
    std::fs::write(&handler, format!("{source}\n{scheduled}\n")).unwrap();
    let mut terminal = Terminal::start_in(&shell, &folder, &["dev", "--port", "0"]);
    terminal.shows("cases 3/3").await;
    terminal.types("s").await;
    // The call and its log line can come in any order.
    terminal.shows("schedule 0 0 1 1 *").await;
    terminal.types("q").await;
    let (ended, seen) = terminal.ended().await;
    assert_eq!(ended, 0, "{seen}");
}
