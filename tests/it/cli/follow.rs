//! Following logs and calls: new entries appear immediately, and no entry is lost when the
//! connection breaks.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::harness::{Shell, Wire};
use crate::harness::{Host, js, signal};

const LOGGER: &str =
    "export default (req, ctx) => { const { level, message, fields } = req.input; ctx.log[level](message, fields); return 1; };";

async fn log(host: &Host, level: &str, message: &str, fields: Value) {
    host.call("logger", &json!({ "level": level, "message": message, "fields": fields })).await.is(200);
}

/// A running command, read line by line.
struct RunningCommand {
    child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    beside: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
}

impl RunningCommand {
    fn start(shell: &Shell, words: &[&str]) -> Self {
        let mut child = shell.command(words).stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let alongside = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines, beside: alongside }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(30), self.lines.next_line()).await;
        line.expect("nothing more is printed").unwrap().expect("it ended")
    }

    async fn stderr(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(30), self.beside.next_line()).await;
        line.expect("nothing more is printed on stderr").unwrap().expect("it ended")
    }

    /// Sends Ctrl-C.
    async fn interrupt(mut self) -> i32 {
        signal(i32::try_from(self.child.id().unwrap()).unwrap(), rustix::process::Signal::INT);
        tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await.unwrap().unwrap().code().unwrap()
    }
}

#[tokio::test]
async fn log_is_paged_filtered_and_reported_oldest_first() {
    let host = Host::start().await;
    host.publish(&js("logger", 0.0, LOGGER)).await;
    log(&host, "info", "shouting", json!({ "length": 2 })).await;
    log(&host, "error", "upstream answered 503", json!({ "host": "api.example.com" })).await;
    let shell = Shell::admin(&host);
    let two = "…  info  call_…  shouting  {\"length\":2}\n…  error  call_…  upstream answered 503  {\"host\":\"api.example.com\"}";
    let log = ["logs", "logger", "--since", "1h"];
    crate::harness::eventually("both lines are stored", Duration::from_secs(10), async || {
        (shell.json(&log).await["logs"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    shell.run(&log).await.is(0).stderr_text(two).warned("");
    shell.run(&["logs", "logger", "--level", "warn"]).await.is(0).stderr_text("…  error  call_…  upstream …");
    let found = shell.run(&["logs", "logger", "--grep", "EXAMPLE"]).await.is(0);
    found.stderr_text("…  error  call_…  upstream …").warned("1 of 2 match the pattern");
    shell.run(&["logs", "logger", "--limit", "1"]).await.is(0).stderr_text("…error…").warned("more results: --cursor …");
    shell.run(&["logs", "logger", "--grep", "("]).await.is(2);
    shell.run(&["logs", "logger", "--since", "soon"]).await.is(1).warned("error: …time must be…\n…(invalid_request, req_…)");
}

#[tokio::test]
async fn followed_log_resumes_where_the_connection_broke_off() {
    let host = Host::start().await;
    host.publish(&js("logger", 0.0, LOGGER)).await;
    let wire = Wire::to(&host.url).await;
    let shell = Shell::at(&wire.url).env("TOLLHOUSE_ADMIN_TOKEN", &host.admin);
    let mut following = RunningCommand::start(&shell, &["logs", "logger", "--follow", "--level", "warn", "--since", "1h"]);
    log(&host, "info", "unheard", json!({})).await;
    log(&host, "error", "upstream answered 503", json!({ "host": "api.example.com" })).await;
    let line = following.line().await;
    assert!(line.contains("  error  call_") && line.ends_with("  upstream answered 503  {\"host\":\"api.example.com\"}"), "{line}");
    for round in 0..2 {
        wire.cut();
        log(&host, "warn", &format!("missed {round}"), json!({})).await;
        wire.restore();
        let alongside = following.stderr().await;
        let reported =
            alongside.strip_prefix("          — reconnected after ").and_then(|reported| reported.strip_suffix(" s, nothing missed —"));
        assert!(reported.is_some_and(|seconds| seconds.parse::<f64>().is_ok()), "{alongside}");
        let line = following.line().await;
        assert!(line.contains(&format!("  missed {round}")), "{line}");
    }
    assert!(wire.sent().to_lowercase().contains("\r\nlast-event-id: "), "it came back by its place");
    log(&host, "error", "still there", json!({})).await;
    assert!(following.line().await.contains("still there"));
    assert_eq!(following.interrupt().await, 0);
}

#[tokio::test]
async fn followed_calls_and_events_are_an_object_a_line() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    host.as_builder(&key, reqwest::Method::POST, "/ai/endpoints/create", &js("logger", 0.0, LOGGER)).await.is(200);
    let shell = Shell::builder(&host, &key);
    let mut calls = RunningCommand::start(&shell, &["calls", "logger", "-f", "--json", "--since", "1h"]);
    let mut events = RunningCommand::start(&shell, &["events", "--follow", "--json", "--since", "1h", "--kind", "endpoint.created"]);
    for n in 0..3 {
        log(&host, "info", &format!("call {n}"), json!({})).await;
    }
    for _ in 0..3 {
        let call: Value = serde_json::from_str(&calls.line().await).unwrap();
        assert_eq!((&call["outcome"], &call["charged"]), (&json!("succeeded"), &json!(false)), "{call}");
    }
    let event: Value = serde_json::from_str(&events.line().await).unwrap();
    assert_eq!(event["kind"], "endpoint.created");
    assert_eq!((calls.interrupt().await, events.interrupt().await), (0, 0));
    let ended = shell.run(&["calls", "logger"]).await.is(0);
    assert!(ended.stdout.lines().count() == 3 && ended.stdout.contains("succeeded  call_"), "{ended:?}");
}

#[tokio::test]
async fn unfollowable_log_is_rejected_at_once() {
    let host = Host::start().await;
    let shell = Shell::admin(&host);
    shell.run(&["logs", "nothing", "--follow"]).await.is(1).warned("error: …\nhint: find it: …\n(unknown_endpoint, req_…)");
    shell.run(&["events", "--follow", "--until", "1h"]).await.is(2);
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    shell.run(&["logs", "nothing", "--follow", "--url", &format!("http://{nobody}")]).await.is(5);
}

#[tokio::test]
async fn reader_who_has_enough_ends_what_is_followed() {
    let host = Host::start().await;
    host.publish(&js("logger", 0.0, LOGGER)).await;
    let shell = Shell::admin(&host);
    let mut following = RunningCommand::start(&shell, &["logs", "logger", "--follow", "--since", "1h"]);
    log(&host, "info", "one", json!({})).await;
    assert!(following.line().await.contains("one"));
    let RunningCommand { mut child, lines, beside: mut alongside } = following;
    // Nothing else happens. It has nothing to write, so it must notice the closed output in another
    // way.
    drop(lines);
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait()).await.expect("it goes on for nobody").unwrap();
    assert_eq!((ended.code(), alongside.next_line().await.unwrap()), (Some(0), None));
}
