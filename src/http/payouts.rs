//! `/ai/builders/payout-settings`, `/ai/builders/payouts` and `/ai/admin/payouts`: payouts to builders.

use std::sync::Arc;

use axum::{Json, extract::State, http::HeaderMap, response::Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::id::{BuilderId, PayoutId, ReceiptId};
use tollhouse_front::{AboutBody as _, ApiError, Code, not_suspended};
use tollhouse_money::payout::{Packet, PayoutAction, PayoutDecision, PayoutError, PayoutSettings, PayoutStatus, SettingsDraft};

use super::{
    auth::{Admin, ForBuilder, ForBuilderReadOnly, OfBuilder},
    endpoints::{Body, Subject, if_match, with_etag},
    page::{PageLimit, PathParams, bad_cursor, paged},
    route::{Route, get, post},
    services::MoneyServices,
};

impl Subject for SettingsDraft {
    const CODE: Code = Code::InvalidPayout;
}

impl Subject for PayoutDecision {
    const CODE: Code = Code::InvalidDecision;
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(
            "/ai/builders/payout-settings",
            "getPayoutSettings",
            "where payouts go, `null` before it was said; and what waits for one",
            settings,
        )
        .answers("PayoutSettingsResponse"),
        post("/ai/builders/payout-settings", "setPayoutSettings", "says where payouts go", set)
            .reads_headers(&["If-Match"])
            .takes("PayoutSettingsDraft")
            .answers("PayoutSettingsResponse")
            .fails(&[Code::InvalidPayout, Code::RevisionChanged]),
        get("/ai/builders/payouts", "listPayouts", "the builder's packets, newest first", list).answers("PayoutPage"),
        post("/ai/builders/payouts", "makePayout", "makes a packet of all that waits", pay_out)
            .answers("CreatePayoutResponse")
            .fails(&[Code::PayoutSettingsMissing, Code::BelowMinimum]),
        get("/ai/builders/payouts/{id}", "getPayout", "one packet, with its receipts", one)
            .answers("PayoutReceiptPage")
            .fails(&[Code::UnknownPayout]),
        get("/ai/admin/payouts", "listAllPayouts", "the packets of all builders, and how many there are of each state", list_all)
            .answers("AllPayoutsPage"),
        post("/ai/admin/payouts/{id}", "decidePayout", "decides on a packet", decide)
            .takes("PayoutVerdict")
            .answers("PayoutResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownPayout, Code::WrongState]),
    ]
}

async fn settings(
    ForBuilderReadOnly(builder, _): ForBuilderReadOnly,
    State(earning): State<Arc<MoneyServices>>,
) -> Result<Response, ApiError> {
    let settings = earning.payouts.settings(&builder.id).await?;
    settings_response(&earning, &builder.id, settings.as_ref()).await
}

/// Returns the payout settings with their revision as `ETag`, which is 0 before any were set, and the amount waiting
/// for a payout.
async fn settings_response(earning: &MoneyServices, builder: &BuilderId, settings: Option<&PayoutSettings>) -> Result<Response, ApiError> {
    let revision = settings.map_or(0, |settings| settings.revision);
    Ok(with_etag(revision, json!({ "ok": true, "payoutSettings": settings, "waiting": earning.payouts.waits(builder).await? })))
}

async fn set(
    ForBuilder(builder, _): ForBuilder,
    State(earning): State<Arc<MoneyServices>>,
    headers: HeaderMap,
    Body(draft): Body<SettingsDraft>,
) -> Result<Response, ApiError> {
    not_suspended(&builder)?;
    let settings = earning.payouts.set(&builder.id, &draft, if_match(&headers)?).await?;
    tracing::info!(builder.id = %builder.id, "payout settings were set");
    settings_response(&earning, &builder.id, Some(&settings)).await
}

async fn pay_out(ForBuilder(builder, _): ForBuilder, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Value>, ApiError> {
    not_suspended(&builder)?;
    let packet = earning.payouts.pay_out(&builder.id).await?;
    let empty = || json!({ "id": null, "status": "empty", "amountUsd": 0, "receiptCount": 0 });
    Ok(Json(json!({ "ok": true, "payout": packet.as_ref().map_or_else(empty, Packet::public) })))
}

/// The query for a page of a builder's payouts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    builder_id: Option<String>,
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

impl OfBuilder for Own {
    fn builder_id(&self) -> Option<&str> {
        self.builder_id.as_deref()
    }
}

async fn list(
    ForBuilderReadOnly(builder, request): ForBuilderReadOnly<Own>,
    State(earning): State<Arc<MoneyServices>>,
) -> Result<Json<Value>, ApiError> {
    let (packets, next) = earning.payouts.list(&builder.id, request.limit.0, cursor(request.cursor)?.as_ref()).await?;
    Ok(page(&packets, next))
}

async fn one(
    ForBuilderReadOnly(builder, request): ForBuilderReadOnly<Own>,
    State(earning): State<Arc<MoneyServices>>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiError> {
    let id = payout(&id)?;
    let packet = earning.payouts.get(&builder.id, &id).await?;
    let cursor = request.cursor.map(|cursor| cursor.parse::<ReceiptId>().map_err(|_| bad_cursor())).transpose()?;
    let receipts = earning.payouts.receipts(&id, request.limit.0, cursor.as_ref().map(ReceiptId::as_str)).await?;
    let shown: Vec<_> = receipts.iter().map(|(id, net)| json!({ "receiptId": id, "netUsd": net })).collect();
    let mut answer = json!({ "ok": true, "payout": packet.public(), "receipts": shown });
    if let Some((last, _)) = receipts.last().filter(|_| receipts.len() == request.limit.0) {
        answer["nextCursor"] = json!(last);
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    status: Option<PayoutStatus>,
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

async fn list_all(Admin(request): Admin<Query>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Value>, ApiError> {
    let (packets, next) = earning.payouts.list_all(request.status, request.limit.0, cursor(request.cursor)?.as_ref()).await?;
    let mut reported = Vec::with_capacity(packets.len());
    for packet in &packets {
        let mut one = packet.public();
        one["builderName"] = json!(earning.builders.name(&packet.builder_id).await?);
        reported.push(one);
    }
    let mut page = paged("payouts", &reported, next.map(|next| next.to_string()));
    page["counts"] = json!(earning.payouts.counts().await?);
    Ok(page)
}

async fn decide(
    _: Admin,
    State(earning): State<Arc<MoneyServices>>,
    PathParams(id): PathParams<String>,
    Body(verdict): Body<PayoutDecision>,
) -> Result<Json<Value>, ApiError> {
    let id = payout(&id)?;
    if verdict.decision == PayoutAction::Approve
        && let Some(builder) = earning.builders.get(&earning.payouts.builder_of(&id).await?).await?
    {
        not_suspended(&builder)?;
    }
    let packet = earning.payouts.decide(&id, &verdict).await.map_err(|error| error.about(PayoutDecision::CODE))?;
    tracing::info!(payout.id = %packet.id, payout.status = packet.status.as_str(), "a payout was decided on");
    Ok(Json(json!({ "ok": true, "payout": packet.public() })))
}

fn page(packets: &[Packet], next: Option<PayoutId>) -> Json<Value> {
    paged("payouts", &packets.iter().map(Packet::public).collect::<Vec<_>>(), next.map(|next| next.to_string()))
}

fn cursor(text: Option<String>) -> Result<Option<PayoutId>, ApiError> {
    text.map(|text| text.parse().map_err(|_| bad_cursor())).transpose()
}

fn payout(id: &str) -> Result<PayoutId, ApiError> {
    id.parse().map_err(|_| PayoutError::Unknown.into())
}
