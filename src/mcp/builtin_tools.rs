//! Built-in tools. They look things up, are free and have no receipts.

use std::{net::IpAddr, sync::Arc};

use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_catalog::{EndpointFilter, Entry, ShownEndpoint, search::Query};
use tollhouse_front::{ApiError, Code};
use tollhouse_money::RouteStart;
use tollhouse_tool::MicroUsd;

use super::{
    arguments::Arguments,
    services::Services,
    tool_entry::{SEARCH, of},
    tool_filter::ToolFilter,
};

const RECEIPT: &str = "get_receipt";

const QUOTE: &str = "quote_tool";

/// Maximum name of a network, an asset or a tool in arguments, in characters.
const MAX_NAME: usize = 128;

const FOUND: usize = 10;
const MAX_FOUND: usize = 50;
const MAX_TAGS: usize = 16;

/// Returns the tools in MCP form.
pub(super) fn tools() -> Vec<Tool> {
    let search = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 1, "maxLength": Query::MAX_CHARS, "description": "What you need, in a few words or as a question" },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": MAX_TAGS, "description": "Only tools that have all of these" },
            "maxPriceUsd": { "type": "number", "minimum": 0, "description": "Only tools that cost at most this for a call; 0 for free ones" },
            "limit": { "type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": FOUND },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    let receipt = json!({
        "type": "object",
        "properties": { "receiptId": { "type": "string", "description": "As a result's `_meta[\"tollhouse/receipt\"]` gives it" } },
        "required": ["receiptId"],
        "additionalProperties": false,
    });
    let named = |what: &str| json!({ "type": "string", "maxLength": MAX_NAME, "description": what });
    let quote = json!({
        "type": "object",
        "properties": {
            "name": named("The tool's, as it is listed"),
            "startNetwork": named("Where your money is, to get a route from there: `base`, `eip155:1`, `bank` …"),
            "startAsset": named("The asset that you have: `USDC`, `ETH`, `EUR` …"),
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    vec![
        tool(SEARCH, "Search tools", "Finds tools of this host by words, with their prices. Free.", search),
        tool(
            QUOTE,
            "Quote a tool",
            "Returns the full cost of a call, at a price that is valid for some minutes. Send its `quoteId` in the call's `_meta[\"tollhouse/quoteId\"]`. Free.",
            quote,
        ),
        tool(RECEIPT, "Get a receipt", "Returns the signed receipt of a call. Free.", receipt),
    ]
}

fn tool(name: &'static str, title: &str, description: &'static str, input: Value) -> Tool {
    let Value::Object(input) = input else { unreachable!("our schemas are objects") };
    let annotations = ToolAnnotations::with_title(title).read_only(true).open_world(false);
    Tool::new(name, description, Arc::new(input)).with_title(title).with_annotations(annotations)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchParams {
    query: String,
    #[serde(default)]
    tags: Vec<String>,
    max_price_usd: Option<MicroUsd>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuoteParams {
    #[serde(alias = "slug")]
    name: String,
    start_network: Option<String>,
    start_asset: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReceiptParams {
    receipt_id: String,
}

/// Performs a built-in tool. Returns `None` if `name` is not one.
pub(super) async fn perform(
    services: &Services,
    address: IpAddr,
    filter: &ToolFilter,
    name: &str,
    arguments: &Arguments,
) -> Option<Result<CallToolResult, ApiError>> {
    match name {
        SEARCH => Some(search(services, address, filter, arguments).await),
        QUOTE => Some(quote(services, address, filter, arguments).await),
        RECEIPT => Some(receipt(services, arguments).await),
        _ => None,
    }
}

async fn search(services: &Services, address: IpAddr, filter: &ToolFilter, arguments: &Arguments) -> Result<CallToolResult, ApiError> {
    let search = arguments.read().await?;
    services.shared.limits.turn(address).await?.during(find(services, filter, search)).await
}

fn invalid(message: String) -> ApiError {
    ApiError::new(Code::InvalidInput, message)
}

async fn find(services: &Services, filter: &ToolFilter, search: SearchParams) -> Result<CallToolResult, ApiError> {
    let words = Query::parse(&search.query).map_err(|_| invalid(format!("`query` must have at most {} characters", Query::MAX_CHARS)))?;
    if search.tags.len() > MAX_TAGS {
        return Err(invalid(format!("`tags` must have at most {MAX_TAGS} entries")));
    }
    let limit = search.limit.unwrap_or(FOUND);
    if !(1..=MAX_FOUND).contains(&limit) {
        return Err(invalid(format!("`limit` must be 1 to {MAX_FOUND}")));
    }
    let criteria = EndpointFilter { tags: search.tags, pricing: None, max_price: search.max_price_usd };
    let matches = |entry: &Entry| criteria.takes(entry) && entry.is_tool() && filter.has(&services.settings.name_of(&entry.slug));
    let found = services.catalog.all().search(&words, 0, limit, matches)?;
    let mut tools = Vec::with_capacity(found.items.len());
    let take = |shown: Arc<ShownEndpoint>| {
        let endpoint = &shown.endpoint;
        tools.extend(of(&shown).map(|listed| {
            json!({ "name": listed.name, "title": endpoint.title, "description": endpoint.description, "priceUsd": endpoint.price_usd, "tags": endpoint.tags })
        }));
        true
    };
    services.catalog.fill(found.items.iter(), take).await?;
    Ok(json_result(json!({ "tools": tools, "total": found.total })))
}

async fn quote(services: &Services, address: IpAddr, filter: &ToolFilter, arguments: &Arguments) -> Result<CallToolResult, ApiError> {
    let QuoteParams { name, start_network, start_asset } = arguments.read().await?;
    if !filter.has(&name) {
        return Err(ApiError::unknown_endpoint(&name.chars().take(MAX_NAME).collect::<String>()));
    }
    let has_start = start_network.is_some() || start_asset.is_some();
    let start = has_start.then_some(RouteStart { network: start_network, asset: start_asset, address: None });
    let turn = services.shared.limits.turn(address).await?;
    let slug = services.settings.slug_of(&name);
    let quote = services.desk.tool(&slug, start, &turn).await?;
    Ok(json_result(quote.json()))
}

async fn receipt(services: &Services, arguments: &Arguments) -> Result<CallToolResult, ApiError> {
    let ReceiptParams { receipt_id: id } = arguments.read().await?;
    let unknown = || ApiError::new(Code::UnknownReceipt, format!("no receipt has the id `{}`", id.chars().take(64).collect::<String>()));
    let receipt = services.receipts.find(&id).await?.ok_or_else(unknown)?;
    Ok(json_result(json!({ "receipt": receipt })))
}

fn json_result(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}
