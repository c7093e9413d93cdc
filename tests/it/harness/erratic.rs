//! An unreliable facilitator. It writes each settlement to a log on disk before it answers.

use std::{
    collections::HashMap,
    fs::File,
    io::Write as _,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::UNIX_EPOCH,
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::{Payment, facilitator::verify, serve};

/// The facilitator. It outlives the hosts that use it.
pub struct Erratic {
    pub url: String,
    books: Arc<Books>,
}

/// The settlements, by payer and nonce.
struct Books {
    settled: Mutex<HashMap<String, Settlement>>,
    log: Mutex<File>,
    /// A percentage per request, used in turn.
    chances: Vec<u64>,
    requested: AtomicUsize,
    calm: watch::Sender<bool>,
}

/// A settlement.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub transaction: String,
    /// In milliseconds since 1970.
    pub at: u64,
}

impl Erratic {
    pub async fn start(log: &Path, random: &mut fastrand::Rng) -> Self {
        let (settled, log) = (Mutex::default(), Mutex::new(File::create(log).unwrap()));
        let chances = (0..1_000).map(|_| random.u64(..100)).collect();
        let books = Arc::new(Books { settled, log, chances, requested: AtomicUsize::default(), calm: watch::channel(false).0 });
        let router = Router::new().route("/verify", post(verify)).route("/settle", post(settle)).with_state(Arc::clone(&books));
        Self { url: serve(router).await, books }
    }

    /// Sets whether it answers reliably.
    pub fn be_calm(&self, calm: bool) {
        self.books.calm.send_replace(calm);
    }

    pub fn settled(&self, payment: &Payment) -> Option<Settlement> {
        self.books.settled.lock().unwrap().get(&key(&payment.payload)).cloned()
    }
}

fn key(payload: &Value) -> String {
    let authorization = &payload["payload"]["authorization"];
    format!("{} {}", authorization["from"].as_str().unwrap(), authorization["nonce"].as_str().unwrap())
}

impl Books {
    /// Settles a payment, once.
    fn settle(&self, key: String) -> String {
        let mut settled = self.settled.lock().unwrap();
        let settlement = settled.entry(key).or_insert_with_key(|key| {
            let transaction = format!("0x{}", hex::encode(Sha256::digest(key)));
            let mut log = self.log.lock().unwrap();
            writeln!(log, "{key} {transaction}").unwrap();
            log.sync_data().unwrap();
            let at = UNIX_EPOCH.elapsed().unwrap().as_millis().try_into().unwrap();
            Settlement { transaction, at }
        });
        settlement.transaction.clone()
    }
}

async fn settle(State(books): State<Arc<Books>>, Json(question): Json<Value>) -> Response {
    let key = key(&question["paymentPayload"]);
    let mut calm = books.calm.subscribe();
    let request = books.requested.fetch_add(1, Ordering::SeqCst);
    let chance = if *calm.borrow() { 0 } else { books.chances[request % books.chances.len()] };
    // In each hundred requests: some are settled without an answer, some fail after the settlement,
    // some fail before it, and some wait until it is calm.
    if matches!(chance, 60..80) {
        books.settle(key.clone());
    }
    match chance {
        60..70 | 90..100 => _ = calm.wait_for(|calm| *calm).await,
        70..90 => return (StatusCode::BAD_GATEWAY, "upstream broke").into_response(),
        _ => {}
    }
    let transaction = books.settle(key);
    let network = &question["paymentRequirements"]["network"];
    Json(json!({ "success": true, "transaction": transaction, "network": network })).into_response()
}
