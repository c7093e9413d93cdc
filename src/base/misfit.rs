//! Reads bodies and queries into types, and says what does not fit in the words of whoever sent it: members, parameters and
//! the shapes of JSON, never the names of our types.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        self, DeserializeOwned, Error as _, Expected, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;

/// Characters of a wrong value that are repeated.
const REPEATED: usize = 40;

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

fn short(text: &str) -> String {
    let mut cut: String = text.chars().filter(|character| !character.is_control()).take(REPEATED).collect();
    if text.chars().count() > REPEATED {
        cut.push('…');
    }
    cut
}

/// What serde found wrong, before it is put into words.
#[derive(Debug)]
enum Wrong {
    Shape {
        got: String,
        wanted: String,
    },
    Missing(String),
    Twice(String),
    Unknown(String, &'static [&'static str]),
    /// A text that is none of the known ones.
    Value(String, &'static [&'static str]),
    Said(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Said(message.to_string())
    }

    fn invalid_type(got: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Shape { got: shape(&got), wanted: plain(&wanted.to_string()) }
    }

    fn invalid_value(got: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(got, wanted)
    }

    fn invalid_length(length: usize, wanted: &dyn Expected) -> Self {
        Self::Shape { got: format!("of {length} items"), wanted: plain(&wanted.to_string()) }
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::Value(variant.to_owned(), known)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(short(field), known)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field.to_owned())
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Twice(field.to_owned())
    }
}

/// What a value is, as JSON has it. Texts are not repeated: some are secrets.
fn shape(got: &Unexpected<'_>) -> String {
    match got {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Char(_) | Unexpected::Str(_) => "a string".to_owned(),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        Unexpected::Bytes(_)
        | Unexpected::NewtypeStruct
        | Unexpected::Enum
        | Unexpected::UnitVariant
        | Unexpected::NewtypeVariant
        | Unexpected::TupleVariant
        | Unexpected::StructVariant
        | Unexpected::Other(_) => "something else".to_owned(),
    }
}

/// What serde expects, as JSON has it. What a type says of itself (`expecting`) stays.
fn plain(wanted: &str) -> String {
    let known = match wanted.split(' ').next().unwrap_or_default() {
        "struct" => "an object",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "enum" | "variant" | "field" => "a string",
        "tuple" => "an array",
        _ => match wanted {
            "a map" => "an object",
            "a sequence" => "an array",
            "a boolean" => "true or false",
            other => other,
        },
    };
    known.to_owned()
}

/// A JSON value, or a text of a query, on its way into a type.
#[derive(Clone, Copy)]
enum Node<'de> {
    Json(&'de Value),
    /// Numbers and booleans are read from it where a type wants some.
    Text(&'de str),
}

impl<'de> IntoDeserializer<'de, Wrong> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Node<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Json(Value::Null) => Unexpected::Unit,
            Self::Json(Value::Bool(value)) => Unexpected::Bool(*value),
            Self::Json(Value::Number(number)) => {
                number.as_u64().map_or(Unexpected::Float(number.as_f64().unwrap_or_default()), Unexpected::Unsigned)
            }
            Self::Json(Value::String(text)) => Unexpected::Str(text),
            Self::Text(text) => Unexpected::Str(text),
            Self::Json(Value::Array(_)) => Unexpected::Seq,
            Self::Json(Value::Object(_)) => Unexpected::Map,
        }
    }
}

fn nodes<'de>(members: &'de Map<String, Value>) -> MapDeserializer<'de, impl Iterator<Item = (&'de str, Node<'de>)>, Wrong> {
    MapDeserializer::new(members.iter().map(|(name, value)| (name.as_str(), Node::Json(value))))
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Wrong> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(value), _, _) => visitor.visit_u64(value),
        (None, Some(value), _) => visitor.visit_i64(value),
        (None, None, Some(value)) => visitor.visit_f64(value),
        (None, None, None) => Err(Wrong::custom("a number is out of range")),
    }
}

/// Where a type wants a number or a truth, a query's text is read as one; if it is none, the visitor says what it wanted.
macro_rules! from_text {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            match self {
                Self::Text("true") => visitor.visit_bool(true),
                Self::Text("false") => visitor.visit_bool(false),
                Self::Text(text) => match serde_json::from_str::<Number>(text) {
                    Ok(number) => visit_number(&number, visitor),
                    Err(_) => visitor.visit_borrowed_str(text),
                },
                Self::Json(_) => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Self::Json(Value::Null) => visitor.visit_unit(),
            Self::Json(Value::Bool(value)) => visitor.visit_bool(*value),
            Self::Json(Value::Number(number)) => visit_number(number, visitor),
            Self::Json(Value::String(text)) => visitor.visit_borrowed_str(text),
            Self::Text(text) => visitor.visit_borrowed_str(text),
            Self::Json(Value::Array(items)) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Node::Json))),
            Self::Json(Value::Object(members)) => visitor.visit_map(nodes(members)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Self::Json(Value::Null) => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    /// Members by name only: serde would also read them from an array, in their order.
    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Self::Json(Value::Array(_)) => Err(Wrong::invalid_type(Unexpected::Seq, &visitor)),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    /// Our enums are names.
    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Self::Json(Value::String(text)) => visitor.visit_enum(text.as_str().into_deserializer()),
            Self::Text(text) => visitor.visit_enum(text.into_deserializer()),
            Self::Json(_) => Err(Wrong::invalid_type(self.unexpected(), &"a string")),
        }
    }

    from_text! { deserialize_bool deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i8 deserialize_i16 deserialize_i32
    deserialize_i64 deserialize_f32 deserialize_f64 }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
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
