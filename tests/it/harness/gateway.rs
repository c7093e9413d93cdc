//! A gateway for a node. It can answer a transaction in its own way, whether or not the node gets
//! it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::sync::watch;

use super::serve;

/// A gateway.
pub struct Gateway {
    pub url: String,
    state: Arc<Forwarding>,
}

/// The treatment of a transaction.
#[derive(Debug, Clone)]
pub struct GatewayFault {
    /// Whether the node gets it.
    pub forwards: bool,
    pub status: u16,
    pub body: String,
}

struct Forwarding {
    node: String,
    odd: Mutex<Option<GatewayFault>>,
    /// Whether transactions wait.
    holds: watch::Sender<bool>,
    sent: AtomicUsize,
}

impl Gateway {
    pub async fn before(node: &str) -> Self {
        let state = Arc::new(Forwarding {
            node: node.to_owned(),
            odd: Mutex::default(),
            holds: watch::Sender::new(false),
            sent: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(forward).with_state(Arc::clone(&state));
        Self { url: serve(router).await, state }
    }

    /// Sets the answer to the next transaction. Later ones are passed on.
    pub fn answer_next(&self, odd: GatewayFault) {
        *self.state.odd.lock().unwrap() = Some(odd);
    }

    /// Holds back transactions, or sends those that were held back.
    pub fn hold(&self, holds: bool) {
        self.state.holds.send_replace(holds);
    }

    /// Returns the number of transactions that were sent, including those that are held back.
    pub fn sent(&self) -> usize {
        self.state.sent.load(Ordering::SeqCst)
    }
}

async fn forward(State(state): State<Arc<Forwarding>>, body: Bytes) -> Response {
    let question: Value = serde_json::from_slice(&body).unwrap();
    let mut odd = None;
    if question["method"] == "eth_sendRawTransaction" {
        state.sent.fetch_add(1, Ordering::SeqCst);
        odd = state.odd.lock().unwrap().take();
        state.holds.subscribe().wait_for(|holds| !holds).await.unwrap();
    }
    let odd_answer = |odd: GatewayFault| (StatusCode::from_u16(odd.status).unwrap(), odd.body).into_response();
    if let Some(odd) = odd.clone().filter(|odd| !odd.forwards) {
        return odd_answer(odd);
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(&state.node).header(CONTENT_TYPE, "application/json").body(body).send().await.unwrap();
    let (status, body) = (answer.status(), answer.bytes().await.unwrap());
    match odd {
        Some(odd) => odd_answer(odd),
        None => (status, [(CONTENT_TYPE, "application/json")], body).into_response(),
    }
}
