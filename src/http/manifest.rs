//! `GET /ai/endpoints` and `GET /ai/manifest`: the catalog and the manifest, for programs.

use std::sync::Arc;

use axum::extract::RawQuery;
use serde_json::{Map, Value, json};
use tollhouse_api::{
    BuilderRules, CatalogEnvelope, ContentSafetyRules, EndpointsInfo, Manifest, McpInfo, QuotesInfo, ReceiptsInfo, ServiceInfo, True,
};
use tollhouse_catalog::ShownEndpoint;
use tollhouse_tool::{CatalogForm, HandlerType};

use crate::{
    Answer, CpuBudget, Http, IntoResponse as _, Json, Route, State, convert, header,
    listing::{Listing, with_records},
    open,
    record_extras::ExtraMembers,
};

/// Version of the interface description.
const INTERFACE_VERSION: &str = "0.2.0";

const CATALOG_SCHEMA: &str = "tollhouse.x402.hosted-endpoint-catalog.v1";

pub(super) fn routes() -> Vec<Route> {
    vec![
        open::get("/ai/endpoints", "listTools", "the catalog: slugs, prices, schemas; searched by words", catalog)
            .query(&["q", "near", "tag", "price", "maxPriceUsd", "sort", "limit", "cursor", "form"])
            .answers("Catalog")
            .for_agents(),
        open::get("/ai/manifest", "getManifest", "payment methods, and the addresses of everything", manifest)
            .answers("Manifest")
            .for_agents(),
    ]
}

/// Returns a page of the catalog.
async fn catalog(State(http): State<Http>, CpuBudget(turn): CpuBudget, RawQuery(query): RawQuery) -> Answer {
    let listing = Listing::read(query.as_deref().unwrap_or_default())?;
    let page = turn.during(listing.page(&http.catalog)).await?;
    let mut tools = Vec::with_capacity(page.tools.len());
    for live in page.tools {
        let answer = match listing.form {
            CatalogForm::Newer => Some(http.extra_members(&live).await),
            CatalogForm::Older => None,
        };
        tools.push((live, answer));
    }
    let records = turn.work(|| records(listing.form, &tools));
    let envelope = CatalogEnvelope { total: page.total, next_cursor: page.next, ..envelope(&http.base_url, listing.form) };
    let body = with_records(&envelope, &records);
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Initial buffer capacity for a record, in bytes.
const USUAL_BYTES: usize = 1 << 10;

/// Writes records with their additional fields, separated by commas.
fn records(form: CatalogForm, tools: &[(Arc<ShownEndpoint>, Option<ExtraMembers>)]) -> Vec<u8> {
    let mut json = Vec::with_capacity(tools.len() * USUAL_BYTES);
    for (live, reported) in tools {
        if !json.is_empty() {
            json.push(b',');
        }
        live.record.write(form, &mut json);
        if let Some(reported) = reported {
            reported.write(&mut json);
        }
    }
    json
}

/// Returns the envelope of an empty page.
fn envelope(base: &str, form: CatalogForm) -> CatalogEnvelope {
    let newer = form == CatalogForm::Newer;
    let mut lifecycle = texts([
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
    ]);
    if newer {
        lifecycle.insert("contentSafetyPolicy".to_owned(), format!("GET {base}/ai/content-safety/policy").into());
    }
    CatalogEnvelope {
        ok: True,
        schema: CATALOG_SCHEMA.into(),
        dashboard: format!("{base}/dashboard"),
        create_endpoint: format!("{base}/ai/endpoints/create"),
        lifecycle,
        builder_controls: texts([
            ("register", format!("{base}/ai/builders/register")),
            ("revenue", format!("{base}/ai/builders/revenue")),
            ("events", format!("{base}/ai/builders/events")),
            ("payoutSettings", format!("{base}/ai/builders/payout-settings")),
            ("payouts", format!("{base}/ai/builders/payouts")),
            ("docs", format!("{base}/guides/x402-agent-payment-infrastructure")),
        ]),
        supported_handler_types: texts(HandlerType::all().map(|kind| (kind.as_str(), kind.what().to_owned()))),
        note: "Free endpoints run without payment. Paid ones answer 402 with an x402 challenge (v2 in the PAYMENT-REQUIRED header, v1 in the body) and charge only for a result that fits the outputSchema; those with `settle: before` charge before they run.".into(),
        content_safety: newer.then(|| ContentSafetyRules {
            policy: format!("{base}/ai/content-safety/policy"),
            self_serve_rule: "Builders create endpoints with safetyAttestation.accepted = true; uploads that appear to contain illegal material, secrets, private data or unauthorized content are blocked or reviewed.".into(),
        }),
        total: 0,
        next_cursor: None,
    }
}

fn texts(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Map<String, Value> {
    pairs.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
}

async fn manifest(State(http): State<Http>) -> Json<Manifest<Value>> {
    let base = &http.base_url;
    let counts = http.catalog.all().counts();
    let in_force = http.catalog.policy();
    let policy = &in_force.policy;
    Json(Manifest {
        ok: True,
        service: ServiceInfo {
            name: "Tollhouse".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            interface_version: INTERFACE_VERSION.into(),
            description: "A host for paid JavaScript tools: agents call them over HTTP and pay per call with x402.".into(),
            url: base.clone(),
        },
        payment: http.payments.describe(),
        mcp: McpInfo { url: format!("{base}/ai/mcp"), transport: "streamable-http".into() },
        endpoints: EndpointsInfo {
            catalog: format!("{base}/ai/endpoints"),
            invoke: format!("{base}/ai/invoke"),
            call: format!("{base}/tools/{{slug}}"),
            count: counts.listed,
            paid: counts.paid,
            calls24h: http.metrics.figures_of_all().map(|figures| figures.calls),
        },
        quotes: QuotesInfo {
            url: format!("{base}/ai/quote"),
            conversion: format!("{base}/ai/conversion/quote"),
            external: format!("{base}/x402/quote"),
            mcp_tool: "quote_tool".into(),
            header: "X-Quote-Id".into(),
            mcp_meta: "tollhouse/quoteId".into(),
        },
        receipts: ReceiptsInfo {
            url: format!("{base}/ai/receipts/{{receiptId}}"),
            payments: format!("{base}/ai/payments/{{paymentId}}"),
            keys: format!("{base}/.well-known/jwks.json"),
            signature: "JWS (EdDSA) over the RFC 8785 canonical JSON of the record".into(),
            verify: "tollhouse verify-receipt FILE|URL".into(),
            offers: http.signer.offers_by(),
        },
        // Builders would otherwise learn these from errors.
        builders: BuilderRules {
            capabilities: policy.builder_capabilities,
            limits: convert::limits(&policy.limits),
            require_review: policy.require_review,
            max_endpoints: policy.max_endpoints_per_builder,
            fee_bps: http.fee.0,
        },
        sandbox: json!(http.pool.status()),
    })
}
