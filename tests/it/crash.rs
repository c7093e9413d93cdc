//! The host is killed at random moments, as in a power failure. No acknowledged receipt is lost, no
//! payment is charged twice, and none is charged without a result.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, Payment, eventually, js, random, rounds_requested};

/// Number of kills during paid calls, if [`ASKED`] sets none.
const ROUNDS: usize = 30;
/// The variable with the total number of kills. `cargo xtask crash` sets a higher one.
pub(crate) const ASKED: &str = "TOLLHOUSE_CRASH_ROUNDS";
/// Maximum time until the host is ready again. Checked only with [`ASKED`], on an otherwise idle
/// machine.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(5);
const PAYERS: usize = 8;
/// Maximum time from the first paid calls to the kill.
const MAX_MS: u64 = 400;
const PRICE: u64 = 1_000;
/// Initial balance of each payer, in micro-dollars.
const FUNDS: u64 = 100_000_000;

/// A payment and its result for the payer.
struct Sent {
    payer: usize,
    slug: &'static str,
    payment: Payment,
    input: Value,
    /// A complete answer with status 200.
    acknowledged: Option<Answer>,
    /// The receipt that was fetched before the kill.
    receipt: Option<Bytes>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_loses_a_receipt_or_takes_a_payment_twice() {
    let mut random = random();
    // The port changes at each start. Payments name the tool by its public address.
    let how = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    // Small sizes, so that kills also hit new segments, checkpoints and renewals of the store.
    let how = how.env("TOLLHOUSE_STORE_SEGMENT_BYTES", 128 * 1024).env("TOLLHOUSE_STORE_JOURNAL_BYTES", 512 * 1024);
    let how = how.env("TOLLHOUSE_STORE_TREE_BYTES", 0);
    let mut host = how.start().await;
    let source = "export default async (req, ctx) => {
        await ctx.kv.set(`run ${req.input.n}`, ((await ctx.kv.get(`run ${req.input.n}`)) ?? 0) + 1);
        return { n: req.input.n, pad: 'x'.repeat(200) };
    };";
    host.publish(&js("pay", 0.001, source)).await;
    // A tool that is charged before it runs.
    let mut first = js("first", 0.001, source);
    first["settle"] = json!("before");
    host.publish(&first).await;
    let challenges = [("pay", host.challenge("pay").await), ("first", host.challenge("first").await)];
    let payers = join_all((0..PAYERS).map(|_| Payer::funded(&host, FUNDS as f64 / 1e6))).await;

    let credit = host.mint(1.0).await;
    let request = rounds_requested(ASKED);
    // After each kill during paid calls, the host is killed again during the next start.
    let rounds = request.map_or(ROUNDS, |kills: usize| kills.div_ceil(2));
    let mut spent = vec![0; PAYERS];
    let mut totals = [0; 3];
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        // Every second host has a started worker at the kill. One that is still starting its first
        // worker settles few payments.
        if round % 2 == 1 {
            host.call_credit("pay", &json!({ "n": "warm" }), &credit).await.is(200);
        }
        let wait = Duration::from_millis(random.u64(..MAX_MS));
        let sent = pay_until_killed(&mut host, &payers, &challenges, round, wait).await;
        let start = Duration::from_millis(random.u64(..slowest.as_millis().try_into().unwrap_or(u64::MAX).clamp(50, MAX_MS)));
        host.restart_and_kill(start).await;
        let started = Instant::now();
        host.restart().await;
        slowest = slowest.max(started.elapsed());
        eventually("open settlements are resolved", Duration::from_secs(60), async || {
            (host.get("/health").await.is(200).json()["openSettlements"] == 0).then_some(())
        })
        .await;
        let settled = join_all(sent.iter().map(|sent| look_back(&host, sent))).await;
        for (sent, _) in sent.iter().zip(&settled).filter(|(_, settled)| **settled) {
            spent[sent.payer] += PRICE;
        }
        for (payer, spent) in payers.iter().zip(&spent) {
            assert_eq!(host.balance(&payer.address).await, FUNDS - spent, "round {round}, killed after {wait:?}");
        }
        let settled = settled.iter().filter(|settled| **settled).count();
        let acknowledged = sent.iter().filter(|sent| sent.acknowledged.is_some()).count();
        totals = [totals[0] + sent.len(), totals[1] + settled, totals[2] + acknowledged];
    }
    let kills = rounds * 2;
    println!(
        "{kills} kills, half of them at start: {} payments sent, {} settled, {} of them acknowledged",
        totals[0], totals[1], totals[2]
    );
    println!("ready again within {} ms", slowest.as_millis());
    assert!(request.is_none() || slowest < READY_WITHIN, "ready after {slowest:?}");
    assert!(totals[2] >= rounds / 3, "hardly a call was answered: {totals:?}");
    assert!(totals[0] > totals[2], "no kill cut a call off: {totals:?}");
}

