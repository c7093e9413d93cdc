use serde_json::json;

use super::*;

#[test]
fn patterns_are_parsed_as_ecmascript_with_flag_u() {
    for valid in
        ["^a$", r"\d{4}-\d\d", r"[\w.\-]+", r"(?<y>\d)\k<y>", r"(?!\.)a(?<=a)", r"\p{L}\p{Script=Greek}", "[^]", r"\u{1F600}", "a{2,}"]
    {
        assert_eq!(ecmascript(valid).as_deref(), Ok(valid));
    }
    for (needless, plain) in
        [(r"^a\_b$", "^a_b$"), (r"^\@\w+$", r"^@\w+$"), (r"^a\-b$", "^a-b$"), (r#"\:\#\"\'\ "#, r##":#"' "##), (r"[\_\-\@]", r"[_\-@]")]
    {
        assert_eq!(ecmascript(needless).as_deref(), Ok(plain));
    }
    for (without, escaped) in
        [(r"[\w-.]", r"[\w\-.]"), (r"^[\d-a-z\w-]+$", r"^[\d\-a-z\w-]+$"), (r"[a-\d]", r"[a\-\d]"), (r"[^-\s\_-]", r"[^\-\s_-]")]
    {
        assert_eq!(ecmascript(without).as_deref(), Ok(escaped));
    }
    for invalid in [
        "^(?P<y>\\d{4})$",
        "(?i)^abc$",
        r"^a\z",
        r"\Aa",
        "a++",
        "a**",
        "[[:alpha:]]+(",
        r"\pL",
        r"\p{Greek}",
        "}",
        "]",
        "(",
        "[",
        r"\<a",
        "\\",
        "(?x)a",
        "a{2,1}",
        r"\b+",
        r"a\B{2}",
        "(?i:a)",
        "(?<n>a)|(?<n>b)",
        r"\u{110000}",
        r"\u{+41}",
        r"\u{}",
        r"\u+041",
        r"[\u00g0]",
        r"\x+1",
        r"(?<\u{+61}>x)",
        r"\p{Script=Garay}",
    ] {
        assert!(ecmascript(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn hostile_patterns_are_parsed_quickly() {
    let started = std::time::Instant::now();
    for pattern in ["(".repeat(8_000), "(?:a".repeat(4_000), "[a-z]{1,1000}{1,1000}".repeat(300), "((a{1000}){1000}){1000}".to_owned()] {
        _ = ecmascript(&pattern);
    }
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn invalid_pattern_is_reported_with_its_pointer() {
    let schema = json!({ "properties": { "a/b": { "anyOf": [{ "pattern": "a" }, { "pattern": "(?i)a" }] } } });
    let error = check_patterns(&schema).unwrap_err();
    assert_eq!(error.pointer, "/properties/a~1b/anyOf/1/pattern");
    assert!(error.message.contains("ECMAScript"), "{error}");
    assert_eq!(check_patterns(&json!({ "patternProperties": { "a++": {} } })).unwrap_err().pointer, "/patternProperties");
    assert!(check_patterns(&json!({ "properties": { "default": { "pattern": "(?i)" } } })).is_err());
    for fine in [
        json!(true),
        json!({ "default": { "pattern": "(?i)" } }),
        json!({ "properties": { "patternProperties": { "a++": 1 } } }),
        json!({ "properties": { "pattern": { "pattern": "a" } } }),
    ] {
        assert_eq!(check_patterns(&fine), Ok(()));
    }
}
