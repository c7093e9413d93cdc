//! `/openapi.json`: the operations for agents and paid tools, with the fields that agent registries read.
//! `/docs/openapi.json`: all operations.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::offload::run_in_place;
use tollhouse_catalog::{Entry, ShownEndpoint, Snapshot};
use tollhouse_front::ApiError;
use tollhouse_store::StoreError;

use super::{
    paged::{MAX_PAGE_BYTES, TOOLS, is_paid, paid, tagged},
    schema_parts::{components, paths},
    tool::{distinct_name, path_item},
};
use crate::Services;

/// Guidance for agents that read only this document.
const GUIDANCE: &str = "Paid tools answer 402 with an x402 challenge: v2 in the PAYMENT-REQUIRED header, v1 in the body. Repeat the same request \
    with PAYMENT-SIGNATURE (v2) or X-PAYMENT (v1), or with X-Developer-Credit. Only a result that matches the tool's output schema is charged. \
    Tools with `extra.paymentFlow` `upfront` are charged before they run. After a lost answer, send the same payment with the same request again: \
    it is never charged twice. A credit's Idempotency-Key expires after 7 days, and can be charged again then. \
    GET /ai/payments/{id} reports what became of a payment. GET /ai/endpoints searches the whole catalog (q, tag, \
    price, maxPriceUsd). This document has the paid tools that are called most. ?tools=a,b selects tools by slug, ?tag= selects them by tag, \
    and `x-next` is the address of the first page of all tools. The same tools speak MCP at /ai/mcp. Every operation, including management, \
    is in /docs/openapi.json. /llms.txt lists all documents.";

/// Maximum slugs in one request.
const MAX_NAMED: usize = TOOLS;

/// The query: which tools to include.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolFilter {
    tools: Option<String>,
    tag: Option<String>,
    after: Option<String>,
}

/// The tools that a document includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolSelection {
    CalledMost,
    Named(Vec<String>),
    /// Tools after a slug, in order of slug, with a tag if one is given.
    Behind(Option<String>, String),
}

impl ToolFilter {
    /// Parses the query.
    ///
    /// # Errors
    ///
    /// 400 for slugs combined with other parameters, and for too many slugs.
    pub(super) fn read(self) -> Result<ToolSelection, ApiError> {
        match (self.tools, self.tag, self.after) {
            (None, None, None) => Ok(ToolSelection::CalledMost),
            (Some(slugs), None, None) => {
                let slugs: Vec<_> = slugs.split(',').map(|slug| slug.trim().to_owned()).filter(|slug| !slug.is_empty()).collect();
                if slugs.len() > MAX_NAMED {
                    return Err(ApiError::bad_request(format!("at most {MAX_NAMED} tools can be requested at once")));
                }
                Ok(ToolSelection::Named(slugs))
            }
            (None, tag, after) => Ok(ToolSelection::Behind(tag, after.unwrap_or_default())),
            (Some(_), ..) => Err(ApiError::bad_request("choose tools by `tools`, or by `tag` and `after`, but not both")),
        }
    }
}

/// Builds the document for agents.
pub(super) async fn build(http: &Services, all: &Snapshot, some: &ToolSelection) -> Result<Value, StoreError> {
    let base = &http.base_url;
    let rows = &http.documents.for_agents;
    let (mut paths, mut components) = (paths(rows), components(rows));
    let (mut remaining, mut bytes, mut last) = (TOOLS, 0, String::new());
    let mut taken = HashSet::new();
    let take = |shown: Arc<ShownEndpoint>| {
        if remaining == 0 || bytes >= MAX_PAGE_BYTES {
            return false;
        }
        (remaining, bytes) = (remaining - 1, bytes + shown.record.bytes());
        let name = distinct_name(shown.endpoint.slug.as_str(), &mut taken);
        let (item, named) = run_in_place(|| path_item(&shown, &name));
        paths.insert(format!("/tools/{}", shown.endpoint.slug), item);
        for (name, schema) in named {
            components["schemas"][name] = schema;
        }
        last = shown.endpoint.slug.to_string();
        true
    };
    let filled = http.catalog.fill(chosen(http, all, some), take).await?;
    let llms = json!({ "llmsTxtUrl": format!("{base}/llms.txt") });
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollhouse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Paid tools for agents, called over HTTP or MCP and paid per call with x402.",
            "contact": contact(http),
            "x-guidance": GUIDANCE,
        },
        "servers": [{ "url": base }],
        "paths": paths,
        "components": components,
        "x-agentcash-guidance": llms,
        "x-discovery": llms,
    });
    if filled.more {
        let mut query = form_urlencoded::Serializer::new(String::new());
        match some {
            ToolSelection::CalledMost => query.append_pair("after", ""),
            ToolSelection::Named(_) => {
                let remaining: Vec<_> = chosen(http, all, some).skip(filled.passed).map(|entry| entry.slug.as_str()).collect();
                query.append_pair("tools", &remaining.join(","))
            }
            ToolSelection::Behind(tag, _) => query.extend_pairs(tag.iter().map(|tag| ("tag", tag.as_str()))).append_pair("after", &last),
        };
        document["x-next"] = json!(format!("{base}/openapi.json?{}", query.finish()));
    }
    Ok(document)
}

/// Builds the document of all operations.
pub(super) fn whole(http: &Services) -> Value {
    let mut document = http.documents.described.clone();
    document["info"]["contact"] = contact(http);
    document["servers"] = json!([{ "url": http.base_url }]);
    document
}

/// Iterates over the requested tools, which are read on demand. Free tools are included only if named.
fn chosen<'a>(http: &Services, all: &'a Snapshot, some: &'a ToolSelection) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + Send + 'a> {
    match some {
        ToolSelection::CalledMost => {
            let max = called_most(http, all);
            let listed: HashSet<_> = max.iter().map(|entry| entry.slug.as_str()).collect();
            let others = paid(all, "").filter(move |entry| !listed.contains(entry.slug.as_str()));
            Box::new(max.into_iter().chain(others))
        }
        ToolSelection::Named(slugs) => {
            let named = slugs.iter().filter_map(|slug| all.get(slug));
            Box::new(named.filter(|entry| entry.is_active()))
        }
        ToolSelection::Behind(None, after) => Box::new(paid(all, after)),
        ToolSelection::Behind(Some(tag), after) => Box::new(tagged(all, tag, after)),
    }
}

/// Returns the paid tools that were recently paid for, most called first. There is at most one more than the document
/// has room for.
fn called_most<'a>(http: &Services, all: &'a Snapshot) -> Vec<&'a Arc<Entry>> {
    let called = http.metrics.called();
    // A heap sorts only the tools that are taken.
    let mut ranked: BinaryHeap<_> = called.iter().map(|(id, weight)| (weight, Reverse(id))).collect();
    let mut max = Vec::new();
    while max.len() <= TOOLS
        && let Some((_, Reverse(id))) = ranked.pop()
    {
        max.extend(all.of_id(id).filter(|entry| is_paid(entry)));
    }
    max
}

fn contact(http: &Services) -> Value {
    let mut contact = json!({ "name": "Tollhouse" });
    match http.contact.as_deref() {
        Some(address) if address.contains('@') => contact["email"] = json!(address.trim_start_matches("mailto:")),
        Some(url) => contact["url"] = json!(url),
        None => {}
    }
    contact
}
