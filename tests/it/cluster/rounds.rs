//! Three hosts with one bucket behind a load balancer. One of them, or the database, is killed
//! again and again under paid load.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::json;

use super::{ASKED, Callers, Cluster, PRICE, Paid, nth_input, percentile};
use crate::{
    clients::pays_for,
    harness::{Answer, Host, Payer, balancer::Balancer, chain::clients, eventually, js, random, rounds_requested, s3::S3},
};

/// Number of kills, if [`ASKED`] sets none.
const ROUNDS: usize = 3;
const PAYERS: usize = 6;
/// Initial balance of each payer, in micro-dollars.
const FUNDS: u64 = 1_000_000_000;
/// Time between two kills.
const ROUND: Duration = Duration::from_secs(8);
/// Maximum time until the killed process is started again.
const MAX_AWAY_MS: u64 = 2_000;
/// Time after which callers must not notice the kill anymore.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Time before the next kill in which calls are not measured.
const BEFORE_NEXT: Duration = Duration::from_secs(1);
/// Maximum factor by which calls may then be slower than before the first kill.
const SLOWER: u32 = 5;
/// Maximum time that a payment may be open.
const OPEN_AT_MOST: Duration = Duration::from_secs(15);

/// Counts its runs by the minute for which they are.
const TICKS: &str = "export default async (req, ctx) => (await ctx.kv.list({ prefix: 'run/' })).entries;
export async function scheduled(event, ctx) {
    await ctx.kv.atomic().sum(`run/${event.scheduledTime}`, 1).commit();
}";

/// A payment, and the time from its first request to its answer.
pub(super) struct Call {
    pub(super) paid: Paid,
    started: Instant,
    elapsed: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_behind_a_balancer_neither_lose_nor_double_payments() {
    let request = rounds_requested(ASKED);
    let mut random = random();
    let s3 = S3::start().await;
    let mut cluster = Cluster::of(Host::builder().with_objects_in(&s3), Balancer::HOSTS.len()).await;
    let callers = cluster.behind_a_balancer(PAYERS, FUNDS).await;
    let balancer = &callers.balancer;
    let mut ticks = js("ticks", 0.0, TICKS);
    ticks["schedules"] = json!(["* * * * *"]);
    cluster.hosts[0].publish(&ticks).await;

    let over = AtomicBool::new(false);
    let stock = join_all((0..2).map(|_| Payer::funded(&cluster.hosts[0], FUNDS as f64 / 1e6))).await;
    let stocked = stock_clients(&over, &stock, &balancer.url);
    let paying = join_all((0..PAYERS).map(|payer| pay_until(&over, &callers, payer)));
    let killing = async {
        let mut kills = Vec::new();
        tokio::time::sleep(BACK_WITHIN).await;
        for _ in 0..request.unwrap_or(ROUNDS) {
            let (victim, away) = (random.usize(..=cluster.hosts.len()), Duration::from_millis(random.u64(..MAX_AWAY_MS)));
            let at = Instant::now();
            if let Some(host) = cluster.hosts.get_mut(victim) {
                host.kill9();
                tokio::time::sleep(away).await;
                host.restart().await;
                balancer.moved(Balancer::HOSTS[victim], &host.url);
            } else {
                cluster.server.kill9();
                tokio::time::sleep(away).await;
                cluster.server.run();
            }
            kills.push((at, Balancer::HOSTS.get(victim).copied().unwrap_or("the database"), away));
            tokio::time::sleep(ROUND.saturating_sub(at.elapsed())).await;
        }
        over.store(true, Ordering::SeqCst);
        kills
    };
    let (paid, kills, reported) = tokio::join!(paying, killing, stocked);

    let all: Vec<&Call> = paid.iter().flatten().collect();
    print(&all, &kills, request.is_some());
    cluster.none_is_open(OPEN_AT_MOST).await;
    // A standard client that got no answer does not know whether it paid. Every amount that left
    // its account must have bought a call.
    let spent = join_all(stock.iter().map(async |payer| FUNDS - cluster.hosts[0].balance(&payer.address).await)).await;
    let others = spent.iter().sum::<u64>() / PRICE;
    println!("{others} payments by stock clients, {} of them answered", reported.len());
    assert!(reported.len() as u64 <= others && spent.iter().all(|spent| spent % PRICE == 0), "{spent:?}");
    for receipt in &reported {
        assert_eq!(cluster.hosts[1].receipt(receipt).await["receiptId"], **receipt);
    }
    cluster.agrees_with(&callers, &paid_in(&paid), others).await;
    each_minute_ran_once(&cluster, kills.len()).await;
    assert!(
        !s3.objects().is_empty() && !cluster.hosts[0].folder().join("data/files").exists(),
        "files and large answers are in the bucket"
    );
}

/// Checks the runs of the tool `ticks` during so many kills. A run that a kill stopped is not repeated, and the minutes
/// without a live host have one run together.
async fn each_minute_ran_once(cluster: &Cluster, kills: usize) {
    let runs = cluster.hosts[0].call("ticks", &json!({})).await.is(200).json();
    let runs = runs.as_array().unwrap();
    assert!(runs.iter().all(|run| run["value"] == 1), "{runs:?}");
    let minutes = usize::try_from(ROUND.as_secs()).unwrap() * kills / 60;
    println!("{} runs of a schedule in about {minutes} minutes", runs.len());
    assert!(runs.len() * 2 >= minutes, "{runs:?}");
}

/// Makes one payment after the other, and sends each to the load balancer until it is answered.
pub(super) async fn pay_until(over: &AtomicBool, callers: &Callers, payer: usize) -> Vec<Call> {
    let Callers { payers, challenge, balancer, .. } = callers;
    let client = Client::builder().no_proxy().build().unwrap();
    let mut paid = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let (payment, input, started) = (payers[payer].pay(challenge), nth_input(payer, paid.len()), Instant::now());
        let answer = eventually("a payment is answered", super::TAKEN_UP_WITHIN, async || {
            let request = client.post(format!("{}/tools/pay", balancer.url)).header(payment.header, payment.encoded()).json(&input);
            let answer = request.send().await.ok()?;
            let status = answer.status().as_u16();
            // A definite refusal must not happen. An open payment or a temporary refusal may be
            // retried.
            assert!([200, 409, 429, 500, 502, 503, 504].contains(&status), "{answer:?}");
            // If the body is cut off, retry.
            if status == 200 { Answer::read(answer).await.ok() } else { None }
        })
        .await;
        paid.push(Call { paid: Paid { payment, input, answer }, started, elapsed: started.elapsed() });
    }
    paid
}