/// Lets every payer send one new payment after the other. Kills the host after `wait`.
async fn pay_until_killed(
    host: &mut Host,
    payers: &[Payer],
    challenges: &[(&'static str, Value); 2],
    round: usize,
    wait: Duration,
) -> Vec<Sent> {
    let (removed, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let victim: &Host = host;
    let paying = join_all(payers.iter().enumerate().map(|(number, payer)| {
        let (removed, sent) = (&removed, &sent);
        async move {
            for n in 0.. {
                if removed.load(Ordering::SeqCst) {
                    return;
                }
                let input = json!({ "n": format!("{round}-{number}-{n}") });
                let &(slug, ref challenge) = &challenges[(number + n) % 2];
                let payment = payer.pay(challenge);
                let answer = Host::try_send(victim.paid_request(slug, &input, &payment)).await;
                let acknowledged = answer.ok().map(|answer| answer.is(200));
                let receipt = match &acknowledged {
                    Some(answer) => {
                        Host::try_send(victim.request(Method::GET, &format!("/ai/receipts/{}", answer.receipt_id()))).await.ok()
                    }
                    None => None,
                };
                let receipt = receipt.map(|answer| answer.is(200).body);
                sent.lock().unwrap().push(Sent { payer: number, slug, payment, input, acknowledged, receipt });
            }
        }
    }));
    tokio::join!(paying, victim.cut_power_after(wait, &removed));
    host.kill9();
    sent.into_inner().unwrap()
}

/// Compares a payer's result with the state on the restarted host. Returns whether the payment is
/// settled.
async fn look_back(host: &Host, sent: &Sent) -> bool {
    let id = sent.payment.id();
    // Interrupted settlements are resolved at the start.
    let state = eventually("the payment has an end", Duration::from_secs(10), || async {
        let state = host.payment(&id).await;
        let open = state.as_ref().is_some_and(|state| matches!(state["state"].as_str(), Some("reserved" | "settling")));
        (!open).then_some(state)
    })
    .await;
    let known = state.as_ref().and_then(|state| state["state"].as_str());
    let Some(state) = state.as_ref().filter(|_| matches!(known, Some("settled" | "owed"))) else {
        assert!(matches!(known, None | Some("released")), "payment {id} is {known:?}");
        assert!(sent.acknowledged.is_none(), "payment {id} was acknowledged and is {known:?}");
        return false;
    };
    assert!(sent.slug == "first" || known == Some("settled"), "payment {id} is {known:?}");
    assert!(sent.acknowledged.is_none() || known == Some("settled"), "payment {id} was acknowledged and is {known:?}");
    let receipt_id = state["receiptId"].as_str().unwrap();
    let answer = host.get(&format!("/ai/receipts/{receipt_id}")).await.is(200);
    assert_eq!(answer.json()["receipt"]["transaction"], state["transaction"]);
    // A repetition gets the answer and costs nothing: the balances are compared after this.
    let again = host.call_paid(sent.slug, &sent.input, &sent.payment).await.is(200);
    assert_eq!((&again.json()["n"], again.receipt_id().as_str()), (&sent.input["n"], receipt_id));
    if let Some(first) = &sent.acknowledged {
        assert_eq!((&again.body, again.receipt_id()), (&first.body, first.receipt_id()));
        assert_eq!(again.has("payment-response"), first.has("payment-response"));
    }
    if let Some(receipt) = &sent.receipt {
        assert_eq!(&answer.body, receipt, "the receipt is another one");
    }
    true
}
