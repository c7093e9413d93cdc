//! Developer credit, and the play money of the simulated ledger.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    http::HeaderMap,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{auth::Admin, endpoints::Body, error::ApiError};
use crate::{app::App, tool::MicroUsd};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mint {
    amount_usd: MicroUsd,
    #[serde(default)]
    label: String,
}

/// `POST /ai/credits`: a prepaid balance. The token is shown this once.
pub(super) async fn mint(_: Admin, State(app): State<Arc<App>>, Body(mint): Body<Mint>) -> Result<Json<Value>, ApiError> {
    let minted = app.gate.credits().mint(mint.amount_usd, &mint.label).await?;
    Ok(Json(json!({ "ok": true, "credit": minted.token, "creditId": minted.id, "balanceUsd": mint.amount_usd, "label": mint.label })))
}

/// `GET /ai/credits`: the balance of the credit whose token is sent.
pub(super) async fn credit(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Json<Value>, ApiError> {
    let unauthorized = || ApiError::unauthorized().hint("send the credit's token in `X-Developer-Credit`");
    let token = headers.get("x-developer-credit").and_then(|value| value.to_str().ok()).ok_or_else(unauthorized)?;
    let credit = app.gate.credits().find(token).await?.ok_or_else(unauthorized)?;
    Ok(Json(json!({ "ok": true, "creditId": credit.id, "balanceUsd": credit.balance, "label": credit.label })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Faucet {
    address: String,
    amount_usd: MicroUsd,
}

/// `POST /dev/faucet`: play money, where the facilitator is the simulated one.
pub(super) async fn faucet(State(app): State<Arc<App>>, Body(faucet): Body<Faucet>) -> Result<Json<Value>, ApiError> {
    let ledger = app.ledger.as_ref().ok_or_else(no_ledger)?;
    let balance = ledger.faucet(&faucet.address, faucet.amount_usd).await.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(Json(json!({ "ok": true, "simulated": true, "address": faucet.address, "balanceUsd": balance })))
}

#[derive(Deserialize)]
pub(super) struct Address {
    address: String,
}

/// `GET /dev/faucet?address=…`: what an address has.
pub(super) async fn balance(State(app): State<Arc<App>>, Query(query): Query<Address>) -> Result<Json<Value>, ApiError> {
    let ledger = app.ledger.as_ref().ok_or_else(no_ledger)?;
    let balance = ledger.balance(&query.address).await.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(Json(json!({ "ok": true, "simulated": true, "address": query.address, "balanceUsd": balance })))
}

fn no_ledger() -> ApiError {
    ApiError::not_found("not_found", "there is no faucet: this host settles with a real facilitator")
}
