use super::*;

/// Returns the components of a schema by name.
fn made(schema: &Value) -> Vec<(String, Value)> {
    let made = components(schema, "s");
    let names: HashSet<_> = made.iter().map(|(name, _)| name.as_str()).collect();
    for to in made.iter().flat_map(|(_, schema)| references_in(schema)) {
        assert!(names.contains(to.strip_prefix("#/components/schemas/").unwrap()), "{to} leads to no component: {made:?}");
    }
    made
}

fn names(made: &[(String, Value)]) -> Vec<&str> {
    made.iter().map(|(name, _)| name.as_str()).collect()
}

fn at(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[test]
fn definitions_become_components() {
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/A" }, "b": { "$ref": "#/$defs/A/properties/n" }, "c": { "$ref": "#" } },
        "discriminator": { "propertyName": "kind", "mapping": { "a": "#/$defs/A" } },
        "$defs": { "A": { "properties": { "n": { "$ref": "#/definitions/My%20Type" } } }, "t": true }, "definitions": { "My Type": {}, "My_Type": {} } });
    let reported = made(&schema);
    assert_eq!(names(&reported), ["s", "s_A", "s_A_n", "s_t", "s_My_Type", "s_My_Type_5"]);
    assert_eq!(reported[0].1["properties"], json!({ "a": at("s_A"), "b": at("s_A_n"), "c": at("s") }));
    assert_eq!(reported[0].1["discriminator"]["mapping"]["a"], at("s_A")["$ref"]);
    assert_eq!((&reported[1].1["properties"]["n"], &reported[2].1), (&at("s_A_n"), &at("s_My_Type")));
    assert_eq!((&reported[3].1, made(&json!(true)).len()), (&json!({}), 1));
}

/// openapi-typescript cannot create a type for a component that refers to a part of itself.
#[test]
fn nested_definitions_and_other_targets_become_components() {
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/b" }, "p": { "$ref": "#/properties/p/definitions/d~1e", "definitions": { "d/e": { "const": 1 } } } },
        "$defs": { "b": { "$ref": "#/$defs/b/$defs/c/properties/f", "$defs": { "c": { "properties": { "f": { "$ref": "#/$defs/b/$defs/c" } } } } } }, "anyOf": [{ "$defs": { "b": { "const": 2 } }, "$ref": "#/anyOf/0/$defs/b" }] });
    let reported = made(&schema);
    let of = |requested: &str| {
        reported.iter().find(|(name, _)| name == requested).unwrap_or_else(|| panic!("no {requested}: {reported:?}")).1.clone()
    };
    assert_eq!(names(&reported), ["s", "s_b", "s_b_c", "s_b_c_f", "s_d_e", "s_b_5"]);
    assert_eq!(of("s")["properties"], json!({ "a": at("s_b"), "p": at("s_d_e") }));
    assert_eq!((&of("s")["anyOf"], of("s_b")), (&json!([at("s_b_5")]), at("s_b_c_f")));
    assert_eq!((of("s_b_c"), of("s_b_c_f")), (json!({ "properties": { "f": at("s_b_c_f") } }), at("s_b_c")));
    assert_eq!((of("s_d_e"), of("s_b_5")), (json!({ "const": 1 }), json!({ "const": 2 })));
}

#[test]
fn no_component_contains_itself_without_a_property_between() {
    let property = |to: &str| json!({ "properties": { "a": { "$ref": to } } });
    for (definition, reported) in [
        (json!({ "type": "array", "items": { "$ref": "#/$defs/b" } }), json!({ "type": "array", "items": {} })),
        (json!({ "anyOf": [{ "$ref": "#/$defs/b" }, { "type": "null" }] }), json!({ "anyOf": [{}, { "type": "null" }] })),
        (json!({ "items": { "properties": { "c": { "$ref": "#/$defs/b" } } } }), json!({ "items": { "properties": { "c": at("s_b") } } })),
        (json!({ "additionalProperties": { "$ref": "#/$defs/b" } }), json!({ "additionalProperties": at("s_b") })),
        (json!({ "items": { "$ref": "#" } }), json!({ "items": at("s") })),
    ] {
        let mut schema = property("#/$defs/b");
        schema["$defs"] = json!({ "b": definition });
        assert_eq!(made(&schema)[1].1, reported, "{definition}");
    }
    let schema = json!({ "$defs": { "a": { "items": { "$ref": "#/$defs/b" } }, "b": { "allOf": [{ "$ref": "#/$defs/c" }] }, "c": { "not": { "$ref": "#/$defs/a" } } } });
    let reported = made(&schema);
    assert_eq!((&reported[1].1, &reported[2].1), (&json!({ "items": at("s_b") }), &json!({ "allOf": [at("s_c")] })));
    assert_eq!(reported[3].1, json!({ "not": {} }));
}

#[test]
fn keywords_that_generators_reject_are_rewritten_or_omitted() {
    let property = |schema: Value| json!({ "properties": { "a": schema } });
    for (schema, reported) in [
        (json!({ "const": { "b": 1 }, "title": "B" }), json!({ "title": "B" })),
        (json!({ "enum": ["a", [1]] }), json!({})),
        (json!({ "enum": ["a", null, 1.5] }), json!({ "enum": ["a", null, 1.5] })),
        (json!({ "const": true }), json!({ "type": "boolean", "enum": [true] })),
        (json!({ "const": "a" }), json!({ "const": "a" })),
        (json!({ "xml": "b", "externalDocs": 1, "errorMessage": "c", "x-unit": "m" }), json!({ "x-unit": "m" })),
        (json!({ "dependencies": { "b": ["c"], "d": { "minProperties": 2 } } }), json!({})),
        (
            json!({ "discriminator": { "propertyName": "b", "more": 1, "x-more": 2 } }),
            json!({ "discriminator": { "propertyName": "b", "x-more": 2 } }),
        ),
    ] {
        assert_eq!(made(&property(schema))[0].1, property(reported));
    }
    let seven = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "title": "T",
        "dependencies": { "b": ["c"], "d": { "minProperties": 2 } }, "properties": { "e": { "$ref": "#/dependencies/d" } } });
    let reported = made(&seven);
    assert_eq!(names(&reported), ["s", "s_d"]);
    assert_eq!(
        reported[0].1,
        json!({ "properties": { "e": at("s_d") }, "dependentRequired": { "b": ["c"] }, "dependentSchemas": { "d": at("s_d") } })
    );
}

#[test]
fn names_are_short_and_differ_in_letters_and_digits() {
    let object = json!({ "type": "object", "properties": { "a": {} } });
    let long = "p".repeat(300);
    let schema = json!({ "$defs": { "Item": {}, "item": {}, "it em_5": {}, "ITEM": {}, (long.clone()): { "$defs": { (long.clone()): { "$defs": { "a": {} } } } } },
        "properties": { (long): object } });
    let reported = made(&schema);
    let names = names(&reported);
    assert_eq!(names[..5], ["s", "s_Item", "s_item_2", "s_it_em_5", "s_ITEM_4"]);
    assert!(names.iter().all(|name| name.len() <= MAX_PREFIX + MAX_LABEL + 10), "{names:?}");
    assert_eq!(names.iter().map(|name| squeezed(name)).collect::<HashSet<_>>().len(), 9);
    assert_eq!(reported[8].1, object);
}
