//! A tool as an operation of OpenAPI.

use serde_json::{Value, json};

use crate::catalog::Shown;

/// A tool's path item, and the schemas that it names among the components. What reads such documents does not follow references into
/// paths, whose names have slashes.
pub(super) fn path_item(live: &Shown) -> (Value, [(String, Value); 2]) {
    let endpoint = &live.endpoint;
    let schemas = [("input", &endpoint.input_schema), ("output", &endpoint.output_schema)].map(|(side, schema)| {
        let name = format!("{}.{side}", endpoint.slug);
        let moved = rebased(schema, &format!("#/components/schemas/{name}"));
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

/// A schema whose references find their definitions where it stands in a document. One that has an address of its own stays as it is.
fn rebased(schema: &Value, at: &str) -> Value {
    match schema {
        Value::Object(members) if members.get("$id").is_some_and(Value::is_string) => schema.clone(),
        Value::Object(members) => {
            let moved = members.iter().map(|(name, value)| match (name.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(to)) if to == "#" || to.starts_with("#/") => {
                    (name.clone(), json!(format!("{at}{}", &to[1..])))
                }
                _ => (name.clone(), rebased(value, at)),
            });
            Value::Object(moved.collect())
        }
        Value::Array(items) => items.iter().map(|item| rebased(item, at)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_find_what_they_mean_where_the_schema_stands() {
        let schema =
            json!({ "$defs": { "a": { "type": "string" } }, "properties": { "x": { "$ref": "#/$defs/a" }, "y": [{ "$ref": "#" }] } });
        let moved = rebased(&schema, "#/components/schemas/a.input");
        assert_eq!(moved["properties"]["x"]["$ref"], "#/components/schemas/a.input/$defs/a");
        assert_eq!(moved["properties"]["y"][0]["$ref"], "#/components/schemas/a.input");
        assert_eq!(rebased(&json!({ "$ref": "https://example.com/a" }), "#/b"), json!({ "$ref": "https://example.com/a" }));
        let own = json!({ "$id": "https://example.com/a", "$ref": "#/$defs/b" });
        assert_eq!(rebased(&own, "#/b"), own);
    }
}
