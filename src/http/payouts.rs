//! `/ai/builders/payout-settings`, `/ai/builders/payouts` and `/ai/admin/payouts`: payouts to builders.

use tollhouse_api::{
    self as api, AllPayoutsPage, CreatePayoutResponse, CreatedPayout, EmptyPayout, PayoutPage, PayoutReceipt, PayoutReceiptPage,
    PayoutResponse, PayoutSettingsDraft, PayoutSettingsResponse, PayoutVerdict, True,
};
use tollhouse_base::id::{BuilderId, PayoutId, ReceiptId};
use tollhouse_front::{AboutBody as _, ApiError, Code, PathParams, not_suspended};
use tollhouse_money::payout::{DecidedPayout, Packet, PayoutSettings, PayoutStatus};

use crate::{
    Admin, Answer, Body, ForBuilder, ForBuilderReadOnly, HeaderMap, Http, Json, JsonResult, PageLimit, Route, Services, State,
    Subject as _,
    auth::{OfPayout, payout_id},
    convert, get, if_match, last_if_full, parse_cursor, post, query, with_etag,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(
            "/ai/builders/payout-settings",
            "getPayoutSettings",
            "the payout address (`null` if it is not set), and the amounts that wait to be paid out",
            settings,
        )
        .answers("PayoutSettingsResponse"),
        post("/ai/builders/payout-settings", "setPayoutSettings", "sets the payout address", set)
            .reads_headers(&["If-Match"])
            .takes("PayoutSettingsDraft")
            .answers("PayoutSettingsResponse")
            .fails(&[Code::InvalidPayout, Code::RevisionChanged]),
        get("/ai/builders/payouts", "listPayouts", "the builder's payouts, newest first", list).answers("PayoutPage"),
        post("/ai/builders/payouts", "makePayout", "makes a payout of everything that waits to be paid out", pay_out)
            .answers("CreatePayoutResponse")
            .fails(&[Code::PayoutSettingsMissing, Code::BelowMinimum]),
        get("/ai/builders/payouts/{id}", "getPayout", "one payout, with its receipts", one)
            .answers("PayoutReceiptPage")
            .fails(&[Code::UnknownPayout]),
        get("/ai/admin/payouts", "listAllPayouts", "the payouts of all builders, and the number in each state", list_all)
            .answers("AllPayoutsPage"),
        post("/ai/admin/payouts/{id}", "decidePayout", "decides on a payout", decide)
            .takes("PayoutVerdict")
            .answers("PayoutResponse")
            .fails(&[Code::InvalidDecision, Code::UnknownPayout, Code::WrongState]),
    ]
}

async fn settings(ForBuilder(builder, _): ForBuilderReadOnly, State(http): State<Http>) -> Answer {
    let settings = http.payouts.settings(&builder.id).await?;
    settings_response(&http, &builder.id, settings).await
}

/// Returns the payout settings with their revision as `ETag`, which is 0 before any were set, and the amount waiting
/// for a payout.
async fn settings_response(http: &Services, builder: &BuilderId, settings: Option<PayoutSettings>) -> Answer {
    let waiting = http.payouts.waits(builder).await?;
    let revision = settings.as_ref().map_or(0, |settings| settings.revision);
    let payout_settings = settings.map(convert::payout_settings);
    Ok(with_etag(revision, PayoutSettingsResponse { ok: True, payout_settings, waiting }))
}

async fn set(
    ForBuilder(builder, _): ForBuilder,
    State(http): State<Http>,
    headers: HeaderMap,
    Body(draft): Body<PayoutSettingsDraft>,
) -> Answer {
    not_suspended(&builder)?;
    let settings = http.payouts.set(&builder.id, &draft, if_match(&headers)?).await?;
    tracing::info!(builder.id = %builder.id, "payout settings were set");
    settings_response(&http, &builder.id, Some(settings)).await
}

