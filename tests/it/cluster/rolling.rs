//! Hosts that end and start again one after the other, as an upgrade has them do: who calls behind the balancer notices nothing.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};

use super::{Callers, Cluster, Paid, TAKEN_UP_WITHIN};
use crate::harness::{Answer, Payer, balancer::Balancer, eventually, stream::Stream};

const PAYERS: usize = 4;
/// What each payer has at first, in micro-dollars.
const FUNDS: u64 = 100_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_are_renewed_one_after_the_other_refuse_no_request() {
    let mut cluster = Cluster::start(Balancer::HOSTS.len()).await;
    let callers = cluster.behind_a_balancer(PAYERS, FUNDS).await;
    let Callers { payers, challenge, balancer, .. } = &callers;
    for name in Balancer::HOSTS {
        eventually("the balancer knows the host", TAKEN_UP_WITHIN, async || balancer.sends_to(name).then_some(())).await;
    }
    let heard = Arc::new(Mutex::new(Heard::default()));
    let following = tokio::spawn(follow(balancer.url.clone(), cluster.hosts[0].admin.clone(), Arc::clone(&heard)));
    eventually("the stream is open", TAKEN_UP_WITHIN, async || (heard.lock().unwrap().streams == 1).then_some(())).await;

    let over = AtomicBool::new(false);
    let paying = join_all(payers.iter().enumerate().map(|(at, payer)| pay_until(&over, payer, challenge, &balancer.url, at % 2 == 0)));
    let renewing = async {
        for (host, name) in cluster.hosts.iter_mut().zip(Balancer::HOSTS) {
            host.terminate();
            eventually("the host has ended", TAKEN_UP_WITHIN, async || (!host.lives()).then_some(())).await;
            assert!(!balancer.sends_to(name), "it ended before the balancer had noticed");
            host.restart().await;
            balancer.moved(name, &host.url);
            eventually("the balancer has it back", TAKEN_UP_WITHIN, async || balancer.sends_to(name).then_some(())).await;
        }
        over.store(true, Ordering::SeqCst);
    };
    let (paid, ()) = tokio::join!(paying, renewing);

    let paid: Vec<Vec<&Paid>> = paid.iter().map(|paid| paid.iter().collect()).collect();
    println!("{} hosts renewed, {} payments, none refused", cluster.hosts.len(), paid.concat().len());
    cluster.agrees_with(&callers, &paid, 0).await;
    let receipts: BTreeSet<_> = paid.iter().flatten().map(|paid| paid.answer.receipt_id()).collect();
    eventually("every call is heard of", TAKEN_UP_WITHIN, async || (heard.lock().unwrap().receipts == receipts).then_some(())).await;
    assert!(heard.lock().unwrap().streams > 1, "the one that it was told by has ended meanwhile");
    following.abort();
}

/// One payment after the other, each shown to the balancer once, over a connection that stays or over one of its own.
async fn pay_until(over: &AtomicBool, payer: &Payer, challenge: &Value, balancer: &str, stays: bool) -> Vec<Paid> {
    let client = Client::builder().no_proxy().pool_max_idle_per_host(usize::from(stays)).build().unwrap();
    let mut paid = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let (payment, input) = (payer.pay(challenge), json!({ "n": paid.len() }));
        let asked = client.post(format!("{balancer}/tools/pay")).header(payment.header, payment.encoded()).json(&input);
        let answer = Answer::read(asked.send().await.unwrap()).await.unwrap().is(200);
        paid.push(Paid { payment, input, answer });
    }
    paid
}

/// What who follows a tool's calls was told.
#[derive(Default)]
struct Heard {
    receipts: BTreeSet<String>,
    streams: usize,
}

/// Follows the tool's calls as browsers do: let go, it comes back when it was told to, and goes on behind the last it heard.
async fn follow(balancer: String, admin: String, heard: Arc<Mutex<Heard>>) {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut last = String::new();
    loop {
        let request = client.get(format!("{balancer}/ai/endpoints/pay/calls")).header("x-admin-token", &admin);
        let mut stream = Stream::open(request.header("last-event-id", &last)).await;
        heard.lock().unwrap().streams += 1;
        while let Some(told) = stream.next().await {
            heard.lock().unwrap().receipts.insert(told.data["receiptId"].as_str().unwrap().to_owned());
            last = told.id.unwrap();
        }
        let wait = stream.retry.expect("a host that lets go says when to come back");
        tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    }
}
