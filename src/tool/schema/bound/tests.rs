use serde_json::{Map, json};

use super::*;

/// Returns a chain of `levels` definitions, each made by `made` from the next one, with `last` at the end.
fn chain(levels: usize, last: &Value, made: impl Fn(Value) -> Value) -> Value {
    let next = |level: usize| json!({ "$ref": format!("#/$defs/d{level}") });
    let mut defs: Map<_, _> = (0..levels).map(|level| (format!("d{level}"), made(next(level + 1)))).collect();
    defs.insert(format!("d{levels}"), last.clone());
    json!({ "$defs": defs, "$ref": "#/$defs/d0" })
}

#[test]
fn exponential_schema_is_refused_with_a_pointer() {
    let both = |next: Value| json!({ "allOf": [next, next] });
    assert_eq!(bound(&chain(8, &json!({}), both)), Ok(()));
    let error = bound(&chain(28, &json!({ "type": "string" }), both)).unwrap_err();
    // Counted from the end, the limit is exceeded from the twelfth level on.
    assert_eq!(error.pointer, "/$defs/d16");
    assert!(error.message.contains("10000"), "{error}");
    type Made = fn(Value) -> Value;
    let shapes: [Made; 8] = [
        |next| json!({ "anyOf": [next, { "not": next }] }),
        |next| json!({ "oneOf": [next, next] }),
        |next| json!({ "if": next, "then": next, "else": next }),
        |next| json!({ "properties": { "a": next }, "patternProperties": { "a": next } }),
        |next| json!({ "items": next, "contains": next }),
        |next| json!({ "dependentSchemas": { "a": next, "b": next } }),
        |next| json!({ "unevaluatedProperties": next, "propertyNames": next }),
        |next| json!({ "prefixItems": [next], "unevaluatedItems": next }),
    ];
    for made in shapes {
        assert!(bound(&chain(28, &json!({}), made)).is_err(), "{}", made(json!("next")));
    }
}

#[test]
fn references_are_followed_by_pointer_anchor_and_id() {
    for (root, name, to) in [
        (json!({}), "d~1 0", "#/$defs/d~1%20"),
        (json!({}), "d", "#d"),
        (json!({ "$id": "https://example.com/s" }), "d", "https://example.com/s#/$defs/d"),
    ] {
        let mut schema = root;
        let level = |level: usize| if name == "d~1 0" { format!("d/ {level}") } else { format!("d{level}") };
        for at in 0..28 {
            let next = json!({ "$ref": format!("{to}{}", at + 1) });
            schema["$defs"][level(at)] = json!({ "$anchor": format!("d{at}"), "allOf": [next, next] });
        }
        schema["$defs"][level(28)] = json!({ "$anchor": "d28" });
        schema["$ref"] = json!(format!("{to}0"));
        assert!(bound(&schema).is_err(), "{to}");
    }
}

#[test]
fn recursive_schema_is_counted_once() {
    for schema in [
        json!({ "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } }),
        json!({ "$dynamicAnchor": "node", "properties": { "children": { "items": { "$dynamicRef": "#node" } } } }),
        json!({ "$ref": "#/nowhere", "$defs": { "a": { "$ref": "https://elsewhere.example/" } } }),
        json!(true),
    ] {
        assert_eq!(bound(&schema), Ok(()), "{schema}");
    }
}

#[test]
fn looping_schema_is_refused_with_a_pointer() {
    let defs = |a: Value, b: Value| json!({ "properties": { "x": { "$ref": "#/$defs/a" } }, "$defs": { "a": a, "b": b } });
    for (schema, pointers) in [
        (json!({ "$ref": "#" }), &[""][..]),
        (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } }), &["/$defs/a"]),
        (defs(json!({ "$ref": "#/$defs/b" }), json!({ "$ref": "#/$defs/a" })), &["/$defs/a", "/$defs/b"]),
        (
            defs(json!({ "allOf": [{ "type": "object" }, { "$ref": "#/$defs/b" }] }), json!({ "anyOf": [{ "$ref": "#/$defs/a" }] })),
            &["/$defs/a", "/$defs/b", "/$defs/a/allOf/1", "/$defs/b/anyOf/0"],
        ),
        (defs(json!({ "not": { "$ref": "#/$defs/a" } }), json!({})), &["/$defs/a", "/$defs/a/not"]),
        (json!({ "$dynamicAnchor": "n", "$dynamicRef": "#n" }), &[""]),
        (
            json!({ "properties": { "a/b": { "$anchor": "n", "if": true, "then": { "$ref": "#n" } } } }),
            &["/properties/a~1b", "/properties/a~1b/then"],
        ),
    ] {
        let error = bound(&schema).unwrap_err();
        assert!(pointers.contains(&error.pointer.as_str()), "{schema}: {error:?}");
        assert!(error.message.contains("refers only to itself"), "{error:?}");
    }
    // A recursion into parts of the value ends with the value. A loop that is never applied is harmless.
    for schema in [
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "$ref": "#" } }] }),
        json!({ "properties": { "next": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } } }),
        json!({ "propertyNames": { "$ref": "#/$defs/a" }, "$defs": { "a": { "type": "string" }, "b": { "$ref": "#/$defs/b" } } }),
        json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "$ref": "#/$defs/b" }, "b": {} } }),
    ] {
        assert_eq!(bound(&schema), Ok(()), "{schema}");
    }
}

#[test]
fn patterns_bytes_and_levels_have_their_limits() {
    let patterns = |count: usize, length: usize| json!({ "properties": (0..count).map(|at| (format!("p{at}"), json!({ "pattern": "a".repeat(length) }))).collect::<Map<_, _>>() });
    assert_eq!(bound(&patterns(MAX_PATTERNS, 8)), Ok(()));
    for schema in [patterns(MAX_PATTERNS + 1, 8), patterns(3, MAX_PATTERN_BYTES / 2)] {
        let error = bound(&schema).unwrap_err();
        assert!(error.pointer.starts_with("/properties/p") && error.pointer.ends_with("/pattern"), "{error:?}");
    }
    let named: Map<_, _> = (0..100).map(|at| (format!("^{at}"), json!({}))).collect();
    assert_eq!(bound(&json!({ "patternProperties": named })).unwrap_err().pointer, "/patternProperties");
    assert!(bound(&json!({ "description": "d".repeat(MAX_BYTES) })).is_err());
    assert!(bound(&(0..40).fold(json!({}), |inner, _| json!({ "not": inner }))).is_err());
}

#[test]
fn counting_is_linear() {
    // Every level refers to every other: expanded, there are more subschemas than atoms.
    let refs: Vec<_> = (0..45).map(|at| json!({ "$ref": format!("#/$defs/d{at}") })).collect();
    let defs: Map<_, _> = (0..45).map(|at| (format!("d{at}"), json!({ "anyOf": refs }))).collect();
    let schema = json!({ "$ref": "#/$defs/d0", "$defs": defs });
    let started = std::time::Instant::now();
    _ = bound(&schema);
    let many = json!({ "allOf": vec![json!({}); 9_000] });
    assert_eq!(bound(&many), Ok(()));
    assert!(started.elapsed().as_millis() < 500, "{:?}", started.elapsed());
}