/// Returns the payments of each payer.
pub(super) fn paid_in(calls: &[Vec<Call>]) -> Vec<Vec<&Paid>> {
    calls.iter().map(|calls| calls.iter().map(|call| &call.paid).collect()).collect()
}

/// Runs the standard clients in JavaScript and Python in turn. Each payment is one run of a new
/// process. Returns the receipts of the answered ones.
async fn stock_clients(over: &AtomicBool, payers: &[Payer], balancer: &str) -> Vec<String> {
    let mut receipts = Vec::new();
    let python = clients().join("venv/bin/python");
    for turn in 0.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let (program, script) = if turn % 2 == 0 { (Path::new("node"), "pay.mjs") } else { (python.as_path(), "pay.py") };
        let request = (format!("{balancer}/tools/pay"), json!({ "n": turn }));
        let done = pays_for(request, &[], program, script, Some(&payers[turn % 2])).await;
        receipts.extend(done.ok().filter(|done| done["status"] == 200).map(|done| done["receiptId"].as_str().unwrap().to_owned()));
    }
    receipts
}

/// Prints how much callers noticed of the kills. Checks the limits only if `strict`, on an
/// otherwise idle machine.
fn print(all: &[&Call], kills: &[(Instant, &str, Duration)], strict: bool) {
    let p99 = |calls: &mut dyn Iterator<Item = &&Call>| percentile(calls.map(|call| call.elapsed), 99);
    let before = p99(&mut all.iter().filter(|call| kills.first().is_none_or(|(at, ..)| call.started + call.elapsed < *at)));
    let mut slowest = Duration::ZERO;
    for (at, victim, away) in kills {
        let back = p99(&mut all.iter().filter(|call| call.started > *at + BACK_WITHIN && call.started < *at + ROUND - BEFORE_NEXT));
        let max_len =
            all.iter().filter(|call| call.started < *at + ROUND && call.started + call.elapsed > *at).map(|call| call.elapsed).max();
        println!("{victim} away for {away:?}: a payment took {max_len:?} at most, p99 {back:?} after {BACK_WITHIN:?}");
        slowest = slowest.max(max_len.unwrap_or_default());
        assert!(!strict || back < before * SLOWER, "p99 was {before:?} before the first kill");
    }
    println!("{} kills, {} payments; p99 {before:?} before the first; the slowest took {slowest:?}", kills.len(), all.len());
    assert!(!strict || slowest < OPEN_AT_MOST, "a payment was open for {slowest:?}");
}
