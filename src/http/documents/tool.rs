//! A tool as an OpenAPI operation.

use std::collections::HashSet;

use serde_json::{Value, json};
use tollhouse_catalog::ShownEndpoint;
use tollhouse_tool::{FORM, components};

/// Returns a name for a tool's operation and schemas that none of its page has: the slug, with a number if generators
/// could make the same identifier of it and of another name.
pub(super) fn distinct_name(slug: &str, taken: &mut HashSet<String>) -> String {
    let (mut name, mut number) = (slug.to_owned(), 2);
    while !taken.insert(identifier(&name)) {
        name = format!("{slug}-{number}");
        number += 1;
    }
    name
}

/// Returns the part of a name that is left in identifiers. They have no hyphens: a capital letter begins a word, which
/// distinguishes `ab` from `a-b`, but not `a1` from `a-1` or `a--1`.
fn identifier(name: &str) -> String {
    let mut identifier = String::with_capacity(name.len());
    for word in name.split('-').filter(|word| !word.is_empty()) {
        if identifier.ends_with(char::is_alphabetic) && word.starts_with(char::is_alphabetic) {
            identifier.push('-');
        }
        identifier.push_str(word);
    }
    identifier
}

/// Returns a tool's path item and the component schemas that it refers to. Schemas are components because generators do
/// not follow references into paths, whose names contain slashes. Their names contain no dots, because generators would
/// make modules of them.
pub(super) fn path_item(live: &ShownEndpoint, name: &str) -> (Value, Vec<(String, Value)>) {
    let endpoint = &live.endpoint;
    // Names contain no `_`, so the schemas of two tools cannot collide.
    let [input, output] = ["input", "output"].map(|side| format!("{name}_{side}"));
    let schemas = [components(&endpoint.input_schema, &input), components(&endpoint.output_schema, &output)].concat();
    let content = |name: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } });
    let mut taken = content(&input);
    for media in &endpoint.request_types {
        taken[media] = match media.as_str() {
            FORM => json!({ "schema": { "type": "object" } }),
            _ => json!({ "schema": { "type": "string", "format": "binary" } }),
        };
    }
    let price = match endpoint.metered() {
        true => json!({ "mode": "dynamic", "currency": "USD", "min": "0", "max": endpoint.max_usd().to_string() }),
        false => json!({ "mode": "fixed", "currency": "USD", "amount": endpoint.price_usd.to_string() }),
    };
    let mut item = json!({
        "post": {
            "operationId": format!("tool-{name}"),
            "summary": endpoint.title,
            "description": endpoint.description,
            "tags": endpoint.tags,
            "security": [],
            "requestBody": { "required": true, "content": taken },
            "responses": {
                "200": { "description": "The result, with its receipt's id in `X-Receipt-Id`.", "content": content(&output) },
                "default": { "$ref": "#/components/responses/Error" },
            },
        },
    });
    if !endpoint.max_usd().is_zero() {
        item["post"]["x-payment-info"] = json!({ "price": price, "protocols": [{ "x402": {} }] });
        item["post"]["responses"]["402"] = json!({ "$ref": "#/components/responses/PaymentRequired" });
    }
    (item, schemas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_generators_cannot_distinguish_get_a_number() {
        let mut taken = HashSet::new();
        let slugs = ["a1", "a-1", "a--1", "a-b", "ab", "a1b", "a1-b", "a1-2"];
        let names = slugs.map(|slug| distinct_name(slug, &mut taken));
        assert_eq!(names, ["a1", "a-1-2", "a--1-3", "a-b", "ab", "a1b", "a1-b-2", "a1-2-2"]);
    }
}
