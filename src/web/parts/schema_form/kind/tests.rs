use serde_json::json;

use super::*;

fn of(schema: &Value) -> FieldKind {
    FieldKind::from_schema(schema, &schema["items"])
}

#[test]
fn kind_matches_the_schema_or_is_json() {
    for (schema, kind) in [
        (json!({ "type": "string" }), FieldKind::Text(TextKind::Long)),
        (json!({ "type": ["null", "string"], "maxLength": 80 }), FieldKind::Text(TextKind::Short)),
        (json!({ "type": "string", "format": "email" }), FieldKind::Text(TextKind::Email)),
        (json!({ "type": "string", "format": "uri" }), FieldKind::Text(TextKind::Url)),
        (json!({ "type": "string", "format": "date" }), FieldKind::Text(TextKind::Date)),
        (json!({ "type": "integer" }), FieldKind::Number { whole: true }),
        (json!({ "type": "boolean" }), FieldKind::Flag),
        (json!({ "enum": ["a\u{202e}", 1, null] }), FieldKind::Choice(vec!["\"a\\u202e\"".to_owned(), "1".to_owned(), "null".to_owned()])),
        (json!({ "const": "x" }), FieldKind::Choice(vec!["\"x\"".to_owned()])),
        (json!({ "type": "array", "items": { "type": "number" } }), FieldKind::Lines(ListItem::Number)),
    ] {
        assert_eq!(of(&schema), kind, "{schema}");
    }
    for part in [
        json!({}),
        json!(true),
        json!({ "type": ["string", "number"] }),
        json!({ "type": "string", "oneOf": [{}, {}] }),
        json!({ "type": "array" }),
        json!({ "type": "array", "items": { "type": "array" } }),
        json!({ "type": "array", "items": { "$ref": "#" } }),
        json!({ "enum": [{}] }),
        json!({ "enum": [] }),
        json!({ "enum": (0..51).collect::<Vec<_>>() }),
        json!({ "enum": ["x".repeat(201)] }),
    ] {
        assert_eq!(of(&part), FieldKind::Json, "{part}");
    }
}

#[test]
fn typed_text_becomes_json_or_an_error() {
    let json = |kind: &FieldKind, typed: &str| kind.json(typed).map(|json| json.map(|json| json.get().to_owned()));
    let is = |kind: FieldKind, typed: &str, requested: &str| assert_eq!(json(&kind, typed), Ok(Some(requested.to_owned())), "{typed}");
    is(FieldKind::Text(TextKind::Long), " a\n\"b\" ", r#"" a\n\"b\" ""#);
    is(FieldKind::Text(TextKind::Url), " https://a.test ", r#""https://a.test""#);
    is(FieldKind::Number { whole: false }, "0.10", "0.10");
    is(FieldKind::Number { whole: true }, "12345678901234567890", "12345678901234567890");
    is(FieldKind::Flag, "false", "false");
    is(FieldKind::Choice(vec!["\"a\"".to_owned()]), "\"a\"", "\"a\"");
    is(FieldKind::Lines(ListItem::Text), "a\n\n b \n", r#"["a"," b "]"#);
    is(FieldKind::Lines(ListItem::Number), " 1.50\n.5", "[1.50,0.5]");
    is(FieldKind::Json, " {\"a\": 1.0} ", "{\"a\": 1.0}");
    for kind in [
        FieldKind::Text(TextKind::Long),
        FieldKind::Text(TextKind::Date),
        FieldKind::Flag,
        FieldKind::Lines(ListItem::Text),
        FieldKind::Json,
    ] {
        assert_eq!(json(&kind, ""), Ok(None));
    }
    for (kind, typed) in [
        (FieldKind::Number { whole: false }, "1,5"),
        (FieldKind::Number { whole: true }, "1.5"),
        (FieldKind::Flag, "yes"),
        (FieldKind::Choice(vec!["1".to_owned()]), "2"),
        (FieldKind::Lines(ListItem::Number), "1\nx"),
        (FieldKind::Lines(ListItem::Flag), "1"),
        (FieldKind::Json, "{"),
    ] {
        assert!(json(&kind, typed).is_err(), "{typed}");
    }
}

#[test]
fn field_holds_only_values_that_survive_a_round_trip() {
    let all = [
        FieldKind::Text(TextKind::Long),
        FieldKind::Text(TextKind::Short),
        FieldKind::Text(TextKind::Email),
        FieldKind::Text(TextKind::Url),
        FieldKind::Text(TextKind::Date),
        FieldKind::Number { whole: false },
        FieldKind::Number { whole: true },
        FieldKind::Flag,
        FieldKind::Choice(vec!["\"a\"".to_owned(), "1".to_owned(), "null".to_owned()]),
        FieldKind::Lines(ListItem::Text),
        FieldKind::Lines(ListItem::Number),
        FieldKind::Lines(ListItem::Flag),
        FieldKind::Json,
    ];
    let texts = [
        r#""""#,
        r#"" ""#,
        r#""a""#,
        r#"" a ""#,
        r#""a\nb""#,
        r#""a\r\nb""#,
        r#""\u202e""#,
        r#""2026-01-31""#,
        r#""2026-02-31""#,
        "1",
        "1.0",
        "1.10",
        "-0",
        "1e400",
        "12345678901234567890",
        "true",
        "null",
        "[]",
        r#"["a","b c"]"#,
        r#"["a",""]"#,
        r#"["a\nb"]"#,
        "[1,2.50]",
        "[true]",
        r#"[1,"a"]"#,
        r#"{"a":[1.0]}"#,
    ];
    for kind in &all {
        let mut held = 0;
        for text in texts {
            let Some(typed) = kind.typed(&raw(text).unwrap()) else { continue };
            held += 1;
            let back = kind.json(&typed).unwrap().unwrap();
            let same = string(&back).is_some() && string(&back) == string(&raw(text).unwrap());
            assert!(same || back.get() == text, "{kind:?}: {text} comes back as {}", back.get());
        }
        assert!(held > 0, "{kind:?}");
    }
    let typed = |kind: FieldKind, text: &str| kind.typed(&raw(text).unwrap());
    assert_eq!(typed(FieldKind::Text(TextKind::Short), r#""a\nb""#), None);
    assert_eq!(typed(FieldKind::Text(TextKind::Long), r#""a\nb""#).as_deref(), Some("a\nb"));
    assert_eq!(typed(FieldKind::Lines(ListItem::Text), r#"["a",""]"#), None);
    assert_eq!(typed(FieldKind::Json, "\"\u{202e}\"").as_deref(), Some("\"\\u202e\""));
}
