//! Tools of the front itself: they look things up, cost nothing and have no receipt.

use std::{net::IpAddr, sync::Arc};

use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

use super::tools::{self, Narrowed};
use crate::{
    app::App,
    base::misfit::{self, Misfit},
    catalog::{Filter, Live, search::Query},
    http::turn,
    tool::MicroUsd,
};

/// Finds tools by words.
pub(super) const SEARCH: &str = "search_tools";
/// Answers a receipt.
pub(super) const RECEIPT: &str = "get_receipt";

/// Tools that a search answers, unless it says how many.
const FOUND: usize = 10;
/// Most tools that a search answers.
const MAX_FOUND: usize = 50;
/// Most tags that a search names.
const MAX_TAGS: usize = 16;

/// How they are listed.
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
    vec![
        own(SEARCH, "Search tools", "Finds tools of this host by words, with their prices. Free.", search),
        own(RECEIPT, "Get a receipt", "Answers the signed receipt of a call: what was paid, run and answered. Free.", receipt),
    ]
}

fn own(name: &'static str, title: &str, description: &'static str, input: Value) -> Tool {
    let Value::Object(input) = input else { unreachable!("our schemas are objects") };
    let annotations = ToolAnnotations::with_title(title).read_only(true).open_world(false);
    Tool::new(name, description, Arc::new(input)).with_title(title).with_annotations(annotations)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Search {
    query: String,
    #[serde(default)]
    tags: Vec<String>,
    max_price_usd: Option<MicroUsd>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Receipt {
    receipt_id: String,
}

/// Performs one of them; `None` when `name` is none of them.
pub(super) async fn perform(app: &App, address: IpAddr, narrowed: &Narrowed, name: &str, arguments: &Value) -> Option<CallToolResult> {
    match name {
        SEARCH => Some(match misfit::json(arguments) {
            Ok(search) => match turn(app, address).await {
                Ok(turn) => turn.work(|| found(app, narrowed, search)),
                Err(over) => mistake(format!("{}: {}", over.code(), over.message())),
            },
            Err(Misfit { message, .. }) => mistake(format!("invalid_input: {message}")),
        }),
        RECEIPT => Some(match misfit::json(arguments) {
            Ok(Receipt { receipt_id }) => receipt(app, &receipt_id).await,
            Err(Misfit { message, .. }) => mistake(format!("invalid_input: {message}")),
        }),
        _ => None,
    }
}

fn found(app: &App, narrowed: &Narrowed, search: Search) -> CallToolResult {
    let Ok(words) = Query::parse(&search.query) else {
        return mistake(format!("invalid_input: `query` has at most {} characters", Query::MAX_CHARS));
    };
    if search.tags.len() > MAX_TAGS {
        return mistake(format!("invalid_input: `tags` has at most {MAX_TAGS} entries"));
    }
    let limit = search.limit.unwrap_or(FOUND);
    if !(1..=MAX_FOUND).contains(&limit) {
        return mistake(format!("invalid_input: `limit` is 1 to {MAX_FOUND}"));
    }
    let filter = Filter { tags: search.tags, pricing: None, max_price: search.max_price_usd };
    let wanted = |live: &Live| filter.takes(&live.endpoint) && tools::of(live).is_some_and(|listed| narrowed.has(&listed.tool.name));
    let found = app.catalog.all().search(&words, 0, limit, wanted);
    let tools = found.items.iter().filter_map(|live| Some((tools::of(live)?, &live.endpoint))).map(|(listed, endpoint)| {
        json!({ "name": listed.tool.name, "title": endpoint.title, "description": endpoint.description, "priceUsd": endpoint.price_usd, "tags": endpoint.tags })
    });
    let tools: Vec<_> = tools.collect();
    answered(json!({ "tools": tools, "total": found.total }))
}

async fn receipt(app: &App, id: &str) -> CallToolResult {
    match app.receipt(id).await {
        Ok(Some(receipt)) => answered(json!({ "receipt": receipt })),
        Ok(None) => mistake(format!("unknown_receipt: no receipt `{}`", id.chars().take(64).collect::<String>())),
        Err(error) => {
            tracing::error!(%error, "the store did not answer a request");
            mistake("store_unavailable: the store is away".to_owned())
        }
    }
}

fn answered(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}

fn mistake(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}
