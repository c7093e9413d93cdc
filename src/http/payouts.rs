//! `/ai/builders/payout-settings`, `/ai/builders/payouts` and `/ai/admin/payouts`.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    auth::{Admin, Books, Business, not_suspended},
    endpoints::{Body, Subject},
    error::ApiError,
    page::{Asked, At, Limit, bad_cursor},
};
use crate::{
    app::App,
    base::id::{PayoutId, ReceiptId},
    money::payout::{Decision, Packet, PayoutError, SettingsDraft, Status, Verdict},
};

impl Subject for SettingsDraft {
    const CODE: &'static str = "invalid_payout";
}

impl Subject for Verdict {
    const CODE: &'static str = "invalid_decision";
}

/// Where payouts go; `null` before it was said.
pub(super) async fn settings(Books(builder): Books, State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({ "ok": true, "payoutSettings": app.payouts.settings(&builder.id).await? })))
}

pub(super) async fn set(
    Business(builder): Business,
    State(app): State<Arc<App>>,
    Body(draft): Body<SettingsDraft>,
) -> Result<Json<Value>, ApiError> {
    not_suspended(&builder)?;
    let settings = app.payouts.set(&builder.id, &draft).await?;
    tracing::info!(builder.id = %builder.id, "payout settings were set");
    Ok(Json(json!({ "ok": true, "payoutSettings": settings })))
}

/// A packet of all that waits.
pub(super) async fn pay_out(Business(builder): Business, State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    not_suspended(&builder)?;
    // On a task of its own: a caller who hangs up leaves no packet half collected.
    let collecting = tokio::spawn(async move { app.payouts.pay_out(&builder.id).await });
    let packet = collecting.await.map_err(|error| {
        tracing::error!(%error, "a payout ended abnormally");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the host failed")
    })??;
    let empty = || json!({ "id": null, "status": "empty", "amountUsd": 0, "receiptCount": 0 });
    Ok(Json(json!({ "ok": true, "payout": packet.as_ref().map_or_else(empty, Packet::public) })))
}

#[derive(Deserialize)]
pub(super) struct Query {
    status: Option<Status>,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

pub(super) async fn list(Books(builder): Books, State(app): State<Arc<App>>, Asked(asked): Asked<Query>) -> Result<Json<Value>, ApiError> {
    let (packets, next) = app.payouts.list(&builder.id, asked.limit.0, cursor(asked.cursor)?.as_ref()).await?;
    Ok(page(&packets, next))
}

/// One packet, with its receipts.
pub(super) async fn one(
    Books(builder): Books,
    State(app): State<Arc<App>>,
    At(id): At<String>,
    Asked(asked): Asked<Query>,
) -> Result<Json<Value>, ApiError> {
    let id = payout(&id)?;
    let packet = app.payouts.get(&builder.id, &id).await?;
    let cursor = asked.cursor.map(|cursor| cursor.parse::<ReceiptId>().map_err(|_| bad_cursor())).transpose()?;
    let receipts = app.payouts.receipts(&id, asked.limit.0, cursor.as_ref().map(ReceiptId::as_str)).await?;
    let shown: Vec<_> = receipts.iter().map(|(id, net)| json!({ "receiptId": id, "netUsd": net })).collect();
    let mut answer = json!({ "ok": true, "payout": packet.public(), "receipts": shown });
    if let Some((last, _)) = receipts.last().filter(|_| receipts.len() == asked.limit.0) {
        answer["nextCursor"] = json!(last);
    }
    Ok(Json(answer))
}

/// The packets of all builders.
pub(super) async fn list_all(_: Admin, State(app): State<Arc<App>>, Asked(asked): Asked<Query>) -> Result<Json<Value>, ApiError> {
    let (packets, next) = app.payouts.list_all(asked.status, asked.limit.0, cursor(asked.cursor)?.as_ref()).await?;
    Ok(page(&packets, next))
}

pub(super) async fn decide(
    _: Admin,
    State(app): State<Arc<App>>,
    At(id): At<String>,
    Body(verdict): Body<Verdict>,
) -> Result<Json<Value>, ApiError> {
    let id = payout(&id)?;
    if verdict.decision == Decision::Approve
        && let Some(builder) = app.builders.get(&app.payouts.builder_of(&id).await?).await?
    {
        not_suspended(&builder)?;
    }
    let packet = app.payouts.decide(&id, &verdict).await.map_err(|error| match error {
        PayoutError::Field { pointer, message } => ApiError::invalid(Verdict::CODE, message, pointer),
        other => other.into(),
    })?;
    tracing::info!(payout.id = %packet.id, payout.status = packet.status.as_str(), "a payout was decided on");
    Ok(Json(json!({ "ok": true, "payout": packet.public() })))
}

fn page(packets: &[Packet], next: Option<PayoutId>) -> Json<Value> {
    let mut answer = json!({ "ok": true, "payouts": packets.iter().map(Packet::public).collect::<Vec<_>>() });
    if let Some(next) = next {
        answer["nextCursor"] = json!(next);
    }
    Json(answer)
}

fn cursor(text: Option<String>) -> Result<Option<PayoutId>, ApiError> {
    text.map(|text| text.parse().map_err(|_| bad_cursor())).transpose()
}

fn payout(id: &str) -> Result<PayoutId, ApiError> {
    id.parse().map_err(|_| PayoutError::Unknown.into())
}

impl From<PayoutError> for ApiError {
    fn from(error: PayoutError) -> Self {
        let message = error.to_string();
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, message.clone());
        match error {
            PayoutError::Field { pointer, .. } => Self::invalid("invalid_payout", message, pointer),
            PayoutError::NoSettings => conflict("payout_settings_missing"),
            PayoutError::BelowMinimum { amount, minimum } => {
                conflict("below_minimum").with("payout", json!({ "amountUsd": amount, "minimumUsd": minimum }))
            }
            PayoutError::Unknown => Self::not_found("unknown_payout", message),
            PayoutError::NotOwner => Self::not_owner(),
            PayoutError::WrongState { from, .. } => conflict("wrong_state").with("status", json!(from)),
            PayoutError::Store(store) => store.into(),
        }
    }
}