async fn pay_out(ForBuilder(builder, _): ForBuilder, State(http): State<Http>) -> JsonResult<CreatePayoutResponse> {
    not_suspended(&builder)?;
    let payout = match http.payouts.pay_out(&builder.id).await? {
        Some(packet) => CreatedPayout::Payout(Box::new(convert::payout(&packet))),
        None => CreatedPayout::Empty(EmptyPayout { id: (), status: "empty".into(), amount_usd: 0, receipt_count: 0 }),
    };
    Ok(Json(CreatePayoutResponse { ok: True, payout }))
}

query!(Own of_builder { limit: PageLimit, cursor: Option<String> });

async fn list(ForBuilder(builder, request): ForBuilderReadOnly<Own>, State(http): State<Http>) -> JsonResult<PayoutPage> {
    let (packets, next_cursor) = http.payouts.list(&builder.id, request.limit.0, parse_cursor(request.cursor)?.as_ref()).await?;
    let mut payouts = Vec::with_capacity(packets.len());
    for packet in &packets {
        payouts.push(of_builder(&http, packet).await?);
    }
    Ok(Json(PayoutPage { ok: True, payouts, next_cursor }))
}

/// Converts a payout for its builder, with a warning if its transaction is recorded twice.
async fn of_builder(http: &Services, packet: &Packet) -> Result<api::Payout, ApiError> {
    let warning = http.payouts.builders_warning(packet).await?;
    Ok(api::Payout { warning, ..convert::payout(packet) })
}

async fn one(OfPayout { builder, id, requested: request }: OfPayout<Own>, State(http): State<Http>) -> JsonResult<PayoutReceiptPage> {
    let packet = http.payouts.get(&builder, &id).await?;
    let cursor: Option<ReceiptId> = parse_cursor(request.cursor)?;
    let receipts = http.payouts.receipts(&id, request.limit.0, cursor.as_ref().map(ReceiptId::as_str)).await?;
    let next_cursor = last_if_full(&receipts, request.limit).map(|(last, _)| last.clone());
    let receipts = receipts.into_iter().map(|(receipt_id, net_usd)| PayoutReceipt { receipt_id, net_usd }).collect();
    Ok(Json(PayoutReceiptPage { ok: True, payout: of_builder(&http, &packet).await?, receipts, next_cursor }))
}

query!(Query { status: Option<PayoutStatus>, limit: PageLimit, cursor: Option<String> });

async fn list_all(Admin(request): Admin<Query>, State(http): State<Http>) -> JsonResult<AllPayoutsPage> {
    let cursor = parse_cursor::<PayoutId>(request.cursor)?;
    let (packets, next_cursor) = http.payouts.list_all(request.status, request.limit.0, cursor.as_ref()).await?;
    let mut payouts = Vec::with_capacity(packets.len());
    for packet in &packets {
        let name = http.builders.name(&packet.builder_id).await?;
        let warning = http.payouts.warning(packet).await?;
        payouts.push(api::Payout { warning, builder_name: Some(name.map(|name| name.to_string())), ..convert::payout(packet) });
    }
    let counts = http.payouts.counts().await?;
    Ok(Json(AllPayoutsPage { ok: True, payouts, next_cursor, counts }))
}

async fn decide(
    _: Admin,
    State(http): State<Http>,
    PathParams(id): PathParams,
    Body(verdict): Body<PayoutVerdict>,
) -> JsonResult<PayoutResponse> {
    let id = payout_id(&id)?;
    if verdict.decision == api::PayoutDecision::Approve
        && let Some(builder) = http.builders.get(&http.payouts.builder_of(&id).await?).await?
    {
        not_suspended(&builder)?;
    }
    let decided = http.payouts.decide(&id, &verdict).await;
    let DecidedPayout { packet, warning } = decided.map_err(|error| error.about(PayoutVerdict::CODE))?;
    tracing::info!(payout.id = %packet.id, payout.status = packet.status.as_str(), "an admin decided on a payout");
    Ok(Json(PayoutResponse { ok: True, payout: api::Payout { warning, ..convert::payout(&packet) } }))
}
