//! A tool as an operation of OpenAPI.

use serde_json::{Value, json};

use crate::{catalog::Shown, tool::portable};

/// A tool's path item, and the schemas that it names among the components. Generators do not follow references into paths, whose names
/// have slashes, and make modules of components whose names have dots.
pub(super) fn path_item(live: &Shown) -> (Value, [(String, Value); 2]) {
    let endpoint = &live.endpoint;
    let schemas = [("input", &endpoint.input_schema), ("output", &endpoint.output_schema)].map(|(side, schema)| {
        let name = format!("{}-{side}", endpoint.slug);
        let moved = portable(schema, &format!("#/components/schemas/{name}"));
        (name, moved)
    });
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
            "requestBody": { "required": true, "content": content(&schemas[0].0) },
            "responses": {
                "200": { "description": "The result, with its receipt's id in `X-Receipt-Id`.", "content": content(&schemas[1].0) },
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
