//! What one address may use of the processor while others want it.

use std::{net::Ipv4Addr, thread, time::Duration};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::harness::{Answer, Host, js};

const COMPUTES: &str = "export default (req) => {
    let value = 1;
    for (let turn = 0; turn < req.input.turns; turn++) value = (value * 31 + turn) % 1000003;
    return { value };
};";

#[tokio::test]
async fn one_address_cannot_have_the_processor_for_itself_while_others_want_it() {
    let host = Host::builder().flag("--address-cpu-percent", 1).start().await;
    host.publish(&js("computes", 0.0, COMPUTES)).await;
    let elsewhere = Client::builder().no_proxy().local_address(Some(Ipv4Addr::new(127, 0, 0, 2).into())).build().unwrap();
    let computes = || elsewhere.post(format!("{}/tools/computes", host.url)).json(&json!({ "turns": 30_000_000 }));
    let until = Instant::now() + Duration::from_secs(6);

    // More of it than the machine has cores.
    let takes_all = async || {
        let mut refused: Option<Answer> = None;
        while Instant::now() < until {
            let answer = host.send(computes()).await;
            if answer.status == 429 {
                refused = Some(answer);
                sleep(Duration::from_millis(100)).await;
            }
        }
        refused
    };
    let others = async {
        while Instant::now() < until {
            host.call("computes", &json!({ "turns": 1 })).await.is(200);
            sleep(Duration::from_millis(50)).await;
        }
    };
    let connections = thread::available_parallelism().unwrap().get() * 2;
    let (refused, ()) = tokio::join!(join_all((0..connections).map(|_| takes_all())), others);
    let refused = refused.into_iter().flatten().next().expect("nobody was refused who had the processor for itself");
    refused.fails(429, "rate_limited", "caller");
    assert!(refused.has("retry-after").parse::<u64>().unwrap() > 0);

    // Nobody else asks any more.
    sleep(Duration::from_millis(1_100)).await;
    host.send(computes()).await.is(200);
}
