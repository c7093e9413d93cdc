//! What happens at one host, told live at the other.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::Hosts;
use crate::harness::{
    Host, js,
    stream::{Stream, Told},
};

/// Says which call it is.
const SAYS: &str = "export default (req, ctx) => { ctx.log.info(`call ${req.input.n}`); return { n: req.input.n }; };";

/// Which call a line is of.
fn said(line: &Told) -> u64 {
    line.data["message"].as_str().and_then(|said| said.strip_prefix("call ")?.parse().ok()).unwrap()
}

impl Hosts {
    fn follow(&self, at: usize, what: &str) -> RequestBuilder {
        self.request(at, Method::GET, &format!("/ai/endpoints/says/{what}")).header("x-admin-token", &self.admin)
    }

    async fn say(&self, at: usize, n: u64) -> String {
        let request = self.request(at, Method::POST, "/tools/says").json(&json!({ "n": n }));
        Host::try_send(request).await.unwrap().is(200).receipt_id()
    }
}

#[tokio::test]
async fn what_happens_at_either_host_is_followed_at_each_once_and_from_the_last_id_on() {
    let hosts = Hosts::start().await;
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("says", 0.0, SAYS)).await.is(200);
    let mut logs = Stream::open(hosts.follow(1, "logs")).await;
    let mut calls = Stream::open(hosts.follow(0, "calls")).await;
    let (mut lines, mut receipts) = (vec![], vec![]);
    for n in 0..10 {
        receipts.push(hosts.say(n as usize % 2, n).await);
    }
    // What a busy machine stores late is told late, and out of its turn.
    let mut heard = vec![];
    for _ in 0..10 {
        let line = logs.next().await.unwrap();
        assert_eq!(line.name, "log");
        lines.push((said(&line), line.id.unwrap()));
        heard.push(calls.next().await.unwrap().data["receiptId"].as_str().unwrap().to_owned());
    }
    lines.sort();
    receipts.sort();
    heard.sort();
    assert_eq!(lines.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert_eq!(heard, receipts);
    // Who comes back at the other host goes on there.
    drop(logs);
    hosts.say(0, 10).await;
    hosts.say(1, 11).await;
    let mut logs = Stream::open(hosts.follow(0, "logs").header("last-event-id", &lines[7].1)).await;
    let mut more = vec![];
    for _ in 8..12 {
        more.push(said(&logs.next().await.unwrap()));
    }
    more.sort_unstable();
    assert_eq!(more, [8, 9, 10, 11]);
    hosts.say(1, 12).await;
    assert_eq!(said(&logs.next().await.unwrap()), 12);
    drop((logs, calls));
    hosts.end().await;
}
