//! Tools of the front itself: they look things up, cost nothing and have no receipt.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

use super::tools::Narrowed;
use crate::{
    app::App,
    misfit::{self, Misfit},
    tool::Availability,
};

/// Finds tools by words.
pub(super) const SEARCH: &str = "search_tools";
/// Answers a receipt.
pub(super) const RECEIPT: &str = "get_receipt";

/// Tools that a search answers, unless it says how many.
const FOUND: usize = 10;
/// Most tools that a search answers.
const MAX_FOUND: usize = 50;
/// Longest query, in characters.
const MAX_QUERY: usize = 200;

/// How they are listed.
pub(super) fn tools() -> Vec<Tool> {
    let search = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 1, "maxLength": MAX_QUERY, "description": "Words of the name, title, description or tags" },
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
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Receipt {
    receipt_id: String,
}

/// Performs one of them; `None` when `name` is none of them.
pub(super) async fn perform(app: &App, narrowed: &Narrowed, name: &str, arguments: &JsonObject) -> Option<CallToolResult> {
    match name {
        SEARCH => Some(match misfit::members(arguments) {
            Ok(search) => found(app, narrowed, &search),
            Err(Misfit { message, .. }) => mistake(format!("invalid_input: {message}")),
        }),
        RECEIPT => Some(match misfit::members(arguments) {
            Ok(Receipt { receipt_id }) => receipt(app, &receipt_id).await,
            Err(Misfit { message, .. }) => mistake(format!("invalid_input: {message}")),
        }),
        _ => None,
    }
}

fn found(app: &App, narrowed: &Narrowed, search: &Search) -> CallToolResult {
    let words: Vec<_> =
        search.query.chars().take(MAX_QUERY).collect::<String>().to_lowercase().split_whitespace().map(str::to_owned).collect();
    let catalogue = app.catalog.all();
    let active = catalogue.values().map(|live| &live.endpoint).filter(|endpoint| endpoint.availability() == Availability::Active);
    let mut hits: Vec<_> = active
        .filter(|endpoint| narrowed.has(endpoint.slug.as_str()))
        .filter_map(|endpoint| {
            let (name, title) = (endpoint.slug.as_str(), endpoint.title.to_lowercase());
            let (tags, description) = (endpoint.tags.join(" ").to_lowercase(), endpoint.description.to_lowercase());
            let weighed = [(name, 8), (title.as_str(), 4), (tags.as_str(), 4), (description.as_str(), 1)];
            let score =
                |word: &String| weighed.iter().filter(|(text, _)| text.contains(word.as_str())).map(|(_, weight)| weight).sum::<u32>();
            let scores: Vec<_> = words.iter().map(score).collect();
            let score = scores.iter().sum::<u32>();
            (score > 0).then_some((scores.iter().filter(|score| **score > 0).count(), score, endpoint))
        })
        .collect();
    // More of the words first, then the better places; the catalogue's order among equals.
    hits.sort_by_key(|(words, score, _)| std::cmp::Reverse((*words, *score)));
    let total = hits.len();
    let limit = search.limit.unwrap_or(FOUND).clamp(1, MAX_FOUND);
    let tools: Vec<_> = hits
        .into_iter()
        .take(limit)
        .map(|(_, _, endpoint)| {
            json!({ "name": endpoint.slug, "title": endpoint.title, "description": endpoint.description, "priceUsd": endpoint.price_usd, "tags": endpoint.tags })
        })
        .collect();
    answered(json!({ "tools": tools, "total": total }))
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
