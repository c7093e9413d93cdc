//! Hosts that are restarted one after the other, as in an upgrade. Callers behind the load balancer
//! notice nothing.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::Value;

use super::{Callers, Cluster, Paid, TAKEN_UP_WITHIN, nth_input};
use crate::harness::{Answer, Host, balancer::Balancer, eventually, stream::Stream};

const PAYERS: usize = 4;
/// Initial balance of each payer, in micro-dollars.
const FUNDS: u64 = 100_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_are_renewed_one_after_the_other_refuse_no_request() {
    let mut cluster = Cluster::of(Host::builder().earlier(), Balancer::HOSTS.len()).await;
    let callers = cluster.behind_a_balancer(PAYERS, FUNDS).await;
    let balancer = &callers.balancer;
    let before = versions(&cluster.hosts).await;
    for name in Balancer::HOSTS {
        eventually("the balancer knows the host", TAKEN_UP_WITHIN, async || balancer.sends_to(name).then_some(())).await;
    }
    let received = Arc::new(Mutex::new(FollowedEvents::default()));
    let following = tokio::spawn(follow(balancer.url.clone(), cluster.hosts[0].admin.clone(), Arc::clone(&received)));
    eventually("the stream is open", TAKEN_UP_WITHIN, async || (received.lock().unwrap().streams == 1).then_some(())).await;

    let over = AtomicBool::new(false);
    let paying = join_all((0..PAYERS).map(|payer| pay_until(&over, &callers, payer)));
    let renewing = async {
        for (host, name) in cluster.hosts.iter_mut().zip(Balancer::HOSTS) {
            host.terminate();
            eventually("the host has ended", TAKEN_UP_WITHIN, async || (!host.lives()).then_some(())).await;
            assert!(!balancer.sends_to(name), "it ended before the balancer noticed");
            host.upgrade();
            host.restart().await;
            balancer.moved(name, &host.url);
            eventually("the balancer has it back", TAKEN_UP_WITHIN, async || balancer.sends_to(name).then_some(())).await;
        }
        over.store(true, Ordering::SeqCst);
    };
    let (paid, ()) = tokio::join!(paying, renewing);

    let paid: Vec<Vec<&Paid>> = paid.iter().map(|paid| paid.iter().collect()).collect();
    let after = versions(&cluster.hosts).await;
    println!("{} hosts renewed, from {before} to {after}, {} payments, none refused", cluster.hosts.len(), paid.concat().len());
    let receipts: BTreeSet<_> = paid.iter().flatten().map(|paid| paid.answer.receipt_id()).collect();
    eventually("every call is received", TAKEN_UP_WITHIN, async || (received.lock().unwrap().receipts == receipts).then_some(())).await;
    assert!(received.lock().unwrap().streams > 1, "the host that sent it has ended");
    following.abort();
    cluster.agrees_with(&callers, &paid, 0).await;
}

/// Returns the version of each host and the newest row formats that it reads, as the hosts report
/// them.
async fn versions(hosts: &[Host]) -> String {
    let answer = join_all(hosts.iter().map(|host| host.get("/health"))).await;
    let own = |answer: Value| answer["replicas"].as_array().unwrap().iter().find(|one| one["own"] == true).cloned().unwrap();
    let own = answer.into_iter().map(|answer| own(answer.is(200).json()));
    own.map(|own| format!("{} ({})", own["version"].as_str().unwrap(), own["formats"])).collect::<Vec<_>>().join(", ")
}

/// Makes one payment after the other and sends each to the load balancer once, over a kept or a new
/// connection.
async fn pay_until(over: &AtomicBool, callers: &Callers, payer: usize) -> Vec<Paid> {
    let Callers { payers, challenge, balancer, .. } = callers;
    let client = Client::builder().no_proxy().pool_max_idle_per_host((payer + 1) % 2).build().unwrap();
    let mut paid = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let (payment, input) = (payers[payer].pay(challenge), nth_input(payer, paid.len()));
        let request = client.post(format!("{}/tools/pay", balancer.url)).header(payment.header, payment.encoded()).json(&input);
        let answer = Answer::read(request.send().await.unwrap()).await.unwrap().is(200);
        paid.push(Paid { payment, input, answer });
    }
    paid
}

/// The data that a follower of a tool's calls received.
#[derive(Default)]
struct FollowedEvents {
    receipts: BTreeSet<String>,
    streams: usize,
}

/// Follows the tool's calls as browsers do. When the host closes the stream, reconnects after the
/// given time, and continues after the last event.
async fn follow(balancer: String, admin: String, received: Arc<Mutex<FollowedEvents>>) {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut last = String::new();
    loop {
        let request = client.get(format!("{balancer}/ai/endpoints/pay/calls")).header("x-admin-token", &admin);
        let mut stream = Stream::open(request.header("last-event-id", &last)).await;
        received.lock().unwrap().streams += 1;
        while let Some(reported) = stream.next().await {
            received.lock().unwrap().receipts.insert(reported.data["receiptId"].as_str().unwrap().to_owned());
            last = reported.id.unwrap();
        }
        let wait = stream.retry.expect("a host that ends a stream says when to reconnect");
        tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
    }
}
