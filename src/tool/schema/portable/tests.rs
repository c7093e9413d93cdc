use super::*;

/// Returns the copy for a list, in which a schema is the root.
fn listed(schema: &Value) -> Value {
    portable(schema, "#")
}

#[test]
fn portable_schema_is_unchanged() {
    for schema in [
        json!({}),
        json!(true),
        json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "title": "T", "required": ["z", "a"],
            "properties": { "z": { "type": ["string", "null"], "pattern": "^a$" }, "a": { "$ref": "#/$defs/n" } },
            "additionalProperties": false, "$defs": { "n": { "type": "integer", "minimum": 1 } }, "x-own": { "a": [1] } }),
        json!({ "definitions": { "node": { "type": "object", "properties": { "next": { "$ref": "#/definitions/node" } } } },
            "$ref": "#/definitions/node", "$schema": "http://json-schema.org/draft-07/schema#" }),
    ] {
        assert_eq!(listed(&schema).to_string(), schema.to_string());
    }
}

#[test]
fn constructs_that_strict_clients_reject_are_rewritten_or_omitted() {
    let property = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    for (schema, reported) in [
        (json!(true), json!({})),
        (json!(false), json!({ "not": {} })),
        (json!({ "nullable": true }), json!({})),
        (json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
        (json!({ "minimum": 0, "exclusiveMinimum": true }), json!({ "exclusiveMinimum": 0 })),
        (json!({ "type": ["string", "null"], "nullable": false }), json!({ "type": ["string", "null"] })),
        (json!({ "enum": [] }), json!({ "not": {} })),
        (json!({ "id": "a", "$id": "b", "$async": true }), json!({})),
        (json!({ "pattern": "(?P<y>a)" }), json!({})),
        (json!({ "pattern": r"a\_b" }), json!({ "pattern": "a_b" })),
        (json!({ "propertyNames": { "pattern": "(?i)a" } }), json!({ "propertyNames": {} })),
        (
            json!({ "patternProperties": { "a++": {}, "b": {} }, "additionalProperties": false }),
            json!({ "patternProperties": { "b": {} } }),
        ),
        (json!({ "items": [{ "type": "string" }, true], "additionalItems": false }), json!({ "prefixItems": [{ "type": "string" }, {}] })),
        (json!({ "prefixItems": [false], "items": false }), json!({ "prefixItems": [{ "not": {} }] })),
        (json!({ "items": true, "additionalProperties": false }), json!({ "items": {}, "additionalProperties": false })),
        (json!({ "default": { "$id": "a" }, "x-more": { "$ref": "#/a" } }), json!({})),
        (json!({ "$ref": "https://elsewhere.example/" }), json!({})),
    ] {
        assert_eq!(listed(&property(schema)), property(reported));
    }
}

#[test]
fn older_drafts_become_draft_07() {
    let four = json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a.example/", "properties": {
        "a": { "minimum": 1, "exclusiveMinimum": true }, "b": { "maximum": 2, "exclusiveMaximum": false },
        "c": { "contains": 5, "propertyNames": 7, "examples": 1, "const": { "a": 1 } }, "d": { "$ref": "#/properties/a", "type": "string" } } });
    assert_eq!(
        listed(&four),
        json!({ "$schema": DRAFT_07, "properties": { "a": { "exclusiveMinimum": 1 }, "b": { "maximum": 2 }, "c": { "const": { "a": 1 } },
            "d": { "$ref": "#/properties/a" } } })
    );
}

#[test]
fn references_become_pointers_below_the_schema() {
    let refs = |schema: Value| {
        let reported = portable(&schema, "#/components/schemas/a");
        let mut found = references_in(&reported);
        found.sort();
        assert!(!reported.to_string().contains("$id") && !reported.to_string().contains("nchor"), "{reported}");
        found
    };
    let at = |pointers: &[&str]| pointers.iter().map(|pointer| format!("#/components/schemas/a{pointer}")).collect::<Vec<_>>();
    for (schema, leads) in [
        (json!({ "$id": "https://a.example/s", "$ref": "#/$defs/b", "$defs": { "b": {} } }), at(&["/$defs/b"])),
        (json!({ "$id": "https://a.example/s", "$ref": "https://a.example/s#/$defs/b", "$defs": { "b": {} } }), at(&["/$defs/b"])),
        (json!({ "$id": "s", "$ref": "s#/$defs/b%20c", "$defs": { "b c": {} } }), at(&["/$defs/b%20c"])),
        (json!({ "$id": "urn:uuid:1", "$ref": "#foo", "$defs": { "b": { "$anchor": "foo" } } }), at(&["/$defs/b"])),
        (
            json!({ "$ref": "b", "$defs": { "b": { "$id": "b", "$ref": "#/$defs/c", "$defs": { "c": {} } } } }),
            at(&["/$defs/b", "/$defs/b/$defs/c"]),
        ),
        (json!({ "$dynamicAnchor": "n", "items": { "$dynamicRef": "#n" } }), at(&[""])),
        (json!({ "items": { "$dynamicRef": "#n" }, "$defs": { "a": { "$dynamicAnchor": "n" }, "b": { "$dynamicAnchor": "n" } } }), at(&[])),
        (json!({ "$recursiveAnchor": true, "items": { "$recursiveRef": "#" } }), at(&[""])),
        (
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "items": { "$ref": "#foo" }, "definitions": { "b": { "$id": "#foo" } } }),
            at(&["/definitions/b"]),
        ),
        (json!({ "properties": { "$ref": { "type": "string" }, "b": { "$ref": "#/properties/$ref" } } }), at(&["/properties/$ref"])),
        (json!({ "properties": { "$id": {}, "a": { "$ref": "#/nowhere" }, "b": { "$ref": "#/x-own" } }, "x-own": {} }), at(&[])),
    ] {
        if schema.to_string().contains("\"$id\":{}") {
            assert!(references_in(&portable(&schema, "#/components/schemas/a")).is_empty());
        } else {
            assert_eq!(refs(schema), leads);
        }
    }
}

#[test]
fn circular_references_are_omitted() {
    for schema in
        [json!({ "$ref": "#" }), json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } })]
    {
        assert!(references_in(&listed(&schema)).is_empty(), "{schema}");
    }
}

#[test]
fn discriminator_maps_to_pointers_within_the_document() {
    let schema = json!({ "oneOf": [{ "$ref": "#/$defs/A" }], "$defs": { "A": {} },
        "discriminator": { "propertyName": "kind", "mapping": { "a": "#/$defs/A", "b": "#/$defs/B", "c": 1 } } });
    let reported = portable(&schema, "#/components/schemas/t");
    assert_eq!(reported["discriminator"], json!({ "propertyName": "kind", "mapping": { "a": "#/components/schemas/t/$defs/A" } }));
    assert_eq!(listed(&json!({ "discriminator": { "mapping": {} } })), json!({}));
}

#[test]
fn largest_schema_is_copied_quickly() {
    // The longest chain of references that fits in a schema.
    let defs: Map<_, _> = (0..1_200).map(|at| (format!("d{at}"), json!({ "$ref": format!("#/$defs/d{}", at + 1) }))).collect();
    let mut schema = json!({ "$ref": "#/$defs/d0", "$defs": defs });
    schema["$defs"]["d1200"] = json!({ "type": "string" });
    let started = std::time::Instant::now();
    let reported = listed(&schema);
    // Quadratic work would take much longer.
    assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
    assert_eq!(references_in(&reported).len(), 1_201);
}
