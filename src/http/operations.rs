//! For those who keep the host running.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};

use super::error::ApiError;
use crate::{app::App, store::Space};

/// The process answers.
pub(super) async fn live() -> Json<Value> {
    Json(json!({ "ok": true }))
}

/// The host takes calls: the store answers.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    app.store.get(Space::Meta, b"ready").await?;
    if app.draining() {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "the host is shutting down"));
    }
    Ok(Json(json!({ "ok": true })))
}

/// What is in force: the sandbox's jail and numbers, who settles.
pub(super) async fn health(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({
        "ok": true,
        "version": env!("CARGO_PKG_VERSION"),
        "sandbox": app.pool.status(),
        "payment": app.gate.describe(),
        "openSettlements": app.gate.open_intents(),
    }))
}
