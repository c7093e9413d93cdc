use std::sync::Arc;

use super::*;
use crate::tests::terms;

fn of(input: &Value, output: &Value) -> CallTerms {
    CallTerms { input_schema: Arc::new(input.clone()), output_schema: Arc::new(output.clone()), ..terms() }
}

fn number() -> Value {
    json!({ "$defs": { "n": { "type": "number" } }, "type": "object", "properties": { "a": { "$ref": "#/$defs/n" } } })
}

#[test]
fn output_example_is_shown_in_full_detail_alone() {
    let terms = of(&json!({ "type": "object" }), &json!({ "type": "object", "examples": [{ "sum": 3 }] }));
    for (detail, reported) in [(Detail::Full, json!({ "sum": 3 })), (Detail::Input, Value::Null), (Detail::Short, Value::Null)] {
        let entry = entry(&terms, EntryMethod::Post, detail);
        assert_eq!(entry["info"]["output"]["example"], reported, "{detail:?}");
        assert_eq!(entry["schema"]["properties"]["output"]["properties"]["example"] == json!({}), reported.is_null(), "{detail:?}");
    }
}

#[test]
fn a_tool_of_mcp_is_reported_with_the_schema_of_its_input() {
    let schema = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"] });
    for (input, reported) in [(&schema, &schema), (&json!({}), &json!({ "type": "object" })), (&json!(true), &json!({ "type": "object" }))]
    {
        let entry = entry(&of(input, &json!({})), EntryMethod::Mcp, Detail::Full);
        assert_eq!((&entry["info"]["input"]["toolName"], &entry["info"]["input"]["inputSchema"]), (&json!("sum-up"), reported));
        assert_eq!(entry["schema"]["properties"]["input"]["required"], json!(["type", "toolName", "inputSchema"]));
    }
}

#[test]
fn definitions_stand_at_the_root_where_references_look_for_them() {
    let reported = entry(&of(&number(), &json!({ "type": "object" })), EntryMethod::Post, Detail::Full);
    let body = &reported["schema"]["properties"]["input"]["properties"]["body"];
    assert_eq!(*body, json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/n" } } }));
    assert_eq!(reported["schema"]["$defs"], number()["$defs"]);
}

#[test]
fn schemas_of_older_drafts_and_generators_are_readable_in_the_newest() {
    let seven = "http://json-schema.org/draft-07/schema#";
    for (schema, body) in [
        (
            json!({ "$schema": seven, "type": "object", "properties": { "a": { "items": [{ "type": "string" }], "additionalItems": false } } }),
            json!({ "type": "object", "properties": { "a": { "prefixItems": [{ "type": "string" }] } } }),
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "number", "minimum": 0, "exclusiveMinimum": true, "nullable": true } } }),
            json!({ "type": "object", "properties": { "a": { "type": ["number", "null"], "exclusiveMinimum": 0 } } }),
        ),
    ] {
        let reported = entry(&of(&schema, &json!({})), EntryMethod::Post, Detail::Full);
        assert_eq!(reported["schema"]["properties"]["input"]["properties"]["body"], body);
    }
}

#[test]
fn schema_that_would_change_its_meaning_is_shown_as_any_value() {
    let twice = entry(&of(&number(), &number()), EntryMethod::Post, Detail::Full);
    assert_eq!(twice["schema"]["properties"]["output"]["properties"]["example"], json!({}), "the names are taken");
    let own = json!({ "$id": "https://a.test/own", "type": "object", "properties": { "a": { "$ref": "#" } } });
    let reported = entry(&of(&own, &json!({})), EntryMethod::Post, Detail::Full);
    assert_eq!(reported["schema"]["properties"]["input"]["properties"]["body"], json!({}));
}
