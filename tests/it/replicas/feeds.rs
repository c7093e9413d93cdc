//! What happens at one host, told live at the other.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::Hosts;
use crate::harness::{Host, js, stream::Stream};

/// Says which call it is.
const SAYS: &str = "export default (req, ctx) => { ctx.log.info(`call ${req.input.n}`); return { n: req.input.n }; };";

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
async fn what_happens_at_either_host_is_followed_at_each_once_and_in_order_and_from_the_last_id_on() {
    let hosts = Hosts::start().await;
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &js("says", 0.0, SAYS)).await.is(200);
    let mut logs = Stream::open(hosts.follow(1, "logs")).await;
    let mut calls = Stream::open(hosts.follow(0, "calls")).await;
    let (mut lines, mut receipts) = (vec![], vec![]);
    for n in 0..10 {
        receipts.push(hosts.say(n as usize % 2, n).await);
    }
    for (n, receipt) in (0..10).zip(&receipts) {
        let line = logs.next().await.unwrap();
        assert_eq!((line.name.as_str(), &line.data["message"]), ("log", &json!(format!("call {n}"))));
        lines.push(line.id.unwrap());
        let call = calls.next().await.unwrap();
        assert_eq!(call.data["receiptId"], json!(receipt), "call {n}: {call:?}");
    }
    // Who comes back at the other host goes on there.
    drop(logs);
    hosts.say(0, 10).await;
    hosts.say(1, 11).await;
    let mut logs = Stream::open(hosts.follow(0, "logs").header("last-event-id", &lines[7])).await;
    for n in 8..12 {
        assert_eq!(logs.next().await.unwrap().data["message"], json!(format!("call {n}")));
    }
    hosts.say(1, 12).await;
    assert_eq!(logs.next().await.unwrap().data["message"], "call 12");
    drop((logs, calls));
    hosts.end().await;
}
