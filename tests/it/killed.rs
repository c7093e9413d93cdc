//! The host is killed at random moments, with an unreliable facilitator and a slow disk. Each
//! settled payment has one receipt and one answer, and each unsettled one can be used again.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    crash::{ASKED, READY_WITHIN},
    harness::{Answer, Erratic, Host, Payer, Payment, eventually, js, random, rounds_requested},
};

/// Default number of kills during paid calls. The number of kills during starts is the same.
const ROUNDS: usize = 5;
const PAYERS: usize = 16;
/// Maximum time from the first paid calls to the kill.
const MAX_MS: u64 = 600;

/// Remembers each run of a payment, and returns different answers.
const TOOL: &str = "export default async (req, ctx) => {
    const key = `runs ${req.input.n}`, runs = (await ctx.kv.get(key)) ?? [];
    if (req.input.ask) return { runs };
    await ctx.kv.set(key, [...runs, Date.now()]);
    return { n: req.input.n, run: crypto.randomUUID() };
};";

/// A payment and all of its answers with status 200.
struct Sent {
    payment: Payment,
    input: Value,
    answers: Vec<Answer>,
}

/// The result of a round.
#[derive(Default)]
struct Sum {
    sent: usize,
    settled: usize,
    acknowledged: usize,
    again: usize,
}

