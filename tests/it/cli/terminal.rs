//! At a terminal, by `script` of util-linux, which has one for the command: it asks, shows nothing secret, and has colours.

use std::{process::Stdio, time::Duration};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::harness::{Shell, told_of_a_call};
use crate::harness::{Host, js};

/// A command at a terminal.
struct Terminal {
    child: tokio::process::Child,
    seen: String,
}

impl Terminal {
    fn start(shell: &Shell, words: &[&str]) -> Self {
        let command = shell.command(words);
        let quoted = |word: &std::ffi::OsStr| match word.to_str().unwrap() {
            // What the shell is to do besides.
            word @ (";" | "echo" | "stty" | "ended $?") => word.to_owned(),
            word => format!("'{word}'"),
        };
        let line: Vec<_> = std::iter::once(command.as_std().get_program()).chain(command.as_std().get_args()).map(quoted).collect();
        let mut script = tokio::process::Command::new("script");
        script.args(["--quiet", "--return", "--flush", "--command", &line.join(" "), "/dev/null"]).current_dir(shell.home());
        script.env_clear().envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)))).env("SHELL", "/bin/sh");
        let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        Self { child, seen: String::new() }
    }

    /// Reads on until this was shown.
    async fn shows(&mut self, wanted: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let read = async {
            while !self.seen.contains(wanted) {
                let mut bytes = [0; 1 << 10];
                let read @ 1.. = stdout.read(&mut bytes).await.unwrap() else { panic!("it ended: {}", self.seen) };
                self.seen += &String::from_utf8_lossy(&bytes[..read]);
            }
        };
        tokio::time::timeout(Duration::from_secs(30), read).await.unwrap_or_else(|_| panic!("no `{wanted}`"));
    }

    async fn types(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// Its code, and all that was seen.
    async fn ended(mut self) -> (i32, String) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut rest = Vec::new();
        tokio::time::timeout(Duration::from_secs(30), stdout.read_to_end(&mut rest)).await.expect("it goes on").unwrap();
        let seen = self.seen + &String::from_utf8_lossy(&rest);
        (self.child.wait().await.unwrap().code().unwrap(), seen)
    }
}

#[tokio::test]
async fn at_a_terminal_it_asks_and_only_a_yes_is_one() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => 1;")).await;
    let shell = Shell::admin(&host);
    for (answer, code, told) in
        [("\n", 1, "error: nothing was done"), ("nay\n", 1, "error: nothing was done"), ("y\n", 0, "shout is deleted")]
    {
        let mut terminal = Terminal::start(&shell, &["delete", "shout"]);
        terminal.shows("[y/N] ").await;
        terminal.types(answer).await;
        let (ended, seen) = terminal.ended().await;
        assert!(ended == code && seen.contains(told), "{answer:?}: {ended}: {seen}");
    }
    shell.run(&["show", "shout"]).await.is(1);
}

#[tokio::test]
async fn what_is_secret_is_typed_without_being_shown() {
    let host = Host::start().await;
    host.publish(&js("keeper", 0.0, "export default (req, ctx) => ctx.env.KEY === req.input.guess;")).await;
    let shell = Shell::new();
    let mut terminal = Terminal::start(&shell, &["login", "--url", &host.url, "--as", "admin"]);
    terminal.shows("developer credit for").await;
    terminal.shows(": ").await;
    terminal.types(&format!("{}\n", host.admin)).await;
    let (ended, seen) = terminal.ended().await;
    assert!(ended == 0 && seen.contains("is kept for profile default") && !seen.contains(&host.admin), "{ended}: {seen}");
    let mut terminal = Terminal::start(&shell, &["secrets", "set", "KEY", "--slug", "keeper"]);
    terminal.shows("value of KEY: ").await;
    terminal.types("s3cret-value\n").await;
    let (ended, seen) = terminal.ended().await;
    assert!(ended == 0 && seen.contains("KEY is set for keeper") && !seen.contains("s3cret"), "{ended}: {seen}");
    assert_eq!(host.call("keeper", &json!({ "guess": "s3cret-value" })).await.is(200).json(), true);
}

/// Whoever types Ctrl-C at a hidden question has a terminal that shows again what is typed.
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
async fn colours_are_where_a_terminal_is_and_nobody_forbids_them() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.0, "export default () => { throw new Error('no'); };")).await;
    host.call("shout", &json!({})).await;
    told_of_a_call(&Shell::admin(&host), "shout").await;
    for (name, value, are_there) in [("TERM", "xterm", true), ("TERM", "dumb", false), ("NO_COLOR", "1", false)] {
        let shell = Shell::admin(&host).env("TERM", "xterm").env(name, value);
        let (ended, seen) = Terminal::start(&shell, &["calls", "shout"]).ended().await;
        assert!(ended == 0 && seen.contains("handler_failed"), "{ended}: {seen}");
        assert_eq!(seen.contains("\u{1b}[31m"), are_there, "{name}={value}: {seen:?}");
        let (_, seen) = Terminal::start(&shell, &["calls", "shout", "--json"]).ended().await;
        assert!(!seen.contains('\u{1b}'), "{seen:?}");
    }
}
