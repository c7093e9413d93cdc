use std::sync::Arc;

use super::*;
use crate::tests::terms;

fn of(input: &Value, output: &Value) -> Terms {
    Terms { input_schema: Arc::new(input.clone()), output_schema: Arc::new(output.clone()), ..terms() }
}

fn number() -> Value {
    json!({ "$defs": { "n": { "type": "number" } }, "type": "object", "properties": { "a": { "$ref": "#/$defs/n" } } })
}

#[test]
fn what_a_tool_answers_is_told_where_all_of_it_is() {
    let terms = of(&json!({ "type": "object" }), &json!({ "type": "object", "examples": [{ "sum": 3 }] }));
    for (detail, told) in [(Detail::Full, json!({ "sum": 3 })), (Detail::Input, Value::Null), (Detail::Short, Value::Null)] {
        let entry = entry(&terms, Way::Post, detail);
        assert_eq!(entry["info"]["output"]["example"], told, "{detail:?}");
        assert_eq!(entry["schema"]["properties"]["output"]["properties"]["example"] == json!({}), told.is_null(), "{detail:?}");
    }
}

#[test]
fn a_tool_of_mcp_is_told_with_the_schema_of_its_input() {
    let schema = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"] });
    for (input, told) in [(&schema, &schema), (&json!({}), &json!({ "type": "object" })), (&json!(true), &json!({ "type": "object" }))] {
        let entry = entry(&of(input, &json!({})), Way::Mcp, Detail::Full);
        assert_eq!((&entry["info"]["input"]["toolName"], &entry["info"]["input"]["inputSchema"]), (&json!("sum-up"), told));
        assert_eq!(entry["schema"]["properties"]["input"]["required"], json!(["type", "toolName", "inputSchema"]));
    }
}

#[test]
fn definitions_stand_at_the_root_where_references_look_for_them() {
    let told = entry(&of(&number(), &json!({ "type": "object" })), Way::Post, Detail::Full);
    let body = &told["schema"]["properties"]["input"]["properties"]["body"];
    assert_eq!(*body, json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/n" } } }));
    assert_eq!(told["schema"]["$defs"], number()["$defs"]);
}

#[test]
fn what_would_not_mean_the_same_at_the_root_is_told_as_anything() {
    let twice = entry(&of(&number(), &number()), Way::Post, Detail::Full);
    assert_eq!(twice["schema"]["properties"]["output"]["properties"]["example"], json!({}), "the names are taken");
    let own = json!({ "$id": "https://a.test/own", "type": "object", "properties": { "a": { "$ref": "#" } } });
    let told = entry(&of(&own, &json!({})), Way::Post, Detail::Full);
    assert_eq!(told["schema"]["properties"]["input"]["properties"]["body"], json!({}));
}
