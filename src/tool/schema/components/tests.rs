use serde_json::json;

use super::*;

#[test]
fn definitions_become_components() {
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/A" }, "b": { "$ref": "#/$defs/A/properties/n" }, "c": { "$ref": "#" } },
        "discriminator": { "propertyName": "kind", "mapping": { "a": "#/$defs/A" } },
        "$defs": { "A": { "properties": { "n": { "$ref": "#/definitions/My%20Type" } } }, "t": true }, "definitions": { "My Type": {}, "My_Type": {} } });
    let at = |name: &str| json!(format!("#/components/schemas/{name}"));
    let reported = components(&schema, "s_input");
    let names: Vec<_> = reported.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["s_input", "s_input_A", "s_input_t", "s_input_My_Type", "s_input_My_Type_4"]);
    assert_eq!(reported[0].1["properties"]["a"]["$ref"], at("s_input_A"));
    assert_eq!(reported[0].1["properties"]["b"]["$ref"], at("s_input_A/properties/n"));
    assert_eq!(reported[0].1["properties"]["c"]["$ref"], at("s_input"));
    assert_eq!(reported[0].1["discriminator"]["mapping"]["a"], at("s_input_A"));
    assert_eq!(reported[1].1["properties"]["n"]["$ref"], at("s_input_My_Type"));
    assert_eq!((&reported[2].1, components(&json!(true), "s").len()), (&json!({}), 1));
}

/// openapi-typescript cannot create a type for a component that refers to a part of itself.
#[test]
fn nested_definitions_become_components() {
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/b" }, "p": { "$ref": "#/properties/p/definitions/d~1e", "definitions": { "d/e": { "const": 1 } } } },
        "$defs": { "b": { "$ref": "#/$defs/b/$defs/c/items", "$defs": { "c": { "items": { "$ref": "#/$defs/b/$defs/c" } } } } }, "anyOf": [{ "$defs": { "b": { "const": 2 } }, "$ref": "#/anyOf/0/$defs/b" }] });
    let at = |name: &str| json!(format!("#/components/schemas/{name}"));
    let reported = components(&schema, "s");
    let of = |requested: &str| {
        reported.iter().find(|(name, _)| name == requested).unwrap_or_else(|| panic!("no {requested}: {reported:?}")).1.clone()
    };
    let names: Vec<_> = reported.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["s", "s_b", "s_b_c", "s_d_e", "s_b_4"]);
    assert_eq!(of("s")["properties"], json!({ "a": { "$ref": at("s_b") }, "p": { "$ref": at("s_d_e") } }));
    assert_eq!((&of("s")["anyOf"], of("s_b")), (&json!([{ "$ref": at("s_b_4") }]), json!({ "$ref": at("s_b_c/items") })));
    assert_eq!(
        (of("s_b_c"), of("s_d_e"), of("s_b_4")),
        (json!({ "items": { "$ref": at("s_b_c") } }), json!({ "const": 1 }), json!({ "const": 2 }))
    );
}
