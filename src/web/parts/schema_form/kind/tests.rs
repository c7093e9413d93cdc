use serde_json::json;

use super::*;

fn of(schema: &Value) -> Kind {
    Kind::of(schema, &schema["items"])
}

#[test]
fn a_kind_is_that_of_the_schema_where_a_field_says_all_of_it() {
    for (schema, kind) in [
        (json!({ "type": "string" }), Kind::Text(Text::Long)),
        (json!({ "type": ["null", "string"], "maxLength": 80 }), Kind::Text(Text::Short)),
        (json!({ "type": "string", "format": "email" }), Kind::Text(Text::Email)),
        (json!({ "type": "string", "format": "uri" }), Kind::Text(Text::Url)),
        (json!({ "type": "string", "format": "date" }), Kind::Text(Text::Date)),
        (json!({ "type": "integer" }), Kind::Number { whole: true }),
        (json!({ "type": "boolean" }), Kind::Flag),
        (json!({ "enum": ["a\u{202e}", 1, null] }), Kind::Choice(vec!["\"a\\u202e\"".to_owned(), "1".to_owned(), "null".to_owned()])),
        (json!({ "const": "x" }), Kind::Choice(vec!["\"x\"".to_owned()])),
        (json!({ "type": "array", "items": { "type": "number" } }), Kind::Lines(Item::Number)),
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
        assert_eq!(of(&part), Kind::Json, "{part}");
    }
}

#[test]
fn what_is_typed_becomes_json_or_is_told_to_be_none() {
    let json = |kind: &Kind, typed: &str| kind.json(typed).map(|json| json.map(|json| json.get().to_owned()));
    let is = |kind: Kind, typed: &str, wanted: &str| assert_eq!(json(&kind, typed), Ok(Some(wanted.to_owned())), "{typed}");
    is(Kind::Text(Text::Long), " a\n\"b\" ", r#"" a\n\"b\" ""#);
    is(Kind::Text(Text::Url), " https://a.test ", r#""https://a.test""#);
    is(Kind::Number { whole: false }, "0.10", "0.10");
    is(Kind::Number { whole: true }, "12345678901234567890", "12345678901234567890");
    is(Kind::Flag, "false", "false");
    is(Kind::Choice(vec!["\"a\"".to_owned()]), "\"a\"", "\"a\"");
    is(Kind::Lines(Item::Text), "a\n\n b \n", r#"["a"," b "]"#);
    is(Kind::Lines(Item::Number), " 1.50\n.5", "[1.50,0.5]");
    is(Kind::Json, " {\"a\": 1.0} ", "{\"a\": 1.0}");
    for kind in [Kind::Text(Text::Long), Kind::Text(Text::Date), Kind::Flag, Kind::Lines(Item::Text), Kind::Json] {
        assert_eq!(json(&kind, ""), Ok(None));
    }
    for (kind, typed) in [
        (Kind::Number { whole: false }, "1,5"),
        (Kind::Number { whole: true }, "1.5"),
        (Kind::Flag, "yes"),
        (Kind::Choice(vec!["1".to_owned()]), "2"),
        (Kind::Lines(Item::Number), "1\nx"),
        (Kind::Lines(Item::Flag), "1"),
        (Kind::Json, "{"),
    ] {
        assert!(json(&kind, typed).is_err(), "{typed}");
    }
}

#[test]
fn a_field_holds_what_it_gives_back_as_it_was_and_nothing_else() {
    let all = [
        Kind::Text(Text::Long),
        Kind::Text(Text::Short),
        Kind::Text(Text::Email),
        Kind::Text(Text::Url),
        Kind::Text(Text::Date),
        Kind::Number { whole: false },
        Kind::Number { whole: true },
        Kind::Flag,
        Kind::Choice(vec!["\"a\"".to_owned(), "1".to_owned(), "null".to_owned()]),
        Kind::Lines(Item::Text),
        Kind::Lines(Item::Number),
        Kind::Lines(Item::Flag),
        Kind::Json,
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
    let typed = |kind: Kind, text: &str| kind.typed(&raw(text).unwrap());
    assert_eq!(typed(Kind::Text(Text::Short), r#""a\nb""#), None);
    assert_eq!(typed(Kind::Text(Text::Long), r#""a\nb""#).as_deref(), Some("a\nb"));
    assert_eq!(typed(Kind::Lines(Item::Text), r#"["a",""]"#), None);
    assert_eq!(typed(Kind::Json, "\"\u{202e}\"").as_deref(), Some("\"\\u202e\""));
}
