//! A tool as an operation of OpenAPI.

use serde_json::{Value, json};
use tollhouse_catalog::Shown;
use tollhouse_tool::components;

/// A tool's path item, and the schemas that it names among the components. Generators do not follow references into paths, whose names
/// have slashes, and make modules of components whose names have dots.
pub(super) fn path_item(live: &Shown) -> (Value, Vec<(String, Value)>) {
    let endpoint = &live.endpoint;
    // No slug has a `_`, so that no two tools have one name.
    let [input, output] = ["input", "output"].map(|side| format!("{}_{side}", endpoint.slug));
    let schemas = [components(&endpoint.input_schema, &input), components(&endpoint.output_schema, &output)].concat();
    let content = |name: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } });
    let price = match endpoint.metered() {
        true => json!({ "mode": "dynamic", "currency": "USD", "min": "0", "max": endpoint.most_usd().to_string() }),
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
    if !endpoint.most_usd().is_zero() {
        item["post"]["x-payment-info"] = json!({ "price": price, "protocols": [{ "x402": {} }] });
        item["post"]["responses"]["402"] = json!({ "$ref": "#/components/responses/PaymentRequired" });
    }
    (item, schemas)
}