/// A host with a tool, its owner's key, and the facilitator.
struct Scene {
    host: Host,
    owner: String,
    facilitator: Erratic,
    challenge: Value,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_beside_a_facilitator_that_does_not_answer_loses_or_doubles_anything() {
    let mut random = random();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("settled");
    let facilitator = Erratic::start(&log, &mut random).await;
    let how = Host::builder().settled_by(&facilitator.url).env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    // The results of most settlements are unknown at first. That is the subject of this test, so
    // the limits on failures are off.
    let how = how.flag("--payer-failures", 0).flag("--tool-failures", 0);
    let host = how.on_a_slow_disk(folder.path()).start().await;
    let (_, owner) = host.register("Owner").await;
    host.as_builder(&owner, Method::POST, "/ai/endpoints/create", &js("pay", 0.001, TOOL)).await.is(200);
    let challenge = host.challenge("pay").await;
    let mut fixture = Scene { host, owner, facilitator, challenge };
    let payers: Vec<_> = (0..PAYERS).map(|_| Payer::new()).collect();

    let request = rounds_requested(ASKED);
    let rounds = request.map_or(ROUNDS, |kills| kills.div_ceil(2));
    let (mut sum, mut slowest, mut known) = (Sum::default(), Duration::ZERO, Vec::new());
    for round in 0..rounds {
        fixture.facilitator.be_calm(false);
        let wait = Duration::from_millis(random.u64(..MAX_MS));
        let sent = pay_until_killed(&mut fixture, &payers, &known, &mut random, round, wait).await;
        let start = random.u64(..u64::try_from(slowest.as_millis()).unwrap().clamp(50, MAX_MS));
        fixture.host.restart_and_kill(Duration::from_millis(start)).await;
        let started = Instant::now();
        fixture.host.restart().await;
        slowest = slowest.max(started.elapsed());
        fixture.facilitator.be_calm(true);
        eventually("open settlements are resolved", Duration::from_secs(120), async || {
            (fixture.host.get("/health").await.is(200).json()["openSettlements"] == 0).then_some(())
        })
        .await;
        for some in sent.chunks(PAYERS) {
            join_all(some.iter().map(|sent| fixture.look_back(sent))).await.into_iter().for_each(|one| sum.add(&one));
        }
        known = sent;
    }
    let moved = std::fs::read_to_string(&log).unwrap();
    let distinct: BTreeSet<_> = moved.lines().collect();
    assert_eq!((moved.lines().count(), distinct.len()), (sum.settled + sum.again, sum.settled + sum.again), "transfers, and receipts");
    let Sum { sent, settled, acknowledged, again } = sum;
    println!("{} kills, half of them at start: {sent} payments sent, {settled} settled, {acknowledged} acknowledged before", rounds * 2);
    println!("{again} released, each paid with again; ready again within {} ms", slowest.as_millis());
    assert!(request.is_none() || slowest < READY_WITHIN, "ready after {slowest:?}");
    // If there are few kills, all of them may come before any payment.
    assert!(request.is_none() || acknowledged > 0 && settled > acknowledged, "no kill cut a settlement off");
}

impl Sum {
    fn add(&mut self, one: &Self) {
        self.sent += one.sent;
        self.settled += one.settled;
        self.acknowledged += one.acknowledged;
        self.again += one.again;
    }
}

/// Lets every payer send new payments, some of them twice at once, and payments of the previous
/// round, until the host is killed.
async fn pay_until_killed(
    fixture: &mut Scene,
    payers: &[Payer],
    known: &[Sent],
    random: &mut fastrand::Rng,
    round: usize,
    wait: Duration,
) -> Vec<Sent> {
    let (removed, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    // The random actions of each payer, and the earlier payments that it repeats.
    let which = known.len().max(1);
    let chances: Vec<Vec<_>> = payers.iter().map(|_| (0..100).map(|_| (random.u64(..10), random.usize(..which))).collect()).collect();
    let Scene { host, challenge, .. } = &*fixture;
    let paying = join_all(payers.iter().zip(chances).enumerate().map(|(number, (payer, chances))| {
        let (removed, sent) = (&removed, &sent);
        async move {
            for n in 0.. {
                if removed.load(Ordering::SeqCst) {
                    return;
                }
                let (chance, which) = chances[n % chances.len()];
                if let Some(old) = known.get(which).filter(|_| chance < 2) {
                    if let Some(answer) = pay(host, &old.payment, &old.input).await {
                        assert!(old.answers.iter().all(|first| same(first, &answer)), "a payment shown again has another answer");
                    }
                    continue;
                }
                let (payment, input) = (payer.pay(challenge), json!({ "n": format!("{round}-{number}-{n}") }));
                let times = if chance < 5 { 2 } else { 1 };
                let answers = join_all((0..times).map(|_| pay(host, &payment, &input))).await;
                sent.lock().unwrap().push(Sent { payment, input, answers: answers.into_iter().flatten().collect() });
            }
        }
    }));
    tokio::join!(paying, host.cut_power_after(wait, &removed));
    fixture.host.kill9();
    sent.into_inner().unwrap()
}

/// Returns the answer to a paid call, if it came with status 200.
async fn pay(host: &Host, payment: &Payment, input: &Value) -> Option<Answer> {
    Host::try_send(host.paid_request("pay", input, payment)).await.ok().filter(|answer| answer.status == 200)
}

fn same(one: &Answer, other: &Answer) -> bool {
    (&one.body, one.receipt_id()) == (&other.body, other.receipt_id())
}

impl Scene {
    /// Compares the payer's view of a payment with those of the host and of the facilitator.
    async fn look_back(&self, Sent { payment, input, answers }: &Sent) -> Sum {
        let id = payment.id();
        let state = self.host.payment(&id).await;
        let known = state.as_ref().and_then(|state| state["state"].as_str());
        let moved = self.facilitator.settled(payment);
        let acknowledged = usize::from(!answers.is_empty());
        let sum = Sum { sent: 1, acknowledged, ..Sum::default() };
        let Some(settlement) = moved else {
            assert!(matches!(known, None | Some("released")), "nothing moved for payment {id}, and it is {known:?}");
            assert_eq!(acknowledged, 0, "payment {id} was answered for nothing");
            self.host.call_paid("pay", input, payment).await.is(200);
            assert!(self.facilitator.settled(payment).is_some());
            return Sum { again: 1, ..sum };
        };
        assert_eq!(known, Some("settled"), "money moved for payment {id}");
        let state = state.unwrap();
        assert_eq!(state["transaction"], settlement.transaction, "payment {id}");
        let receipt = self.host.receipt(state["receiptId"].as_str().unwrap()).await;
        assert_eq!(receipt["transaction"], settlement.transaction, "payment {id}");
        let again = self.host.call_paid("pay", input, payment).await.is(200);
        assert_eq!(again.receipt_id(), state["receiptId"].as_str().unwrap());
        assert!(answers.iter().all(|first| same(first, &again)), "payment {id} has two answers");
        let ask = json!({ "ask": true, "n": input["n"] });
        let runs = self.host.as_builder(&self.owner, Method::POST, "/tools/pay", &ask).await.is(200).json()["runs"].clone();
        let late: Vec<_> = runs.as_array().unwrap().iter().filter(|at| at.as_u64().unwrap() > settlement.at).collect();
        assert!(late.is_empty(), "payment {id} was settled at {}, and its handler ran at {late:?}", settlement.at);
        Sum { settled: 1, ..sum }
    }
}
