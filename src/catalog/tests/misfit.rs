//! Errors for bodies and queries that do not match their type.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json as literal};
use tollhouse_base::deserialize_error::{json, query};
use tollhouse_tool::{Capabilities, MicroUsd};

use crate::{Draft, Patch};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Page {
    max_price: Option<MicroUsd>,
    limit: Option<u16>,
    #[serde(default)]
    all: bool,
    tag: Option<String>,
}

fn draft(member: &str, value: Value) -> Value {
    let mut draft = literal!({ "slug": "abc", "title": "A", "handlerType": "js_request_response" });
    draft[member] = value;
    draft
}

#[test]
fn errors_name_the_field_in_terms_of_json() {
    for (body, pointer, message) in [
        (literal!([]), "", "the whole value is an array, but must be an object"),
        (literal!({}), "/slug", "`slug` is missing"),
        (draft("priceUsd", literal!("1")), "/priceUsd", "`priceUsd` is a string, but must be a number"),
        (draft("handler", literal!("x")), "/handler", "`handler` is a string, but must be an object"),
        (draft("handler", literal!({})), "/handler", "`handler` must be `{source, language}` or `{response}`"),
        (draft("handler", literal!({ "source": 5 })), "/handler/source", "`source` is 5, but must be a string"),
        (
            draft("handler", literal!({ "code": "" })),
            "/handler/code",
            "there is no field `code`; use one of `source`, `language`, `response`",
        ),
        (draft("handler", literal!({ "source": "", "language": "py" })), "/handler/language", "`language` is `py`; use one of `js`, `ts`"),
        (draft("tags", literal!("a")), "/tags", "`tags` is a string, but must be an array"),
        (draft("tags", literal!(["a", null])), "/tags/1", "item 1 of `tags` is null, but must be a string"),
        (draft("capabilities", literal!({ "kv": "yes" })), "/capabilities/kv", "`kv` is a string, but must be true or false"),
        (draft("limits", literal!([1])), "/limits", "`limits` is an array, but must be an object"),
        (draft("isolation", literal!(true)), "/isolation", "`isolation` is true, but must be a string"),
        (draft("a/b", literal!(1)), "/a~1b", "there is no field `a/b`"),
        (draft("safetyAttestation", literal!({})), "/safetyAttestation/accepted", "`accepted` is missing"),
    ] {
        let misfit = json::<Draft>(&body).unwrap_err();
        assert_eq!(misfit.pointer, pointer, "{misfit:?}");
        assert!(misfit.message.starts_with(message), "{misfit:?}");
    }
    let misfit = json::<Patch>(&literal!({ "status": "gone" })).unwrap_err();
    assert_eq!(misfit.message, "`status` is `gone`; use one of `active`, `paused`");
}

#[test]
fn valid_bodies_are_read_like_serde_json() {
    let body = draft("inputSchema", literal!({ "a": [1, -2, 2.5, 9_007_199_254_740_993_u64, null, true, "é"] }));
    let draft = json::<Draft>(&body).unwrap();
    assert_eq!((&*draft.input_schema, draft.slug.as_str()), (&body["inputSchema"], "abc"));
    assert_eq!(json::<Map<String, Value>>(&body).unwrap(), *body.as_object().unwrap());
    assert!(json::<Capabilities>(&literal!({ "kv": true })).unwrap().kv);
    assert_eq!(json::<BTreeMap<String, Option<u8>>>(&literal!({ "a": null, "b": 255 })).unwrap()["b"], Some(255));
    assert_eq!(json::<u8>(&literal!(256)).unwrap_err().message, "the whole value is 256, but must be a whole number from 0");
}

#[test]
fn query_parameters_are_read_by_type() {
    let page = query::<Page>("limit=8&maxPrice=0.25&all=true&tag=7").unwrap();
    assert_eq!((page.limit, page.max_price, page.all, page.tag.as_deref()), (Some(8), Some(MicroUsd(250_000)), true, Some("7")));
    for (text, message) in [
        ("limit=x", "`limit` is a string, but must be a whole number from 0"),
        ("limit=-1", "`limit` is -1, but must be a whole number from 0"),
        ("limit=1&limit=2", "`limit` appears more than once"),
        ("all=1", "`all` is 1, but must be true or false"),
        ("page=1", "there is no parameter `page`; use one of `maxPrice`, `limit`, `all`, `tag`"),
    ] {
        assert_eq!(query::<Page>(text).unwrap_err().message, message);
    }
}
