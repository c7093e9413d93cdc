//! kill -9 of the host at any moment of a paid call.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Host, Payer, Payment, js};

const ROUNDS: u64 = 30;
const PAYERS: usize = 6;
const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;

/// What one payer sent, and what it got.
#[derive(Default)]
struct History {
    sent: Vec<Payment>,
    /// Payment id → receipt id and body, for each answer that arrived.
    acknowledged: HashMap<String, (String, String)>,
}

/// A small generator, so that a printed seed repeats a run's moments.
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_receipt_survives_and_every_payment_ends_once() {
    let seed = std::env::var_os("TOLLHOUSE_TEST_SEED").and_then(|seed| seed.to_str()?.parse().ok()).unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    let mut moments = Moments(seed);
    let mut host = Host::start().await;
    host.publish(&js("works", PRICE, "export default (req) => ({ echo: req.input.n, at: Math.random() })")).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut payers = Vec::new();
    for _ in 0..PAYERS {
        payers.push((Arc::new(Payer::funded(&host, 100.0).await), Arc::new(Mutex::new(History::default()))));
    }
    let challenge = host.challenge("works").await;
    for _ in 0..ROUNDS {
        let over = Arc::new(AtomicBool::new(false));
        let paying = payers.iter().map(|(payer, history)| {
            let (payer, history, over) = (Arc::clone(payer), Arc::clone(history), Arc::clone(&over));
            let (client, url, challenge) = (client.clone(), host.url.clone(), challenge.clone());
            tokio::spawn(async move { pay_until(&client, &url, &challenge, &payer, &history, &over).await })
        });
        let paying: Vec<_> = paying.collect();
        tokio::time::sleep(Duration::from_millis(20 + moments.next(300))).await;
        host.kill9();
        over.store(true, Ordering::SeqCst);
        for payer in join_all(paying).await {
            payer.unwrap();
        }
        host.restart().await;
    }
    let mut settled_in_all = 0;
    for (payer, history) in &payers {
        let history = std::mem::take(&mut *history.lock().unwrap());
        settled_in_all += check(&host, payer, &history).await;
    }
    println!("{settled_in_all} payments were settled");
    assert!(settled_in_all > ROUNDS as usize, "the rounds were too short to test anything");
    assert_eq!(host.get("/health").await.json()["openSettlements"], 0);
}

/// Sends fresh payments, each as soon as the one before was answered, until the host is gone.
async fn pay_until(
    client: &reqwest::Client,
    url: &str,
    challenge: &Value,
    payer: &Payer,
    history: &Mutex<History>,
    over: &AtomicBool,
) {
    while !over.load(Ordering::SeqCst) {
        let payment = payer.pay(challenge).altered("/resource", json!(null));
        let n = {
            let mut history = history.lock().unwrap();
            history.sent.push(payment.clone());
            history.sent.len() - 1
        };
        let request = client.post(format!("{url}/tools/works")).header(payment.header, payment.encoded()).json(&json!({ "n": n }));
        let Ok(response) = request.send().await else { return };
        let (status, receipt) = (response.status(), response.headers().get("x-receipt-id").cloned());
        let Ok(text) = response.text().await else { return };
        assert_eq!(status, 200, "{text}");
        let receipt = receipt.unwrap().to_str().unwrap().to_owned();
        history.lock().unwrap().acknowledged.insert(payment.id(), (receipt, text));
    }
}

/// Holds a payer's history against the host; answers how many of its payments were settled.
async fn check(host: &Host, payer: &Payer, history: &History) -> usize {
    let mut settled = 0;
    for (n, payment) in history.sent.iter().enumerate() {
        let state = host.payment(&payment.id()).await.unwrap_or_default();
        let state = state["state"].as_str().unwrap_or("absent");
        let acknowledged = history.acknowledged.get(&payment.id());
        match (state, acknowledged) {
            ("settled", _) => settled += 1,
            ("released" | "absent", None) => continue,
            other => panic!("payment {n} is {other:?}"),
        }
        // Shown again, it gives the answer it bought, and is not charged again: the balance below says so.
        let again = host.call_paid("works", &json!({ "n": n }), payment).await.is(200);
        let receipt_id = again.receipt_id();
        assert_eq!(again.json()["echo"], n);
        if let Some((receipt, text)) = acknowledged {
            assert_eq!((receipt.as_str(), text.as_bytes()), (receipt_id.as_str(), &again.body[..]), "the answer is the one that was acknowledged");
        }
        let receipt = host.receipt(&receipt_id).await;
        if n % 16 == 0 {
            host.verify_receipt(&receipt).unwrap();
        }
    }
    let spent = 100_000_000 - host.balance(&payer.address).await;
    assert_eq!(spent, MICROS * settled as u64, "{settled} payments were settled");
    settled
}
