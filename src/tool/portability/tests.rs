use super::*;

/// Regression test: the parser read `{"$serde_json::private::RawValue":"[1,2]"}` as `[1,2]`.
#[test]
fn reserved_keys_are_rejected_wherever_they_are() {
    let escaped = "$serde_json::private::RawValue".bytes().map(|byte| format!("\\u{byte:04X}")).collect::<Vec<_>>().concat();
    let keys = [
        "$serde_json::private::RawValue",
        "$serde_json::private::Number",
        r"\u0024serde_json::private::RawValue",
        r"$serde\u005fjson::private::RawValue",
        r"$serde_json::private\u003A:RawValue",
        escaped.as_str(),
    ];
    for key in keys {
        let first = format!(r#"{{"{key}":"[1,2]"}}"#);
        let last = format!(r#"{{"a":1,"{key}":"[1,2]"}}"#);
        for object in [first, last] {
            for text in [object.clone(), format!(r#"[1.5,{{"a":[null,true,-1,"é",{object}]}}]"#)] {
                assert_eq!(PortabilityIssue::parse(text.as_bytes()), Err(PortabilityIssue::ReservedKey), "{text}");
                let reason = parse_json(text.as_bytes()).unwrap_err();
                assert!(reason.contains("reserved key, which begins with `$serde_json::private`"), "{reason}");
            }
        }
    }
}

#[test]
fn only_reserved_keys_are_rejected() {
    for text in [
        r#"{"a":"$serde_json::private::RawValue"}"#,
        r#"{"a":"{\"$serde_json::private::RawValue\":\"[1,2]\"}"}"#,
        r#"["\u0024serde_json::private::RawValue",{"\u0041":-1.5e3}]"#,
        r#"{"\\u0024serde_json::private::RawValue":"[1,2]"}"#,
        r#"{"serde_json::private":1,"$serde":"\u0020"}"#,
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!((parse_json(text.as_bytes()), PortabilityIssue::parse(text.as_bytes())), (Ok(value.clone()), Ok(value)), "{text}");
    }
}

#[test]
fn unportable_json_is_reported_by_kind() {
    for (json, reason) in [
        (r#"{"a":"\ud83d"}"#, PortabilityIssue::Surrogate),
        (r#"{"a":"\ude00"}"#, PortabilityIssue::Surrogate),
        (r#"["\ud83dx\ude00"]"#, PortabilityIssue::Surrogate),
        (r#"["\ud83d\ud83d\ude00"]"#, PortabilityIssue::Surrogate),
        (r#"{"\ud83d":1}"#, PortabilityIssue::Surrogate),
        (r#"{"a":1e999}"#, PortabilityIssue::Number),
        (r#"["\ud83d\ude00\\ud83d",-1e999]"#, PortabilityIssue::Number),
        ("{oops", PortabilityIssue::NotJson),
        ("", PortabilityIssue::NotJson),
    ] {
        assert_eq!(why_of(json.as_bytes()), reason, "{json}");
    }
}

/// Returns why `json` does not parse.
fn why_of(json: &[u8]) -> PortabilityIssue {
    PortabilityIssue::reason(json, &serde_json::from_slice::<Value>(json).unwrap_err())
}

/// Returns nested arrays.
fn nested(levels: usize, inner: &str) -> Vec<u8> {
    format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels)).into()
}

#[test]
fn only_numbers_out_of_range_are_called_too_large() {
    assert!(serde_json::from_slice::<Value>(&nested(MAX_LEVELS, "")).is_ok());
    assert_eq!(why_of(&nested(MAX_LEVELS, "1e999")), PortabilityIssue::Number);
    for levels in [MAX_LEVELS + 1, 10_000] {
        assert_eq!(why_of(&nested(levels, "")), PortabilityIssue::Nesting);
    }
    let brackets = format!(r#"["{}\"[", 1e999]"#, "[{".repeat(MAX_LEVELS));
    assert_eq!(why_of(brackets.as_bytes()), PortabilityIssue::Number, "brackets in a string are no levels");
    for (json, line, column) in
        [(&b"[\"\xff\"]"[..], 1, 3), (b"{\"a\":\n \"b\",\n\"\xe4\":1}", 3, 2), (b"\"\xc3\xa4\xc3\"", 1, 4), (b"[\"\\n\xff\"]", 1, 5)]
    {
        assert_eq!(why_of(json), PortabilityIssue::NotUtf8 { line, column });
    }
    for value in ["1", "[]", r#""{oops""#, r#""1e999""#, r#""1","b":2"#] {
        for key in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
            assert_eq!(why_of(format!(r#"[{{"{key}":{value}}}]"#).as_bytes()), PortabilityIssue::ReservedKey, "{key} {value}");
        }
    }
}

#[test]
fn refusal_names_the_problem_and_its_position() {
    for (text, word) in [
        (&br#"{"t":"\ud83d"}"#[..], "surrogate"),
        (br#"{"\udc00":1}"#, "surrogate"),
        (br#"{"a": 1e999}"#, "1.8e308"),
        (b"\xff\xfe{\0}\0", "UTF-16"),
        (b"{\0}\0", "UTF-16"),
        (b"{oops", "line 1 column"),
        (&nested(200, "")[..], "the body is nested deeper than 127 levels, at line 1 column 128"),
        (b"{\"a\":\n\"\xe9\"}", "not UTF-8 (at line 2 column 2)"),
        (br#"{"$serde_json::private::RawValue":1}"#, "reserved key"),
    ] {
        let error = serde_json::from_slice::<Value>(text).unwrap_err();
        let reason = not_json(text, &error);
        assert!(reason.contains(word) && reason.starts_with("the body is not JSON: ") != reason.contains("nested"), "{reason}");
    }
}
