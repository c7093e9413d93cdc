use super::*;

/// Checks the sample against the published schema with a common validator.
#[track_caller]
fn fits(schema: &Value) -> SampleInput {
    let reported = SampleInput::object(schema);
    let validator = jsonschema::validator_for(&reported.schema).unwrap();
    assert!(validator.is_valid(&reported.sample), "{} does not fit {}", reported.sample, reported.schema);
    reported
}

#[test]
fn sample_has_the_required_members_and_the_given_examples() {
    let schema = json!({
        "type": "object",
        "properties": {
            "url": { "type": "string", "format": "uri" },
            "name": { "type": "string", "minLength": 7, "maxLength": 7 },
            "initial": { "type": "string", "maxLength": 1 },
            "count": { "type": "integer", "minimum": 3, "maximum": 9 },
            "least": { "type": "number", "maximum": -2 },
            "kind": { "enum": ["a", "b"] },
            "always": { "const": 7 },
            "tags": { "type": "array", "minItems": 2, "items": { "type": "string" } },
            "deep": { "type": "object", "properties": { "yes": { "type": "boolean" } }, "required": ["yes"] },
            "or": { "type": ["null", "string"] },
            "mode": { "type": "string", "default": "quick" },
            "left": { "type": "string" },
            "any": true,
            "number": { "type": "number" },
            "from": { "type": "integer", "minimum": 5 },
            "one": { "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": "null" } },
        },
        "required": ["any", "number", "from", "one", "url", "name", "initial", "count", "least", "kind", "always", "tags", "deep", "or"],
        "additionalProperties": false,
    });
    let reported = fits(&schema);
    assert_eq!(reported.schema, schema);
    assert_eq!(
        reported.sample,
        json!({
            "url": "https://example.com", "name": "texttex", "initial": "t", "count": 3, "least": -2, "kind": "a", "always": 7,
            "tags": ["text", "text"], "deep": { "yes": true }, "or": null, "mode": "quick", "any": {},
            "number": 1, "from": 5, "one": [null],
        })
    );
    assert_eq!(fits(&json!({ "examples": [{ "a": 1 }], "anyOf": [{}] })).sample, json!({ "a": 1 }));
    assert_eq!(fits(&json!(true)).sample, json!({}));
    assert_eq!(fits(&json!({})).sample, json!({}));
}

#[test]
fn schema_that_a_sample_may_not_satisfy_is_shown_without_its_constraints() {
    let unsure = [
        json!({ "type": "string", "pattern": "^a+$" }),
        json!({ "type": "string", "format": "ipv4" }),
        json!({ "type": "string", "minLength": 1_000 }),
        json!({ "type": "integer", "multipleOf": 7 }),
        json!({ "type": "integer", "minimum": 0.5 }),
        json!({ "type": "integer", "minimum": 2, "maximum": 1 }),
        json!({ "type": "array", "minItems": 2, "uniqueItems": true }),
        json!({ "type": "array", "minItems": 65 }),
        json!({ "type": "array", "minItems": 1, "contains": { "const": 1 } }),
        json!({ "type": "object", "minProperties": 1 }),
        json!({ "$ref": "#/$defs/a" }),
        json!({ "anyOf": [{ "type": "string" }] }),
        json!(false),
        json!({ "type": "object", "required": ["gone"] }),
        json!({ "type": "never" }),
        json!({ "enum": [] }),
    ];
    for property in unsure {
        assert_eq!(sample(&property, MOST_DEPTH), None, "{property}");
        let schema =
            json!({ "$defs": { "a": {} }, "type": "object", "properties": { "a": property }, "required": ["a"], "minProperties": 1 });
        let reported = SampleInput::object(&schema);
        assert_eq!((reported.sample, reported.schema.get("required")), (json!({}), None));
        assert_eq!(reported.schema["properties"], schema["properties"]);
    }
    assert_eq!(fits(&json!({ "type": "array" })).sample, json!({}), "the input of a call is an object here");
}

#[test]
fn a_schema_without_end_has_no_sample() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..100 {
        deep = json!({ "type": "object", "properties": { "a": deep }, "required": ["a"] });
    }
    assert_eq!(sample(&deep, MOST_DEPTH), None);
    let mut list = json!({ "type": "string" });
    for _ in 0..100 {
        list = json!({ "type": "array", "minItems": 1, "items": list });
    }
    assert_eq!(sample(&list, MOST_DEPTH), None);
}

#[test]
fn list_has_the_minimum_number_of_items() {
    assert_eq!(sample(&json!({ "type": "array", "minItems": 64 }), 1), Some(json!(vec!["text"; 64])));
}
