//! `/ai/quote`, `/ai/conversion/quote` and `/x402/quote`: total costs of calls, here and at other sellers.

use serde::Serialize;
use serde_json::json;
use tollhouse_api::{
    ConversionQuote, ConversionRequest, ConversionService, QuoteRequest, QuoteResponse, SellerQuote, SellerQuoteRequest, True,
};
use tollhouse_front::{Code, body::SMALL_BODY_BYTES, header_names};
use tollhouse_money::RouteStart;

use crate::{Answer, Body, CpuBudget, HeaderValue, Http, IntoResponse as _, Json, Response, Route, State, codes, header, open};

/// Error codes of quotes with a route.
const ROUTE_FIELDS: &[Code] = codes![InvalidMember UnknownEndpoint EndpointPaused NoRoute RoutesUnavailable SourceUnavailable];

pub(super) fn routes() -> Vec<Route> {
    let seller_codes = [Code::InvalidMember, Code::NotPaid, Code::NoRoute, Code::SellerUnreachable, Code::SellerUnreadable];
    vec![
        open::post(
            "/ai/quote",
            "quoteTool",
            "quotes a price of a tool that is valid for a limited time, with an id for `X-Quote-Id`",
            tool,
        )
        .takes("QuoteRequest")
        .answers("Quote")
        .for_agents()
        .fails(ROUTE_FIELDS),
        open::post(
            "/ai/conversion/quote",
            "quoteConversion",
            "a route from the payer's asset to the asset that a tool accepts",
            conversion,
        )
        .takes("ConversionRequest")
        .answers("ConversionQuote")
        .for_agents()
        .fails(ROUTE_FIELDS),
        open::post("/x402/quote", "quoteSeller", "the price and terms of an external seller", seller)
            .takes("SellerQuoteRequest")
            .answers("SellerQuote")
            .for_agents()
            .fails(&seller_codes)
            .fails(&[Code::RoutesUnavailable]),
    ]
}

/// Returns the funds that the payer starts with, if a network or token is given.
fn start(network: Option<String>, asset: Option<String>, address: Option<String>) -> Option<RouteStart> {
    (network.is_some() || asset.is_some()).then_some(RouteStart { network, asset, address })
}

/// `POST /ai/quote`.
async fn tool(State(http): State<Http>, CpuBudget(turn): CpuBudget, Body(request): Body<QuoteRequest, SMALL_BODY_BYTES>) -> Answer {
    let QuoteRequest { slug, start_network, start_asset, from_address } = request;
    let quote = http.desk.tool(&slug, start(start_network, start_asset, from_address), &turn).await?;
    let mut response = uncached(QuoteResponse { quote: quote.json(), ok: True });
    if let Ok(id) = HeaderValue::from_str(&quote.quote_id) {
        response.headers_mut().insert(&header_names::QUOTE_ID, id);
    }
    Ok(response)
}

/// `POST /ai/conversion/quote`.
async fn conversion(
    State(http): State<Http>,
    CpuBudget(turn): CpuBudget,
    Body(request): Body<ConversionRequest, SMALL_BODY_BYTES>,
) -> Answer {
    let ConversionRequest { service_id, start_network, start_asset, from_address } = request;
    let start = RouteStart { network: Some(start_network), asset: Some(start_asset), address: from_address };
    let (terms, route) = http.desk.conversion(&service_id, &start, &turn).await?;
    let service = ConversionService { service_id: terms.slug.clone(), price_usd: terms.price, url: terms.resource_url.clone() };
    Ok(uncached(ConversionQuote { conversion: json!(route), service, ok: True }))
}

/// `POST /x402/quote`.
async fn seller(State(http): State<Http>, CpuBudget(turn): CpuBudget, Body(request): Body<SellerQuoteRequest, SMALL_BODY_BYTES>) -> Answer {
    let SellerQuoteRequest { url, method, start_network, start_asset, from_address } = request;
    let (quote, route) = http.desk.seller((&url, method), start(start_network, start_asset, from_address), &turn).await?;
    Ok(uncached(SellerQuote { price: json!(quote), conversion: route.map(|route| json!(route)), ok: True }))
}

/// Returns a response that must not be cached, because a quote is valid only briefly.
fn uncached(quote: impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(quote)).into_response()
}
