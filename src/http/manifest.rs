//! `GET /ai/endpoints` and `GET /ai/manifest`: what is offered here, for programs.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{error::ApiError, page::Asked};
use crate::{
    app::App,
    tool::{CatalogForm, HandlerType},
};

/// Version of the interface description.
const INTERFACE_VERSION: &str = "0.2.0";

const CATALOG_SCHEMA: &str = "tollhouse.x402.hosted-endpoint-catalog.v1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    form: Option<FormName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormName {
    Newer,
    Older,
}

pub(super) async fn catalog(State(app): State<Arc<App>>, Asked(Form { form }): Asked<Form>) -> Result<Json<Value>, ApiError> {
    let form = match form {
        Some(FormName::Older) => CatalogForm::Older,
        Some(FormName::Newer) | None => CatalogForm::Newer,
    };
    let base = &app.base_url;
    let endpoints: Vec<_> =
        app.catalog.all().values().filter(|live| live.endpoint.listed()).map(|live| live.endpoint.public(base, form)).collect();
    let mut lifecycle: Map<String, Value> = [
        ("builderRegister", format!("POST {base}/ai/builders/register")),
        ("create", format!("POST {base}/ai/endpoints/create")),
        ("inspect", format!("GET {base}/ai/endpoints/{{slug}}")),
        ("update", format!("PATCH {base}/ai/endpoints/{{slug}}")),
        ("pause", format!("PATCH {base}/ai/endpoints/{{slug}} {{\"status\":\"paused\"}}")),
        ("resume", format!("PATCH {base}/ai/endpoints/{{slug}} {{\"status\":\"active\"}}")),
        ("delete", format!("DELETE {base}/ai/endpoints/{{slug}}")),
        ("logs", format!("GET {base}/ai/endpoints/{{slug}}/logs")),
        ("secrets", format!("GET|POST {base}/ai/endpoints/{{slug}}/secrets")),
        ("revenue", format!("GET {base}/ai/builders/revenue?since=30d")),
        ("events", format!("GET {base}/ai/builders/events?since=7d")),
        ("payoutSettings", format!("GET|POST {base}/ai/builders/payout-settings")),
        ("payoutPackets", format!("GET|POST {base}/ai/builders/payouts")),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_owned(), Value::String(text)))
    .collect();
    if form == CatalogForm::Newer {
        lifecycle.insert("contentSafetyPolicy".to_owned(), json!(format!("GET {base}/ai/content-safety/policy")));
    }
    let handler_types: Map<String, Value> = HandlerType::ALL.iter().map(|(kind, what)| (kind.as_str().to_owned(), json!(what))).collect();
    let mut envelope = json!({
        "ok": true,
        "schema": CATALOG_SCHEMA,
        "dashboard": format!("{base}/dashboard"),
        "createEndpoint": format!("{base}/ai/endpoints/create"),
        "lifecycle": lifecycle,
        "builderControls": {
            "register": format!("{base}/ai/builders/register"),
            "revenue": format!("{base}/ai/builders/revenue"),
            "events": format!("{base}/ai/builders/events"),
            "payoutSettings": format!("{base}/ai/builders/payout-settings"),
            "payouts": format!("{base}/ai/builders/payouts"),
            "docs": format!("{base}/guides/x402-agent-payment-infrastructure"),
        },
        "supportedHandlerTypes": handler_types,
        "note": "Free endpoints run without payment. Paid ones answer 402 with an x402 challenge (v2 in the PAYMENT-REQUIRED header, v1 in the body) and charge only for a result that fits the outputSchema.",
        "endpoints": endpoints,
    });
    if form == CatalogForm::Newer {
        envelope["contentSafety"] = json!({
            "policy": format!("{base}/ai/content-safety/policy"),
            "selfServeRule": "Builders create endpoints with safetyAttestation.accepted = true; uploads that appear to contain illegal material, secrets, private data or unauthorized content are blocked or reviewed.",
        });
    }
    Ok(Json(envelope))
}

pub(super) async fn manifest(State(app): State<Arc<App>>) -> Json<Value> {
    let base = &app.base_url;
    let catalog = app.catalog.all();
    let listed: Vec<_> = catalog.values().filter(|live| live.endpoint.listed()).collect();
    let paid = listed.iter().filter(|live| !live.endpoint.price_usd.is_zero()).count();
    Json(json!({
        "ok": true,
        "service": {
            "name": "Tollhouse",
            "version": env!("CARGO_PKG_VERSION"),
            "interfaceVersion": INTERFACE_VERSION,
            "description": "A host for paid JavaScript tools: agents call them over HTTP and pay per call with x402.",
            "url": base,
        },
        "payment": app.gate.describe(),
        "mcp": { "url": format!("{base}/ai/mcp"), "transport": "streamable-http" },
        "endpoints": {
            "catalog": format!("{base}/ai/endpoints"),
            "invoke": format!("{base}/ai/invoke"),
            "call": format!("{base}/tools/{{slug}}"),
            "count": listed.len(),
            "paid": paid,
        },
        "receipts": {
            "url": format!("{base}/ai/receipts/{{receiptId}}"),
            "payments": format!("{base}/ai/payments/{{paymentId}}"),
            "keys": format!("{base}/.well-known/jwks.json"),
            "signature": "JWS (EdDSA) over the RFC 8785 canonical JSON of the record",
            "verify": "tollhouse verify-receipt FILE|URL",
        },
        "sandbox": app.pool.status(),
    }))
}
