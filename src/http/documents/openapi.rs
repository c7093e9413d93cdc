//! `/openapi.json`: what everyone may ask for, in OpenAPI 3.1, with the keys that agents' registries read.

use serde_json::{Map, Value, json};

use super::{
    operations::{OPERATIONS, Operation, Takes},
    paged::{MAX_PAGE_BYTES, TOOLS, paid},
    tool::path_item,
};
use crate::{catalog::Snapshot, http::services::Offering};

/// For agents that read this document and nothing else.
const GUIDANCE: &str = "Paid tools answer 402 with an x402 challenge: v2 in the PAYMENT-REQUIRED header, v1 in the body. Repeat the same request \
    with PAYMENT-SIGNATURE (v2) or X-PAYMENT (v1), or with X-Developer-Credit. Only a result that fits the tool's output schema is charged. \
    After a lost answer show the same payment with the same request again: it is never charged twice, and GET /ai/payments/{id} says what \
    became of it. GET /ai/endpoints searches the whole catalogue (q, tag, price, maxPriceUsd); this document has one page of the paid tools, \
    and `x-next` is the address of the next one. The same tools speak MCP at /ai/mcp.";

/// The page behind `after`.
pub(super) fn made(offering: &Offering, all: &Snapshot, after: &str) -> Value {
    let base = &offering.base_url;
    let (mut paths, mut schemas) = (public(), Map::new());
    let mut left = paid(all, after).peekable();
    let (mut bytes, mut last) = (0, "");
    for _ in 0..TOOLS {
        let Some(live) = left.next_if(|_| bytes < MAX_PAGE_BYTES) else { break };
        bytes += live.record.bytes();
        let (item, named) = path_item(live);
        paths.insert(format!("/tools/{}", live.endpoint.slug), item);
        schemas.extend(named);
        last = live.endpoint.slug.as_str();
    }
    let mut contact = json!({ "name": "Tollhouse" });
    match offering.contact.as_deref() {
        Some(address) if address.contains('@') => contact["email"] = json!(address.trim_start_matches("mailto:")),
        Some(url) => contact["url"] = json!(url),
        None => {}
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollhouse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Paid tools for agents, called over HTTP or MCP and paid per call with x402.",
            "contact": contact,
            "x-guidance": GUIDANCE,
        },
        "servers": [{ "url": base }],
        "paths": paths,
        "components": { "schemas": schemas, "responses": responses() },
    });
    if left.peek().is_some() {
        document["x-next"] = json!(format!("{base}/openapi.json?after={last}"));
    }
    document
}

/// The paths of the operations that are no tool's own.
fn public() -> Map<String, Value> {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        item[operation.method] = told(operation);
    }
    paths
}

fn told(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = operation
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let body = match operation.takes {
        Takes::Nothing => None,
        Takes::Query(names) => {
            parameters.extend(names.iter().map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } })));
            None
        }
        Takes::Object => Some(json!({ "type": "object" })),
        Takes::Members(required, more) => {
            let of = |name: &str| match name {
                "input" => json!({ "description": "The tool's input; `{}` without it." }),
                "stream" => json!({ "type": "boolean" }),
                _ => json!({ "type": "string" }),
            };
            let properties: Map<_, _> = required.iter().chain(more).map(|name| ((*name).to_owned(), of(name))).collect();
            Some(json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }))
        }
    };
    let mut told = json!({
        "operationId": operation.id,
        "summary": operation.what,
        "security": [],
        "parameters": parameters,
        "responses": { "200": { "description": "As it is asked for." }, "default": { "$ref": "#/components/responses/Error" } },
    });
    if let Some(schema) = body {
        told["requestBody"] = json!({ "content": { "application/json": { "schema": schema } } });
    }
    if operation.may_cost() {
        told["responses"]["402"] = json!({ "$ref": "#/components/responses/PaymentRequired" });
    }
    told
}

fn responses() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "PaymentRequired": {
            "description": "Payment required: an x402 challenge, v2 in the header and v1 in the body.",
            "headers": { "PAYMENT-REQUIRED": { "description": "Base64 of the v2 PaymentRequired object.", "schema": text } },
            "content": { "application/json": { "schema": {
                "type": "object",
                "properties": {
                    "x402Version": { "const": 1 },
                    "error": text,
                    "accepts": { "type": "array", "items": { "type": "object" } },
                    "paymentRequired": { "type": "object", "description": "The whole v2 object, where the header has no room for it." },
                },
                "required": ["x402Version", "accepts"],
            } } },
        },
        "Error": {
            "description": "Refused, or came to nothing.",
            "content": { "application/json": { "schema": {
                "type": "object",
                "properties": {
                    "ok": { "const": false },
                    "error": {
                        "type": "object",
                        "properties": {
                            "code": text,
                            "fault": { "enum": ["caller", "tool", "host"] },
                            "message": text,
                            "requestId": text,
                            "charged": { "enum": [false, "unknown"] },
                        },
                        "required": ["code", "fault", "message"],
                    },
                },
                "required": ["ok", "error"],
            } } },
        },
    })
}
