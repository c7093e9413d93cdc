//! Reads bodies and queries into types, and says what does not fit in the words of whoever sent it: members, parameters and
//! the shapes of JSON, never the names of our types.

mod node;
mod wrong;

use serde::{
    Deserializer,
    de::{DeserializeOwned, value::MapDeserializer},
};
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use self::{
    node::{Node, nodes},
    wrong::{Wrong, short},
};

/// What does not fit, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// JSON Pointer to the member, also to one that is missing; empty for the whole.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// Reads a JSON value.
pub(crate) fn json<T: DeserializeOwned>(value: &Value) -> Result<T, Misfit> {
    read(Node::Json(value)).map_err(|misfit| misfit.among("member"))
}

/// Reads the members of a JSON object.
pub(crate) fn members<T: DeserializeOwned>(object: &Map<String, Value>) -> Result<T, Misfit> {
    read(nodes(object)).map_err(|misfit| misfit.among("member"))
}

/// Reads the parameters of a query.
pub(crate) fn query<T: DeserializeOwned>(query: &str) -> Result<T, Misfit> {
    let fields: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let nodes = fields.iter().map(|(name, text)| (&**name, Node::Text(text)));
    read(MapDeserializer::new(nodes)).map_err(|misfit| misfit.among("parameter"))
}

fn read<'de, T: DeserializeOwned, D: Deserializer<'de, Error = Wrong>>(node: D) -> Result<T, Found> {
    serde_path_to_error::deserialize(node).map_err(|error| Found { path: names(error.path()), wrong: error.into_inner() })
}

fn names(path: &serde_path_to_error::Path) -> Vec<String> {
    let name = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(name).collect()
}

/// What is wrong, with the names that lead there.
struct Found {
    path: Vec<String>,
    wrong: Wrong,
}

impl Found {
    /// The whole sentence. `kind` is what the names are: members or parameters.
    fn among(mut self, kind: &str) -> Misfit {
        if let Wrong::Missing(name) | Wrong::Unknown(name, _) | Wrong::Twice(name) = &self.wrong
            && self.path.last() != Some(name)
        {
            self.path.push(name.clone());
        }
        let subject = match self.path.last() {
            // Of a place in a list its list says more.
            Some(last) if last.bytes().all(|byte| byte.is_ascii_digit()) => match self.path.len().checked_sub(2) {
                Some(list) => format!("item {last} of `{}`", self.path[list]),
                None => format!("item {last}"),
            },
            Some(last) => format!("`{last}`"),
            None => "the whole".to_owned(),
        };
        let message = match self.wrong {
            Wrong::Shape { got, wanted } => format!("{subject} is {got}, and should be {wanted}"),
            Wrong::Missing(_) => format!("{subject} is missing"),
            Wrong::Twice(_) => format!("{subject} is there twice"),
            Wrong::Unknown(_, known) => format!("there is no {kind} {subject}{}", choices(known, "here are")),
            Wrong::Value(got, known) => format!("{subject} is `{}`{}", short(&got), choices(known, "it may be")),
            Wrong::Said(message) => message,
        };
        let escaped = self.path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")));
        Misfit { pointer: escaped.collect(), message }
    }
}

fn choices(known: &[&str], lead: &str) -> String {
    if known.is_empty() { String::new() } else { format!("; {lead} `{}`", known.join("`, `")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::{
        catalog::{Draft, Patch},
        tool::{Capabilities, MicroUsd},
    };

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
        let mut draft = json!({ "slug": "abc", "title": "A", "handlerType": "js_request_response" });
        draft[member] = value;
        draft
    }

    #[test]
    fn what_does_not_fit_is_said_in_words_of_json_with_its_place() {
        for (body, pointer, message) in [
            (json!([]), "", "the whole is an array, and should be an object"),
            (json!({}), "/slug", "`slug` is missing"),
            (draft("priceUsd", json!("1")), "/priceUsd", "`priceUsd` is a string, and should be a number"),
            (draft("handler", json!("x")), "/handler", "`handler` is a string, and should be an object"),
            (draft("handler", json!({})), "/handler", "a handler is `{source, language}` or `{response}`"),
            (draft("handler", json!({ "source": 5 })), "/handler/source", "`source` is 5, and should be a string"),
            (
                draft("handler", json!({ "code": "" })),
                "/handler/code",
                "there is no member `code`; here are `source`, `language`, `response`",
            ),
            (draft("handler", json!({ "source": "", "language": "py" })), "/handler/language", "`language` is `py`; it may be `js`, `ts`"),
            (draft("tags", json!("a")), "/tags", "`tags` is a string, and should be an array"),
            (draft("tags", json!(["a", null])), "/tags/1", "item 1 of `tags` is null, and should be a string"),
            (draft("capabilities", json!({ "kv": "yes" })), "/capabilities/kv", "`kv` is a string, and should be true or false"),
            (draft("limits", json!([1])), "/limits", "`limits` is an array, and should be an object"),
            (draft("isolation", json!(true)), "/isolation", "`isolation` is true, and should be a string"),
            (draft("a/b", json!(1)), "/a~1b", "there is no member `a/b`"),
            (draft("safetyAttestation", json!({})), "/safetyAttestation/accepted", "`accepted` is missing"),
        ] {
            let misfit = json::<Draft>(&body).unwrap_err();
            assert_eq!(misfit.pointer, pointer, "{misfit:?}");
            assert!(misfit.message.starts_with(message), "{misfit:?}");
        }
        let misfit = json::<Patch>(&json!({ "status": "gone" })).unwrap_err();
        assert_eq!(misfit.message, "`status` is `gone`; it may be `active`, `paused`");
    }

    #[test]
    fn what_fits_is_read_as_serde_json_reads_it() {
        let body = draft("inputSchema", json!({ "a": [1, -2, 2.5, 9_007_199_254_740_993_u64, null, true, "é"] }));
        let draft = json::<Draft>(&body).unwrap();
        assert_eq!((&*draft.input_schema, draft.slug.as_str()), (&body["inputSchema"], "abc"));
        assert_eq!(json::<Map<String, Value>>(&body).unwrap(), *body.as_object().unwrap());
        assert!(json::<Capabilities>(&json!({ "kv": true })).unwrap().kv);
        assert_eq!(json::<BTreeMap<String, Option<u8>>>(&json!({ "a": null, "b": 255 })).unwrap()["b"], Some(255));
        assert_eq!(json::<u8>(&json!(256)).unwrap_err().message, "the whole is 256, and should be a whole number from 0");
    }

    #[test]
    fn parameters_of_a_query_are_read_as_what_their_type_wants() {
        let page = query::<Page>("limit=8&maxPrice=0.25&all=true&tag=7").unwrap();
        assert_eq!((page.limit, page.max_price, page.all, page.tag.as_deref()), (Some(8), Some(MicroUsd(250_000)), true, Some("7")));
        for (text, message) in [
            ("limit=x", "`limit` is a string, and should be a whole number from 0"),
            ("limit=-1", "`limit` is -1, and should be a whole number from 0"),
            ("limit=1&limit=2", "`limit` is there twice"),
            ("all=1", "`all` is 1, and should be true or false"),
            ("page=1", "there is no parameter `page`; here are `maxPrice`, `limit`, `all`, `tag`"),
        ] {
            assert_eq!(query::<Page>(text).unwrap_err().message, message);
        }
    }
}
