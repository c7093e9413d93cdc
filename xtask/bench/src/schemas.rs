//! Small JSON Schemas that are slow to check, with which a builder could try to block a host.

use serde_json::{Value, json};

use crate::{Failure, client::Request, host::Host};

/// Number of schemas.
pub(crate) const COUNT: usize = 20;

/// A name, a schema, and an input that is slow to check.
type Shape = (&'static str, Value, Value);

/// Returns a schema whose definitions each refer twice to the next, `levels` deep, with `last` at
/// the end.
fn doubling(levels: usize, last: &Value, twice: impl Fn(Value) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        defs.insert(format!("d{level}"), twice(json!({ "$ref": format!("#/$defs/d{}", level + 1) })));
    }
    defs.insert(format!("d{levels}"), last.clone());
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

fn shapes() -> [Shape; COUNT] {
    let never = json!({ "required": ["absent"] });
    let numbers = |count: usize| Value::Array((0..count).map(|n| json!({ "n": n })).collect());
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "a": inner, "b": {} }));
    let patterns: serde_json::Map<_, _> = (0..1_000).map(|n| (format!("^[a-z0-9]{{1,{}}}x{n}\\p{{L}}*$", n % 60 + 1), json!({}))).collect();
    let many_keys: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let properties: serde_json::Map<_, _> = (0..1_500).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    [
        ("allOf twice, 28 deep", doubling(28, &json!({}), |next| json!({ "allOf": [next, next] })), json!({})),
        ("anyOf twice, 24 deep", doubling(24, &never, |next| json!({ "anyOf": [next, next] })), json!({})),
        ("oneOf twice, 24 deep", doubling(24, &never, |next| json!({ "oneOf": [next, next] })), json!({})),
        ("not and allOf, 24 deep", doubling(24, &json!({}), |next| json!({ "not": { "not": { "allOf": [next, next] } } })), json!({})),
        ("if and then, 24 deep", doubling(24, &json!({}), |next| json!({ "if": next, "then": next })), json!({})),
        (
            "anyOf of itself, 4 kB",
            {
                let this = json!({ "$ref": "#" });
                json!({ "anyOf": [{ "properties": { "a": this, "b": this } , "required": ["zz"] }, { "properties": { "a": { "anyOf": [this, this, this] } }, "required": ["zz"] }] })
            },
            nested(30),
        ),
        (
            "items that lead twice to themselves",
            json!({ "$ref": "#/$defs/n", "$defs": { "n": { "allOf": [{ "items": { "$ref": "#/$defs/n" } }, { "items": { "$ref": "#/$defs/n" } }] } } }),
            (0..40).fold(json!([]), |inner, _| json!([inner])),
        ),
        (
            "$dynamicRef, twice",
            json!({ "$id": "tool:x", "$dynamicAnchor": "n", "properties": { "a": { "allOf": [{ "$dynamicRef": "#n" }, { "$dynamicRef": "#n" }] } } }),
            nested(40),
        ),
        ("1,000 patternProperties", json!({ "patternProperties": patterns }), Value::Object(many_keys.clone())),
        (
            "a pattern that counts",
            json!({ "properties": { "a": { "pattern": "^(([a-z]{1,100}){1,100}){1,20}$" } } }),
            json!({ "a": "a".repeat(100_000) }),
        ),
        (
            "a pattern that goes back",
            json!({ "properties": { "a": { "pattern": "^(?=(a+)+$)(a|aa)+b$" } } }),
            json!({ "a": "a".repeat(5_000) }),
        ),
        ("uniqueItems of 12,000", json!({ "properties": { "a": { "uniqueItems": true } } }), json!({ "a": numbers(12_000) })),
        (
            "contains, of 12,000, twice",
            json!({ "properties": { "a": { "contains": { "contains": {} }, "minContains": 12_000 } } }),
            json!({ "a": numbers(12_000) }),
        ),
        (
            "unevaluatedProperties, 24 deep",
            {
                let mut schema = doubling(24, &json!({}), |next| json!({ "anyOf": [next, next] }));
                schema["unevaluatedProperties"] = json!(false);
                schema
            },
            json!({ "a": 1 }),
        ),
        (
            "unevaluatedItems over items",
            json!({ "properties": { "a": { "allOf": (0..60).map(|_| json!({ "contains": { "required": ["zz"] } })).collect::<Vec<_>>(), "unevaluatedItems": false } } }),
            json!({ "a": numbers(12_000) }),
        ),
        (
            "dependentSchemas, all of all",
            {
                let leads: serde_json::Map<_, _> = (0..24).map(|n| (format!("k{n}"), json!({ "$ref": format!("#/$defs/d{n}") }))).collect();
                let mut schema = doubling(24, &json!({}), |next| json!({ "allOf": [next, next] }));
                schema["dependentSchemas"] = Value::Object(leads);
                schema
            },
            Value::Object((0..24).map(|n| (format!("k{n}"), json!(n))).collect()),
        ),
        (
            "propertyNames with a pattern",
            json!({ "propertyNames": { "pattern": "^(key|k(e|E)y|[a-z]{1,50}){1,50}[0-9]{1,50}$" } }),
            Value::Object(many_keys),
        ),
        (
            "an enum of 60 kB",
            json!({ "properties": { "a": { "items": { "enum": (0..9_000).collect::<Vec<_>>() } } } }),
            json!({ "a": vec![-1; 20_000] }),
        ),
        (
            "1,500 properties, each required",
            json!({ "required": properties.keys().collect::<Vec<_>>(), "properties": properties }),
            json!({}),
        ),
        (
            "const as deep as can be",
            json!({ "properties": { "a": { "items": { "const": nested(14) } } } }),
            json!({ "a": vec![nested(14); 200] }),
        ),
    ]
}

/// Requests for a published tool, with the name of its schema.
type Calls = (&'static str, Vec<Request>);

/// Publishes each as a free tool. Returns the names of refused ones, and requests for the others.
pub(crate) fn publish(host: &Host) -> Result<(Vec<String>, Vec<Calls>), Failure> {
    let (mut refused, mut published) = (vec![], vec![]);
    for (n, (what, schema, input)) in shapes().into_iter().enumerate() {
        let slug = format!("slow-schema-{n:02}");
        let body = json!({
            "slug": slug,
            "title": "Slow schema",
            "priceUsd": 0,
            "handlerType": "js_request_response",
            "inputSchema": schema,
            "limits": { "inputBytes": 1 << 20 },
            "handler": { "source": "export default async () => ({})", "language": "js" },
        });
        let answered = host.admin(Request::post("/ai/endpoints/create", &body.to_string()));
        let (status, answer) = answered.map_err(|reason| format!("the host did not answer when `{what}` was published: {reason}"))?;
        match status {
            200 => published.push((what, vec![Request::post(&format!("/tools/{slug}"), &input.to_string())])),
            _ => refused.push(format!("{what} ({})", answer["error"]["code"].as_str().unwrap_or_default())),
        }
    }
    Ok((refused, published))
}
