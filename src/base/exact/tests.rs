use serde_json::json;

use super::*;

/// Numbers that a `Value` changes.
const CHANGED: [&str; 8] =
    ["12345678901234567890123", "0.1000", "1e400", "-1E+0400", "-0.0", "-0", "1.00", "0.12345678901234567890123456789"];

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap()
}

#[test]
fn numbers_keep_their_text_and_the_rest_is_written_like_a_value() {
    for number in CHANGED {
        let text = format!("{{ \"a\\\"1\" : [ {number} , \"2 \\u00e9\", {{\"b\":{number}}},\n null ], \"c\": {number} }}");
        let requested = format!("{{\"a\\\"1\":[{number},\"2 é\",{{\"b\":{number}}},null],\"c\":{number}}}");
        assert_eq!(compact(raw(&text)).unwrap(), requested);
        assert_eq!(compact(raw(&requested)).unwrap(), requested);
        assert_eq!(compact(raw(&pretty(&text).unwrap())).unwrap(), requested);
        assert_eq!(compact(raw(number)).unwrap(), number);
    }
    for text in ["{}", "[]", "\"7\"", "[[],{}]", "{\"a\":[1,-2.5,{\"b\":0}],\"c\":\"\\\\\"}"] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(pretty(text).unwrap(), serde_json::to_string_pretty(&value).unwrap());
    }
    assert_eq!(compact(raw(r#"{"a":1e400,"b":2,"a":3.0}"#)).unwrap(), r#"{"a":3.0,"b":2}"#, "the last of equal keys counts");
}

#[test]
fn numbers_out_of_range_are_approximated() {
    let value = approximate(raw(r#"{"a":[1e400,-1e400,12345678901234567890123,-0.0,7,"1e400"]}"#)).unwrap();
    assert_eq!(value, json!({ "a": [f64::MAX, f64::MIN, 12_345_678_901_234_567_890_123_f64, -0.0, 7, "1e400"] }));
}

#[test]
fn json_that_a_value_cannot_hold_is_an_error() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for json in [r#"["\ud83d"]"#, &deep] {
        assert!(compact(raw(json)).is_err() && approximate(raw(json)).is_err() && pretty(json).is_err(), "{json}");
    }
    for json in ["", "01", "[1.]", "{", "1 2"] {
        assert!(pretty(json).is_err(), "{json}");
    }
}

#[test]
fn cutting_a_value_moves_no_other_byte() {
    let text = "{\"x\": 1,\n \"h\": {\"r\": {\"é\":\n 1e400 } }, \"y\": oops";
    assert!(cut(text.as_bytes(), &["h", "r"]).is_none());
    let text = text.replace("oops", "2}");
    let (rest, json) = cut(text.as_bytes(), &["h", "r"]).unwrap();
    assert_eq!((rest.len(), json.get()), (text.len(), "{\"é\":\n 1e400 }"));
    assert_eq!(rest.iter().position(|byte| *byte == b'y'), text.find('y'));
    assert_eq!(serde_json::from_slice::<Value>(&rest).unwrap(), json!({ "x": 1, "h": { "r": 0 }, "y": 2 }));
    for path in [&["h", "r", "z"][..], &["x", "r"], &["z"]] {
        assert!(cut(text.as_bytes(), path).is_none(), "{path:?}");
    }
    let read = |text: &str| with_text_at(text.as_bytes(), &["h", "r"]).unwrap();
    assert_eq!(read(r#"{"h":{"q":1,"r":[1e400]}}"#), json!({ "h": { "q": 1, "r": "[1e400]" } }));
    assert_eq!(read(r#"{"h":{"r":null}}"#), json!({ "h": { "r": null } }));
    assert_eq!(read(r#"{"h":1}"#), json!({ "h": 1 }));
    assert!(with_text_at(br#"{"h":{"r":1,"s":1e400}}"#, &["h", "r"]).is_err(), "other numbers are as strict as ever");
}

#[test]
fn numbers_in_strings_are_not_found() {
    let found = |text: &'static str| numbers(text.as_bytes()).map(|number| str::from_utf8(number).unwrap()).collect::<Vec<_>>();
    assert_eq!(found(r#"{"1":-2.5e+3,"a\"4":[5,"6\\",7]}"#), ["-2.5e+3", "5", "7"]);
    assert_eq!(found(r#""1"#), Vec::<&str>::new());
}
