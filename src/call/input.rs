//! The input of a call: from the bytes or the query of a request to JSON that fits the schema.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{CallError, digits::told_apart};
use crate::{
    base::aside::aside,
    catalog::Live,
    money::{
        binding,
        receipt::{canonical, request_hash},
    },
    tool::{Mismatch, Runs, depth},
};

/// Most fields of a call's query.
pub const MAX_QUERY_FIELDS: usize = 256;

/// The input as it came.
#[derive(Debug, Clone)]
pub enum Input {
    /// JSON as it was sent, such as the body of a POST; empty counts as `{}`.
    Body(Bytes),
    /// The query of a GET, [of few enough fields](check_query).
    Query(Vec<(String, String)>),
}

/// Input as JSON, and as the text that the handler parses.
pub struct Parsed {
    /// Null where the handler parses the text itself.
    pub value: Value,
    /// The JSON text.
    pub text: Bytes,
    /// What the host itself finds wrong with it.
    unfit: Option<Mismatch>,
}

impl Input {
    /// Parses, and names the request by its hash. Does not check: a payment comes before the schema.
    pub(super) async fn read(self, live: &Live) -> Result<(Parsed, String), CallError> {
        let read = |input: Self| {
            let parsed = input.parse(live)?;
            let hash = request_hash(live.endpoint.id.as_str(), &canonical(&parsed.value));
            Ok((parsed.kept(live), hash))
        };
        aside(self.bytes(), || read(self)).await
    }

    /// The same of a request that a payment is bound to, and what that is bound by.
    pub(super) async fn read_bound(self, live: &Live, method: &str, query: Option<&str>) -> Result<(Parsed, String, String), CallError> {
        let read = |input: Self| {
            let in_query = matches!(input, Self::Query(_));
            let parsed = input.parse(live)?;
            let canonical = canonical(&parsed.value);
            let hash = request_hash(live.endpoint.id.as_str(), &canonical);
            let body = if in_query { None } else { Some(told_apart(&parsed.text, &canonical)) };
            let binding = binding(live.endpoint.slug.as_str(), method, query, body);
            Ok((parsed.kept(live), hash, binding))
        };
        aside(self.bytes(), || read(self)).await
    }

    /// What a payment for a request with this input is bound by, whatever its tool is now; `None` where nobody can have paid
    /// for it.
    pub(super) async fn bound(self, slug: &str, method: &str, query: Option<&str>) -> Option<String> {
        let read = |input: Self| {
            let Self::Body(text) = input else { return Some(binding(slug, method, query, None)) };
            let (value, text) = from_body(text).ok()?;
            Some(binding(slug, method, query, Some(told_apart(&text, &canonical(&value)))))
        };
        aside(self.bytes(), || read(self)).await
    }

    /// How much there is to read, about.
    fn bytes(&self) -> usize {
        match self {
            Self::Body(body) => body.len(),
            Self::Query(fields) => fields.iter().map(|(name, text)| name.len() + text.len()).sum(),
        }
    }

    fn parse(self, live: &Live) -> Result<Parsed, CallError> {
        let limits = &live.endpoint.limits;
        let (value, text) = match self {
            Self::Body(body) if body.len() as u64 > limits.input_bytes => {
                return Err(CallError::BodyTooLarge { limit: limits.input_bytes });
            }
            Self::Body(body) => from_body(body)?,
            Self::Query(fields) => {
                let value = from_query(fields, &live.endpoint.input_schema);
                let text = super::json_bytes(&value);
                (value, text)
            }
        };
        if depth(&value) as u64 > limits.input_depth {
            return Err(CallError::InvalidJson(format!("nested deeper than {} levels", limits.input_depth)));
        }
        let unfit = live.input.check(&value).err();
        Ok(Parsed { value, text, unfit })
    }
}

impl Parsed {
    /// What is kept of it: what the handler reads itself is not.
    fn kept(self, live: &Live) -> Self {
        if live.runs == Runs::Js { Self { value: Value::Null, ..self } } else { self }
    }

    /// Input that fits the tool, as far as the host can tell.
    pub(super) fn check(self) -> Result<Self, CallError> {
        match self.unfit {
            Some(mismatch) => Err(CallError::Input(mismatch)),
            None => Ok(self),
        }
    }
}

/// The JSON of a body, and its text.
fn from_body(body: Bytes) -> Result<(Value, Bytes), CallError> {
    if body.trim_ascii().is_empty() {
        return Ok((json!({}), Bytes::from_static(b"{}")));
    }
    let value = serde_json::from_slice(&body).map_err(|error| CallError::InvalidJson(error.to_string()))?;
    Ok((value, body))
}

/// Refuses a query of more than [`MAX_QUERY_FIELDS`] fields: whether it is input, or told to the handler beside it.
///
/// # Errors
///
/// [`CallError::Input`].
pub fn check_query(fields: &[(String, String)]) -> Result<(), CallError> {
    if fields.len() > MAX_QUERY_FIELDS {
        return Err(CallError::Input(Mismatch::whole(format!("more than {MAX_QUERY_FIELDS} query fields"))));
    }
    Ok(())
}

/// A query as an object: a field is a string unless its schema wants a number, a boolean or a
/// list; a repeated field is a list.
fn from_query(fields: Vec<(String, String)>, schema: &Value) -> Value {
    let mut object = Map::new();
    for (name, text) in fields {
        let wanted = &schema["properties"][&name];
        let list = wanted["type"] == "array";
        let value = typed(text, if list { &wanted["items"] } else { wanted });
        match object.get_mut(&name) {
            None if list => _ = object.insert(name, Value::Array(vec![value])),
            None => _ = object.insert(name, value),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    Value::Object(object)
}

/// `text` as the type its schema names; as a string where it names none or the text is no such value.
fn typed(text: String, schema: &Value) -> Value {
    let parsed = match schema["type"].as_str() {
        Some("integer" | "number" | "boolean" | "null" | "object") => serde_json::from_str(&text).ok(),
        _ => None,
    };
    parsed.unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_about_as_long_as_its_text() {
        let field = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(Input::Body(Bytes::from_static(b"[1, 2]")).bytes(), 6);
        assert_eq!(Input::Query(vec![field("abc", "defg"), field("h", "")]).bytes(), 8);
    }

    #[test]
    fn a_query_has_256_fields_at_most() {
        let fields = |count| vec![("name".to_owned(), "text".to_owned()); count];
        assert!(check_query(&fields(256)).is_ok() && check_query(&[]).is_ok());
        assert!(matches!(check_query(&fields(257)), Err(CallError::Input(_))));
    }

    #[test]
    fn a_query_takes_the_types_of_the_schema() {
        let schema = json!({ "properties": {
            "n": { "type": "integer" }, "yes": { "type": "boolean" }, "tags": { "type": "array", "items": { "type": "string" } },
            "ones": { "type": "array" },
        }});
        let fields = [("n", "3"), ("yes", "true"), ("tags", "1"), ("tags", "b"), ("ones", "a"), ("free", "7"), ("two", "a"), ("two", "b")];
        let fields = fields.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let value = from_query(fields, &schema);
        assert_eq!(value, json!({ "n": 3, "yes": true, "tags": ["1", "b"], "ones": ["a"], "free": "7", "two": ["a", "b"] }));
    }
}
