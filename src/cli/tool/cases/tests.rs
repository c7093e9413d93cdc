use serde_json::value::to_raw_value;

use super::*;

fn reply(status: u16, body: Value) -> Reply {
    let body = to_raw_value(&body).unwrap();
    Reply { status, headers: vec![("set-cookie".to_owned(), "a".to_owned())], body, elapsed: Duration::from_millis(40) }
}

fn wrong(case: Value, status: u16, body: Value) -> Option<String> {
    let mut case = case;
    case["name"] = json!("claims");
    Case::of(&to_raw_value(&case).unwrap()).unwrap().wrong(&reply(status, body), None)
}

#[test]
fn difference_has_its_place() {
    let describe = |requested: Value, found: Value| wrong(json!({ "output": requested }), 200, found);
    assert_eq!(describe(json!({ "text": "HI" }), json!({})).as_deref(), Some("/text expected \"HI\", got nothing"));
    assert_eq!(describe(json!({ "a": [1, { "b": 2 }] }), json!({ "a": [1, { "b": 3 }] })).as_deref(), Some("/a/1/b expected 2, got 3"));
    assert_eq!(describe(json!([1]), json!([1, 2])).as_deref(), Some("/1 expected nothing, got 2"));
    assert_eq!(describe(json!(1), json!("1")).as_deref(), Some("the result: expected 1, got \"1\""));
    assert_eq!(describe(json!({ "a": null }), json!({ "a": null })), None);
}

#[test]
fn numbers_are_compared_by_all_their_digits() {
    let is_same = |requested: &str, found: &str| {
        let case = format!("{{\"name\": \"a\", \"input\": {requested}, \"output\": [{requested}]}}");
        let case = Case::of(serde_json::from_str(&case).unwrap()).unwrap();
        assert_eq!(case.input(), requested);
        let body = RawValue::from_string(format!("[{found}]")).unwrap();
        case.wrong(&Reply { body, ..reply(200, json!(1)) }, None).is_none()
    };
    for (one, other) in [("1", "1.0"), ("0.10", "1e-1"), ("-1E+400", "-10e399"), ("0", "-0.0"), ("100", "1e2"), ("true", "true")] {
        assert!(is_same(one, other), "{one} {other}");
    }
    for (one, other) in [
        ("12345678901234567890123", "12345678901234567890124"),
        ("0.1", "0.10000000000000000001"),
        ("1e400", "1e401"),
        ("1", "-1"),
        ("1", "\"1\""),
        ("1", "10"),
    ] {
        assert!(!is_same(one, other), "{one} {other}");
    }
}

#[test]
fn each_member_of_a_case_is_checked() {
    assert!(
        wrong(json!({ "output": 1 }), 502, json!({ "error": { "code": "handler_failed", "message": "boom" } }))
            .unwrap()
            .contains("boom (handler_failed)")
    );
    assert_eq!(wrong(json!({ "output": 1, "status": [201, 404] }), 404, json!(1)), None);
    let case = Case::of(&to_raw_value(&json!({ "name": "claims", "outputMatches": { "type": "string" } })).unwrap()).unwrap();
    assert_eq!(case.output_schema(), Some(&json!({ "type": "string" })));
    assert_eq!(case.wrong(&reply(200, json!("a")), None), None);
    assert_eq!(case.wrong(&reply(200, json!(1)), Some("/a".to_owned())).as_deref(), Some("/a"));
    assert_eq!(case.wrong(&reply(404, json!(1)), Some("/a".to_owned())).as_deref(), Some("expected 200, got 404: 1"));
    assert_eq!(wrong(json!({ "output": 1 }), 404, json!({ "a": "b" })).as_deref(), Some("expected 200, got 404: {\"a\":\"b\"}"));
    assert_eq!(wrong(json!({ "output": 1 }), 404, json!("no")).as_deref(), Some("expected 200, got 404: \"no\""));
    assert_eq!(wrong(json!({ "output": 1 }), 404, json!("")).as_deref(), Some("expected 200, got 404"));
    let long = wrong(json!({ "output": 1 }), 404, json!("a".repeat(1_000))).unwrap();
    assert!(long.chars().count() < 250, "{long}");
    let error = json!({ "error": { "code": ["a", "b"], "fault": "caller", "says": "no" } });
    assert_eq!(wrong(error.clone(), 422, json!({ "error": { "code": "b", "fault": "caller", "message": "no way" } })), None);
    assert!(
        wrong(error.clone(), 422, json!({ "error": { "code": "c", "fault": "caller", "message": "x" } }))
            .unwrap()
            .contains("expected code")
    );
    assert!(
        wrong(error.clone(), 422, json!({ "error": { "code": "a", "fault": "caller", "message": "x" } }))
            .unwrap()
            .contains("a message that")
    );
    assert!(wrong(error, 200, json!({ "text": 1 })).unwrap().contains("got 200"));
    assert!(wrong(json!({ "output": 1, "notHeaders": { "Set-Cookie": "a" } }), 200, json!(1)).unwrap().contains("unwanted"));
    assert!(wrong(json!({ "output": 1, "within_ms": 10 }), 200, json!(1)).unwrap().contains("took 40 ms"));
    assert_eq!(wrong(json!({ "output": 1, "within_ms": 20 }), 200, json!(1)), None);
}

#[test]
fn malformed_cases_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let problem = |text: &str| {
        std::fs::write(folder.path().join(FILE), text).unwrap();
        read(folder.path()).unwrap_err().to_string()
    };
    assert!(problem("[\n // a comment\n { \"name\": \"a\", }\n]").starts_with("cases.jsonc:3:"));
    assert!(
        problem("[\n {\"name\": \"a\", \"output\": 1},\n\n {\"name\": \"a\", \"output\": 1}\n]").starts_with("cases.jsonc:4:2  two cases")
    );
    assert!(problem("[\n {\"name\": \"a\", \"ouput\": 1}]").starts_with("cases.jsonc:2:2  a case cannot have `ouput`"));
    assert!(problem("{}").starts_with("cases.jsonc:1:1"));
}
