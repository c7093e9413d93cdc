mod fuzz;

use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::json;

use super::*;

const SECRET: &str = "sk-live/ä\"b\\c d+e=?f";

#[test]
fn a_secret_is_found_in_its_usual_forms() {
    let redactor = Redactor::new([SECRET, "0123456789abcdef"]);
    let basic = STANDARD.encode(format!("user:{SECRET}"));
    let amid = STANDARD.encode(format!("xy{SECRET} and more"));
    let strict: String = SECRET
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    // Each form, with how many characters of it remain: quotes, padding, and base64 digits shared with neighboring
    // bytes.
    let forms = [
        (SECRET.to_owned(), 0),
        (json!(SECRET).to_string(), 2),
        (json!(format!("<{SECRET}>")).to_string(), 4),
        (STANDARD.encode(SECRET), 0),
        (URL_SAFE.encode(SECRET), 0),
        (URL_SAFE_NO_PAD.encode(SECRET), 0),
        (STANDARD.encode(format!("x{SECRET}")), 5),
        (basic, 9),
        (amid, 17),
        (hex::encode(SECRET), 0),
        (hex::encode_upper(SECRET), 0),
        (strict.clone(), 0),
        (strict.replace("%20", "+"), 0),
        ("sk-live%2f%c3%a4%22b%5cc%20d%2be%3d%3ff".to_owned(), 0),
        ("0123456789abcdef".to_owned(), 0),
    ];
    for (form, remaining) in forms {
        let text = format!("before {form} after");
        let clean = redactor.redact(&text);
        assert!(clean.contains(MARK) && clean.starts_with("before ") && clean.ends_with(" after"), "{form}: {clean}");
        assert_eq!(clean.replace(MARK, "").len() - "before  after".len(), remaining, "{form}: {clean}");
    }
}

