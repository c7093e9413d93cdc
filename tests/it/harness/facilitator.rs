//! An x402 facilitator on loopback, whose behavior a test sets.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
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
use tokio::sync::Notify;

use super::serve;

/// The result of settlements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleMode {
    Well,
    /// Refused before anything was sent.
    Refused(&'static str),
    /// Fails when the transaction may already be sent.
    Unanswered,
    /// Does not answer until another result is set.
    Hangs,
    /// Answers according to the amount of the payment.
    Says(&'static [FacilitatorAnswer]),
}

/// The answer to a payment of `amount`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FacilitatorAnswer {
    pub amount: &'static str,
    pub status: u16,
    pub media: &'static str,
    pub body: &'static str,
}

/// A facilitator at `url`.
#[derive(Debug, Clone)]
pub struct Facilitator {
    pub url: String,
    state: Arc<FacilitatorState>,
}

#[derive(Debug)]
struct FacilitatorState {
    settles: Mutex<SettleMode>,
    requested: AtomicUsize,
    mode: Notify,
}

impl Facilitator {
    pub async fn start(settles: SettleMode) -> Self {
        let state = Arc::new(FacilitatorState { settles: Mutex::new(settles), requested: AtomicUsize::new(0), mode: Notify::new() });
        let router = Router::new().route("/verify", post(verify)).route("/settle", post(settle)).with_state(Arc::clone(&state));
        Self { url: serve(router).await, state }
    }

    pub fn set_mode(&self, settles: SettleMode) {
        *self.state.settles.lock().unwrap() = settles;
        self.state.mode.notify_waiters();
    }

    /// Returns the number of requests to settle.
    pub fn asked(&self) -> usize {
        self.state.requested.load(Ordering::SeqCst)
    }
}

pub(super) async fn verify(Json(question): Json<Value>) -> Json<Value> {
    Json(json!({ "isValid": true, "payer": question["paymentPayload"]["payload"]["authorization"]["from"] }))
}

async fn settle(State(reported): State<Arc<FacilitatorState>>, Json(question): Json<Value>) -> Response {
    reported.requested.fetch_add(1, Ordering::SeqCst);
    let network = &question["paymentRequirements"]["network"];
    let settles = loop {
        let next = reported.mode.notified();
        let settles = *reported.settles.lock().unwrap();
        if settles != SettleMode::Hangs {
            break settles;
        }
        next.await;
    };
    match settles {
        SettleMode::Hangs => unreachable!("the loop above waits for another mode"),
        SettleMode::Well => {
            let payload = &question["paymentPayload"]["payload"];
            let transaction = format!("0x{}", hex::encode(Sha256::digest(payload.to_string())));
            Json(json!({ "success": true, "transaction": transaction, "network": network })).into_response()
        }
        SettleMode::Refused(reason) => {
            Json(json!({ "success": false, "errorReason": reason, "transaction": "", "network": network })).into_response()
        }
        SettleMode::Unanswered => (StatusCode::BAD_GATEWAY, "upstream broke").into_response(),
        SettleMode::Says(all) => {
            let amount = &question["paymentRequirements"]["amount"];
            let message = all.iter().find(|message| amount == message.amount).unwrap();
            let status = StatusCode::from_u16(message.status).unwrap();
            (status, [("content-type", message.media)], message.body).into_response()
        }
    }
}
