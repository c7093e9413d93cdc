//! `/ai/quote`, `/ai/conversion/quote` and `/x402/quote`: total costs of calls, here and at other sellers.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_call::{QuoteDesk, SellerMethod};
use tollhouse_front::{ApiError, Code, body::SMALL_BODY_BYTES, header_names};
use tollhouse_money::RouteStart;

use super::{
    cpu_budget::CpuBudget,
    endpoints::{Body, Subject},
    route::{Route, open},
};

/// The request for the cost of a call to a tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfTool {
    slug: String,
    start_network: Option<String>,
    start_asset: Option<String>,
    from_address: Option<String>,
}

/// The request for a route to a token that a tool accepts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfConversion {
    service_id: String,
    start_network: String,
    start_asset: String,
    from_address: Option<String>,
}

/// The request for the price of another seller.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfSeller {
    url: String,
    method: Option<SellerMethod>,
    start_network: Option<String>,
    start_asset: Option<String>,
    from_address: Option<String>,
}

impl Subject for OfTool {
    const CODE: Code = Code::InvalidMember;
}

impl Subject for OfConversion {
    const CODE: Code = Code::InvalidMember;
}

impl Subject for OfSeller {
    const CODE: Code = Code::InvalidMember;
}

/// Error codes of quotes with a route.
const ROUTE_FIELDS: &[Code] = &[Code::InvalidMember, Code::UnknownEndpoint, Code::EndpointPaused, Code::NoRoute, Code::RoutesUnavailable];

pub(super) fn routes() -> Vec<Route> {
    let of_sellers = [Code::InvalidMember, Code::NotPaid, Code::NoRoute, Code::SellerUnreachable, Code::SellerUnreadable];
    vec![
        open::post("/ai/quote", "quoteTool", "a price of a tool that holds for a while, named by `X-Quote-Id`", tool)
            .takes("QuoteRequest")
            .answers("Quote")
            .for_agents()
            .fails(ROUTE_FIELDS),
        open::post("/ai/conversion/quote", "quoteConversion", "the way from what a payer holds to what a tool is paid in", conversion)
            .takes("ConversionRequest")
            .answers("ConversionQuote")
            .for_agents()
            .fails(ROUTE_FIELDS),
        open::post("/x402/quote", "quoteSeller", "what an external seller asks for", seller)
            .takes("SellerQuoteRequest")
            .answers("SellerQuote")
            .for_agents()
            .fails(&of_sellers)
            .fails(&[Code::RoutesUnavailable]),
    ]
}

/// Returns the funds that the payer starts with, if a network or token is given.
fn start(network: Option<String>, asset: Option<String>, address: Option<String>) -> Option<RouteStart> {
    (network.is_some() || asset.is_some()).then_some(RouteStart { network, asset, address })
}

/// `POST /ai/quote`.
async fn tool(
    State(desk): State<Arc<QuoteDesk>>,
    CpuBudget(turn): CpuBudget,
    Body(request): Body<OfTool, SMALL_BODY_BYTES>,
) -> Result<Response, ApiError> {
    let OfTool { slug, start_network, start_asset, from_address } = request;
    let start = start(start_network, start_asset, from_address);
    let quote = desk.tool(&slug, start, &turn).await?;
    let mut response = quote_response(quote.json());
    if let Ok(id) = HeaderValue::from_str(&quote.quote_id) {
        response.headers_mut().insert(&header_names::QUOTE_ID, id);
    }
    Ok(response)
}

/// `POST /ai/conversion/quote`.
async fn conversion(
    State(desk): State<Arc<QuoteDesk>>,
    CpuBudget(turn): CpuBudget,
    Body(request): Body<OfConversion, SMALL_BODY_BYTES>,
) -> Result<Response, ApiError> {
    let OfConversion { service_id, start_network, start_asset, from_address } = request;
    let start = RouteStart { network: Some(start_network), asset: Some(start_asset), address: from_address };
    let (terms, route) = desk.conversion(&service_id, &start, &turn).await?;
    let mut answer = json!(route);
    answer["service"] = json!({ "serviceId": terms.slug, "priceUsd": terms.price, "url": terms.resource_url });
    Ok(quote_response(answer))
}

/// `POST /x402/quote`.
async fn seller(
    State(desk): State<Arc<QuoteDesk>>,
    CpuBudget(turn): CpuBudget,
    Body(request): Body<OfSeller, SMALL_BODY_BYTES>,
) -> Result<Response, ApiError> {
    let OfSeller { url, method, start_network, start_asset, from_address } = request;
    let start = start(start_network, start_asset, from_address);
    let (quote, route) = desk.seller((&url, method), start, &turn).await?;
    let mut answer = json!(quote);
    answer["conversion"] = json!(route);
    Ok(quote_response(answer))
}

/// Returns a response that must not be cached, because a quote is valid only briefly.
fn quote_response(mut answer: Value) -> Response {
    answer["ok"] = json!(true);
    ([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(answer)).into_response()
}