#[test]
fn secret_is_found_with_json_escapes_in_any_spelling() {
    let redactor = Redactor::new([SECRET]);
    let quoted = json!(SECRET).to_string();
    let plain = &quoted[1..quoted.len() - 1];
    let forms = [
        plain.to_owned(),
        plain.replace('/', "\\/"),
        plain.replace('s', "\\u0073"),
        SECRET.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        SECRET.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect(),
    ];
    for form in forms {
        assert_eq!(redactor.redact(&format!("before {form} after")), format!("before {MARK} after"));
        assert_eq!(redactor.redact_bytes(format!("\0{form}\0").as_bytes()).unwrap(), format!("\0{MARK}\0"));
        let clean = |json: &str| String::from_utf8(redactor.redact_json_text(json.as_bytes()).unwrap().unwrap().to_vec()).unwrap();
        assert_eq!(clean(&format!(r#"{{"{form}":  ["<{form}>", 1.50]}}"#)), format!(r#"{{"{MARK}":  ["<{MARK}>", 1.50]}}"#));
        let inner = |text: &str| json!({ "text": format!(r#"{{"a":"{text}"}}"#) }).to_string();
        assert_eq!(clean(&inner(&form)), inner(MARK));
    }
}

#[test]
fn json_is_redacted_without_limits_and_otherwise_unchanged() {
    let redactor = Redactor::new(["super-secret-value", "8402100412", "x\", \"y\": \"z"]);
    let clean =
        |json: &str| redactor.redact_json_text(json.as_bytes()).map(|clean| clean.map(|json| String::from_utf8(json.to_vec()).unwrap()));
    let nested = |text: &str| "[".repeat(50_000) + text + &"]".repeat(50_000);
    let cases = [
        (nested(r#""super-secret-value""#), nested(r#""[redacted]""#)),
        (r#"[1e999, "\ud83dsuper-secret-value"]"#.to_owned(), r#"[1e999, "\ud83d[redacted]"]"#.to_owned()),
        (r#"[8402100412, 840210041.2e1, -8402100412, 840]"#.to_owned(), r#"["[redacted]", "[redacted]", "[redacted]", 840]"#.to_owned()),
        (r#"{"x\", \"y\": \"z": 1}"#.to_owned(), r#"{"[redacted]": 1}"#.to_owned()),
    ];
    for (json, expected) in cases {
        assert_eq!(clean(&json), Ok(Some(expected)));
    }
    // The last one has a value that extends over several strings.
    for json in ["", r#"{"a": "\n", "b": [1e999, 1.50]}"#, r#"["\ud83d"]"#, r#"{"a": "x", "y": "z"}"#] {
        assert_eq!(clean(json), Ok(None), "{json}");
    }
    for json in [r#"["super-secret-value", "\x"]"#, r#"["super-secret-value"#, r#"["super-secret-value\"#] {
        assert_eq!(clean(json), Err(MalformedJson), "{json}");
    }
    assert_eq!(redactor.redact_json_text(b"[\"\xffsuper-secret-value\"]"), Err(MalformedJson));
}

#[test]
fn secret_in_a_json_pointer_is_found() {
    let redactor = Redactor::new(["sk/live~0123456789"]);
    assert_eq!(redactor.redact("/a/sk~1live~00123456789/b"), format!("/a/{MARK}/b"));
}

#[test]
fn secret_is_found_in_either_case_on_request() {
    let redactor = Redactor::new(["K-AbCdEf0123456789"]);
    assert_eq!(redactor.redact("<k-ABCDEF0123456789>"), "<k-ABCDEF0123456789>");
    assert!(std::ptr::eq(redactor.ignoring_case(), redactor.ignoring_case()), "it is built once");
    let redactor = redactor.ignoring_case();
    for text in ["<k-ABCDEF0123456789>", "<K-AbCdEf0123456789>", r"<\u004B-\u0041bcdef0123456789>"] {
        assert_eq!(redactor.redact(text), format!("<{MARK}>"), "{text}");
    }
    assert_eq!(redactor.redact_cut("is k-abcdef"), format!("is {MARK}"));
    assert_eq!(Redactor::new([]).ignoring_case().redact_cut("nothing to find"), "nothing to find");
}

#[test]
fn innocent_texts_stay_as_they_are() {
    let redactor = Redactor::new(["short", "", "0123456789abcdef"]);
    for text in ["short of nothing", "0123456789abcde", "", "0123456789ABCDEF", "ünïcode 🙂"] {
        assert!(matches!(redactor.redact(text), Cow::Borrowed(same) if same == text), "{text}");
    }
    assert!(matches!(Redactor::new([]).redact("anything"), Cow::Borrowed("anything")));
}

#[test]
fn overlapping_secrets_leave_nothing_of_either() {
    let redactor = Redactor::new(["abcdefghijkl", "ghijklmnopqr"]);
    assert_eq!(redactor.redact("<abcdefghijklmnopqr>"), format!("<{MARK}>"));
    assert_eq!(redactor.redact("abcdefghijklabcdefghijkl"), format!("{MARK}{MARK}"));
}

#[test]
fn of_two_tokens_with_the_same_header_nothing_is_left_of_either() {
    let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.";
    let (one, other) = (format!("Bearer {header}first-payload.signature"), format!("{header}other-payload.signature"));
    let redactor = Redactor::new([one.as_str(), other.as_str()]);
    // The text contains the beginning of the first value and all of the other.
    assert_eq!(redactor.redact(&format!("<Bearer {other}>")), format!("<{MARK}>"));
    assert_eq!(redactor.redact(&format!("<{one}>")), format!("<{MARK}>"));
}

#[test]
fn the_beginning_of_a_secret_at_a_cut_is_hidden() {
    let redactor = Redactor::new(["super-secret-value"]);
    assert_eq!(redactor.redact("x super-secret-va"), "x super-secret-va");
    assert_eq!(redactor.redact_cut("x super-secret-va"), format!("x {MARK}"));
    assert_eq!(redactor.redact_cut("x super-secret-value"), format!("x {MARK}"));
    for escaped in [r"x \u0073uper-secret-va", r"x super-secret-v\u0061\u0", r"x super-secret-va\"] {
        assert_eq!(redactor.redact_cut(escaped), format!("x {MARK}"), "{escaped}");
    }
    assert_eq!(redactor.redact_cut("super-s"), "super-s");
    assert_eq!(redactor.redact_cut("super-se"), MARK);
    assert_eq!(redactor.redact_cut("ä"), "ä");
    assert_eq!(redactor.redact_cut(""), "");
}

#[test]
fn names_and_values_of_json_are_redacted_at_any_depth() {
    let redactor = Redactor::new(["super-secret-value"]);
    let value = json!({"a": ["super-secret-value", 1, null], "super-secret-value": {"b": "x super-secret-value"}});
    let clean = redactor.redact_json(value);
    assert_eq!(clean, json!({"a": [MARK, 1, null], MARK: {"b": format!("x {MARK}")}}));
}

#[test]
fn long_values_are_hidden_whole_and_as_far_as_they_would_go() {
    let long: String = (0..400).map(|n| format!("{n:03}é")).collect();
    let redactor = Redactor::new([long.as_str()]);
    assert_eq!(redactor.redact(&format!("a{long}b")), format!("a{MARK}b"));
    // A value that continues differently is hidden as far as the value would go, without splitting a character.
    assert_eq!(redactor.redact(&format!("{}è!", &long[..103])), MARK);
    for equal in [35, 103, 1_000] {
        let guess = format!("{}{}<", &long[..equal], "x".repeat(long.len() - equal));
        assert_eq!(redactor.redact(&guess), format!("{MARK}<"), "a guess with {equal} equal bytes looks like any other");
    }
    // A whole value that begins within that is hidden too.
    assert_eq!(redactor.redact(&format!("{}x{long}<", &long[..40])), format!("{MARK}<"));
    assert_eq!(redactor.redact(&hex::encode(&long)), MARK);
}

#[test]
fn the_largest_set_of_secrets_is_cheap_to_look_for() {
    let values: Vec<String> = (0..32).map(|n| format!("{n:02}").repeat(2_048)).collect();
    let redactor = Redactor::new(values.iter().map(String::as_str));
    let bytes = redactor.finder.as_ref().unwrap().memory_usage();
    assert!(bytes < 4 << 20, "{bytes}");
    assert_eq!(redactor.redact(&values[7]), MARK);
}

#[test]
fn a_text_of_repeated_secrets_is_redacted_in_linear_time() {
    let values: Vec<String> = (0..32).map(|n| "a".repeat(4_096 - n)).collect();
    let redactor = Redactor::new(values.iter().map(String::as_str));
    let started = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(redactor.redact(&"a".repeat(16_000)), MARK);
    }
    // Quadratic work would take minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn bytes_and_numbers_are_redacted_too() {
    let redactor = Redactor::new(["super-secret-value", "8402100412"]);
    let clean = redactor.redact_bytes(b"\xff\x00super-secret-value\xfe");
    assert_eq!(clean.as_deref(), Some(&b"\xff\x00[redacted]\xfe"[..]));
    assert_eq!(redactor.redact_bytes(b"\xff nothing"), None);
    assert_eq!(redactor.redact_json(json!({ "n": 8_402_100_412_u64, "m": 840 })), json!({ "n": MARK, "m": 840 }));
    let nothing = Redactor::new(["short"]);
    assert!(nothing.is_empty() && !nothing.finds_in(b"short") && nothing.redact_bytes(b"short").is_none());
}
