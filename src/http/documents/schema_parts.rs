//! Generates OpenAPI 3.1 for the operations from their table, the schemas of `tollhouse_api`, `parameters.json` and the error table.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde_json::{Map, Value, json};
use tollhouse_front::Code;

use crate::{Access, Operation, ResponseKind};

/// The media type of the documentation.
pub(super) const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// Definitions that the rows of the table refer to.
pub(crate) struct SchemaParts {
    /// Schemas of request and response bodies, by name.
    pub(crate) schemas: Map<String, Value>,
    /// Query parameters and headers, by name: a description and a schema.
    pub(crate) parameters: BTreeMap<String, Value>,
}

pub(crate) static PARTS: LazyLock<SchemaParts> = LazyLock::new(|| SchemaParts {
    schemas: tollhouse_api::schemas(),
    parameters: serde_json::from_str(include_str!("parameters.json")).expect("the file is JSON of this form"),
});

/// Returns every operation of the host in OpenAPI, without host-specific data.
pub(crate) fn described(rows: &[Operation]) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollhouse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Paid tools for agents: called over HTTP or MCP, paid per call with x402, published by builders and run by this host.",
        },
        "paths": paths(rows),
        "components": components(rows),
    })
}

/// Returns the operations by path and method.
pub(super) fn paths(rows: &[Operation]) -> Map<String, Value> {
    let mut paths = Map::new();
    for row in rows {
        let item = paths.entry(row.path).or_insert_with(|| json!({}));
        item[row.method.to_lowercase()] = operation(row);
    }
    paths
}

/// Returns the components that the operations refer to.
pub(super) fn components(rows: &[Operation]) -> Value {
    let named = rows.iter().flat_map(|row| row.takes.into_iter().chain(row.schema()));
    let schemas: Map<_, _> =
        reached(named.chain(["Error", "PaymentRequired"])).into_iter().map(|name| (name.to_owned(), PARTS.schemas[name].clone())).collect();
    let key = |name: &str, what: &str| json!({ "type": "apiKey", "in": "header", "name": name, "description": what });
    json!({
        "schemas": schemas,
        "responses": {
            "PaymentRequired": {
                "description": "Payment required: an x402 challenge, v2 in the header and v1 in the body.",
                "headers": { "PAYMENT-REQUIRED": {
                    "description": "Base64 of the v2 PaymentRequired object.",
                    "schema": { "type": "string" },
                } },
                "content": {
                    "application/json": { "schema": reference("PaymentRequired") },
                    "text/html": { "schema": { "type": "string", "description": "A page, if a browser navigates to the tool." } },
                },
            },
            "Error": { "description": "The request was refused or failed.", "content": json_of(&reference("Error")) },
        },
        "securitySchemes": {
            "adminToken": key("X-Admin-Token", "The token of an admin."),
            "builderKey": key("X-Builder-Key", "The key of a builder."),
            "developerCredit": key("X-Developer-Credit", "Prepaid credit. Its holder can read the credit and set a budget."),
            "bearerCredit": { "type": "http", "scheme": "bearer", "description": "The same credit, for clients that can send only a bearer token." },
        },
    })
}

/// Returns these schemas and all schemas that they refer to, directly or not.
pub(super) fn reached<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    fn named(value: &'static Value, found: &mut Vec<&'static str>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
                Some(to) if name == "$ref" => found.extend(to.strip_prefix("#/components/schemas/")),
                _ => named(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| named(item, found)),
            _ => {}
        }
    }
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = names.into_iter().collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            let mut found = vec![];
            named(&PARTS.schemas[name], &mut found);
            open.extend(found);
        }
    }
    reached
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn json_of(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn operation(row: &Operation) -> Value {
    let in_path = row.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let describe = |position: &'static str, names: &'static [&'static str]| {
        names.iter().map(move |name| {
            let mut parameter = PARTS.parameters.get(*name).cloned().unwrap_or_else(|| json!({ "schema": { "type": "string" } }));
            parameter["name"] = json!(name);
            parameter["in"] = json!(position);
            parameter
        })
    };
    let parameters: Vec<_> = in_path.chain(describe("query", row.query)).chain(describe("header", row.headers)).collect();
    let mut operation = json!({
        "operationId": row.id,
        "summary": capital(row.what),
        "tags": [row.subject],
        "security": security(row.access),
        "parameters": parameters,
        "responses": responses(row),
    });
    if let Some(schema) = row.takes {
        operation["requestBody"] = json!({ "content": json_of(&reference(schema)) });
    }
    operation
}

/// Capitalizes the first letter of a sentence.
pub(super) fn capital(what: &str) -> String {
    let mut letters = what.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn security(owner: Access) -> Value {
    let named = |names: &[&str]| names.iter().map(|name| json!({ *name: [] })).collect();
    match owner {
        Access::Everyone => json!([]),
        Access::Builders | Access::Themselves | Access::Owner => named(&["builderKey", "adminToken"]),
        Access::Admins => named(&["adminToken"]),
        Access::Holder => named(&["developerCredit", "bearerCredit", "adminToken"]),
    }
}

fn responses(row: &Operation) -> Value {
    let mut content = match row.answers {
        ResponseKind::Json(schema) => json_of(&reference(schema)),
        ResponseKind::Tool => json_of(&json!({})),
        ResponseKind::Text(media) => json!({ media: { "schema": { "type": "string" } } }),
        ResponseKind::Page => json!({ MARKDOWN: { "schema": { "type": "string" } }, "text/html": { "schema": { "type": "string" } } }),
        ResponseKind::JsonOrPage(schema) => {
            json!({ "application/json": { "schema": reference(schema) }, "text/html": { "schema": { "type": "string" } } })
        }
    };
    if row.streams {
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    let mut responses = json!({ "200": { "description": "The requested representation.", "content": content } });
    if row.answers == ResponseKind::Tool || row.id == "invokeTool" {
        responses["default"] = json!({ "description": "The tool's own answer, with the status that the tool chose.", "content": content });
    }
    if row.headers.contains(&"If-None-Match") {
        responses["304"] = json!({ "description": "The client already has this document." });
    }
    if row.id == "speakMcp" {
        responses["202"] = json!({ "description": "Accepted. The message needs no response." });
    }
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in row.codes() {
        by_status.entry(code.row().status.as_u16()).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses[status.to_string()] = match codes[0] {
            Code::PaymentRequired => json!({ "$ref": "#/components/responses/PaymentRequired" }),
            _ => refused(row, &codes),
        };
    }
    responses
}

fn refused(row: &Operation, codes: &[Code]) -> Value {
    let lines: Vec<_> = codes.iter().map(|code| format!("`{}`: {}.", code.row().name, code.row().sentence)).collect();
    let names: BTreeSet<_> = codes.iter().map(|code| code.row().name).collect();
    let code = json!({ "properties": { "code": { "enum": names } } });
    let schema = match row.takes {
        // The error envelope is in `data` of the JSON-RPC error.
        Some("JsonRpcMessage") => json!({ "type": "object", "properties": { "error": { "properties": { "data": code } } } }),
        _ => json!({ "$ref": "#/components/schemas/Error", "properties": { "error": code } }),
    };
    let mut content = json_of(&schema);
    if row.answers.is_page() {
        content["text/html"] = json!({ "schema": { "type": "string" } });
    }
    json!({ "description": lines.join(" "), "content": content })
}
