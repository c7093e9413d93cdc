//! A tool as an OpenAPI operation.

use serde_json::{Value, json};
use tollhouse_catalog::ShownEndpoint;
use tollhouse_tool::components;

/// Returns a tool's path item and the component schemas that it refers to. Schemas are components because generators do
/// not follow references into paths, whose names contain slashes. Their names contain no dots, because generators would
/// make modules of them.
pub(super) fn path_item(live: &ShownEndpoint) -> (Value, Vec<(String, Value)>) {
    let endpoint = &live.endpoint;
    // Slugs contain no `_`, so the names of two tools cannot collide.
    let [input, output] = ["input", "output"].map(|side| format!("{}_{side}", endpoint.slug));
    let schemas = [components(&endpoint.input_schema, &input), components(&endpoint.output_schema, &output)].concat();
    let content = |name: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } });
    let price = match endpoint.metered() {
        true => json!({ "mode": "dynamic", "currency": "USD", "min": "0", "max": endpoint.max_usd().to_string() }),
        false => json!({ "mode": "fixed", "currency": "USD", "amount": endpoint.price_usd.to_string() }),
    };
    let mut item = json!({
        "post": {
            "operationId": format!("tool-{}", endpoint.slug),
            "summary": endpoint.title,
            "description": endpoint.description,
            "tags": endpoint.tags,
            "security": [],
            "requestBody": { "required": true, "content": content(&input) },
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
