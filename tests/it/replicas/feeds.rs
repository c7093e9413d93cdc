//! Events of one host, received live from the other.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::Hosts;
use crate::{
    harness::{Host, eventually, js, stream::Stream},
    revenue::tool,
};

/// Maximum time until lines are stored, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Logs the number of the call.
const LOGGER: &str = "export default (req, ctx) => { ctx.log.info(`call ${req.input.n}`); return { n: req.input.n }; };";

/// Returns the number of the call in a line.
fn line_number(line: &Value) -> u64 {
    line["message"].as_str().and_then(|message| message.strip_prefix("call ")?.parse().ok()).unwrap()
}

impl Hosts {
    fn follow(&self, at: usize, what: &str) -> RequestBuilder {
        self.request(at, Method::GET, &format!("/ai/endpoints/says/{what}")).header("x-admin-token", &self.admin)
    }

    async fn log_line(&self, at: usize, n: u64) -> String {
        let request = self.request(at, Method::POST, "/tools/says").json(&json!({ "n": n }));
        Host::try_send(request).await.unwrap().is(200).receipt_id()
    }
}

#[tokio::test]
async fn events_of_both_hosts_are_followed_once_at_each() {
    let hosts = Hosts::start().await;
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("says", 0.0, LOGGER)).await.is(200);
    let mut logs = Stream::open(hosts.follow(1, "logs")).await;
    let mut calls = Stream::open(hosts.follow(0, "calls")).await;
    let (mut lines, mut receipts) = (vec![], vec![]);
    for n in 0..10 {
        receipts.push(hosts.log_line(n as usize % 2, n).await);
    }
    // A busy machine stores some lines late, so they arrive late and out of order.
    let mut received = vec![];
    for _ in 0..10 {
        let line = logs.next().await.unwrap();
        assert_eq!(line.name, "log");
        lines.push((line_number(&line.data), line.id.unwrap()));
        received.push(calls.next().await.unwrap().data["receiptId"].as_str().unwrap().to_owned());
    }
    lines.sort();
    receipts.sort();
    received.sort();
    assert_eq!(lines.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert_eq!(received, receipts);
    // A follower that reconnects to the other host continues after its last line, in the order of
    // storage.
    drop(logs);
    let stored = eventually("all lines are stored", TIMEOUT, async || {
        let page = hosts.manage(1, Method::GET, "/ai/endpoints/says/logs?limit=100", &json!({})).await.is(200).json();
        let stored: Vec<_> = page["logs"].as_array().unwrap().iter().rev().map(line_number).collect();
        (stored.len() == 10).then_some(stored)
    })
    .await;
    let (_, last) = lines.iter().find(|(n, _)| *n == stored[7]).unwrap();
    hosts.log_line(0, 10).await;
    hosts.log_line(1, 11).await;
    let mut logs = Stream::open(hosts.follow(0, "logs").header("last-event-id", last)).await;
    let mut more = vec![];
    for _ in 8..12 {
        more.push(line_number(&logs.next().await.unwrap().data));
    }
    more.sort_unstable();
    let mut behind = [&stored[8..], &[10, 11]].concat();
    behind.sort_unstable();
    assert_eq!(more, behind);
    hosts.log_line(1, 12).await;
    assert_eq!(line_number(&logs.next().await.unwrap().data), 12);
    drop((logs, calls));
    hosts.end().await;
}

#[tokio::test]
async fn stream_at_the_other_host_ends_with_its_key() {
    let hosts = Hosts::start().await;
    let minted = hosts.manage(0, Method::POST, "/ai/credits", &json!({ "amountUsd": 5, "label": "test" })).await.is(200).json();
    let register = hosts.request(0, Method::POST, "/ai/builders/register").header("x-developer-credit", minted["credit"].as_str().unwrap());
    let registered = Host::try_send(register.json(&json!({ "name": "Rotated" }))).await.unwrap().is(200).json();
    let key = registered["builderKey"].as_str().unwrap();
    let as_builder = |at: usize, method: Method, path: &str| hosts.request(at, method, path).header("x-builder-key", key);
    let create = as_builder(0, Method::POST, "/ai/endpoints/create").json(&tool("says", 0.0, LOGGER));
    Host::try_send(create).await.unwrap().is(200);
    let mut stream = Stream::open(as_builder(1, Method::GET, "/ai/endpoints/says/logs")).await;
    hosts.log_line(0, 1).await;
    assert_eq!(line_number(&stream.next().await.unwrap().data), 1);
    Host::try_send(as_builder(0, Method::POST, "/ai/builders/keys")).await.unwrap().is(200);
    hosts.log_line(1, 2).await;
    let last = stream.next().await.unwrap();
    assert_eq!((last.name.as_str(), &last.data["error"]["code"]), ("error", &json!("unauthorized")), "{last:?}");
    assert!(stream.next().await.is_none(), "nothing comes after the error");
    hosts.end().await;
}
