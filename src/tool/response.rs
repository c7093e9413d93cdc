//! The answer of a `static_json` tool, and bodies that contain one.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{
    Error, Map, Value,
    value::{RawValue, to_raw_value},
};
use tollhouse_base::exact;

use crate::portability::has_reserved_key;

/// Path of a response in the body of an upload, and in the answer with a tool's handler.
const PATH: [&str; 2] = ["handler", "response"];

/// The answer of a `static_json` tool: compact JSON, in which every number has the text that its builder wrote.
///
/// Deserialize it from JSON text. From a [`Value`] it has the numbers of that value, which may be rounded already.
#[derive(Debug, Clone)]
pub struct StaticResponse(Arc<RawValue>);

impl StaticResponse {
    /// Reads a JSON text.
    ///
    /// # Errors
    ///
    /// The text is not JSON. The error has the position.
    pub fn read(json: &str) -> Result<Self, Error> {
        Self::of(serde_json::from_str(json)?)
    }

    /// Takes the response out of the body of an upload. The rest has `0` in its place.
    ///
    /// Returns `None` if there is none, if the body is not JSON, or if the response has a [reserved
    /// key](has_reserved_key), with which the body is rejected.
    pub fn cut(body: &[u8]) -> Option<(Vec<u8>, Self)> {
        let (rest, json) = exact::cut(body, &PATH)?;
        // Null is no response.
        if json.get() == "null" || has_reserved_key(json.get().as_bytes()) { None } else { Some((rest, Self::of(json).ok()?)) }
    }

    fn of(json: &RawValue) -> Result<Self, Error> {
        // The error of the original text has the right position.
        let position = |error| serde_json::from_str::<Value>(json.get()).err().unwrap_or(error);
        let text = exact::compact(json).map_err(position)?;
        RawValue::from_string(text).map(|json| Self(json.into()))
    }

    /// Returns it as JSON.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Returns its value, in which numbers are rounded to 64 bits. Parses the text.
    pub fn value(&self) -> Value {
        exact::approximate(&self.0).expect("it was read before")
    }
}

impl From<&Value> for StaticResponse {
    fn from(value: &Value) -> Self {
        Self(to_raw_value(value).expect("a value has text keys").into())
    }
}

impl AsRef<[u8]> for StaticResponse {
    fn as_ref(&self) -> &[u8] {
        self.text().as_bytes()
    }
}

impl PartialEq for StaticResponse {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for StaticResponse {}

impl Serialize for StaticResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StaticResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::of(&json).map_err(D::Error::custom)
    }
}

/// A JSON object in which `handler.response`, if it is there, is the text of a response in a string. It is serialized
/// as JSON with the response itself in that place.
#[derive(Debug)]
pub struct WithResponse<'a>(pub &'a Map<String, Value>);

impl WithResponse<'_> {
    /// Returns the JSON text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("an object has text keys")
    }

    /// Reads a JSON text into an object of this form.
    pub fn read(json: &[u8]) -> Result<Value, Error> {
        exact::with_text_at(json, &PATH)
    }
}

impl Serialize for WithResponse<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [handler, _] = PATH;
        serializer.collect_map(self.0.iter().map(|(name, value)| match value {
            Value::Object(members) if name == handler => (name, Part::Handler(HandlerPart(members))),
            _ => (name, Part::Plain(value)),
        }))
    }
}

/// The object that contains the response.
struct HandlerPart<'a>(&'a Map<String, Value>);

impl Serialize for HandlerPart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [_, response] = PATH;
        let json = |text: &str| RawValue::from_string(text.to_owned()).ok();
        serializer.collect_map(self.0.iter().map(|(name, value)| match value.as_str().filter(|_| name == response).and_then(json) {
            Some(json) => (name, Part::Json(json)),
            None => (name, Part::Plain(value)),
        }))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Plain(&'a Value),
    Handler(HandlerPart<'a>),
    Json(Box<RawValue>),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"{"a":[12345678901234567890123,0.1000,1e400,-0.0],"b":"é"}"#;
    const SPACED: &str = "{ \"a\": [12345678901234567890123, 0.1000,\n 1e400, -0.0 ], \"b\": \"\\u00e9\" }";

    #[test]
    fn response_keeps_exact_numbers() {
        let response = StaticResponse::read(SPACED).unwrap();
        assert_eq!((response.text(), serde_json::to_string(&response).unwrap().as_str()), (TEXT, TEXT));
        assert_eq!(response.value()["a"][0], json!(12_345_678_901_234_567_890_123_f64));
        let old = json!({ "a": [1.5, 7, "x"] });
        assert_eq!(StaticResponse::from(&old).value(), old);
        assert_eq!(serde_json::from_value::<StaticResponse>(old.clone()).unwrap(), StaticResponse::from(&old));
        assert_ne!(StaticResponse::read("1.0").unwrap(), StaticResponse::read("1.00").unwrap());
        assert!(StaticResponse::read("{\n\"a\":\"\\ud83d\"}").unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn a_response_is_taken_out_of_a_body_and_put_back() {
        let body = format!("{{\"slug\":\"a\",\"handler\":{{\"response\":{SPACED}}},\"title\":\"A\"}}");
        let (rest, response) = StaticResponse::cut(body.as_bytes()).unwrap();
        assert_eq!((response.text(), rest.len()), (TEXT, body.len()));
        let reserved = r#"{"handler":{"response":{"$serde_json::private::RawValue":"[1]"}}}"#;
        for none in ["{", "{}", r#"{"handler":1}"#, r#"{"handler":{"source":""}}"#, r#"{"handler":{"response":null}}"#, reserved] {
            assert!(StaticResponse::cut(none.as_bytes()).is_none(), "{none}");
        }
        let Value::Object(read) = WithResponse::read(body.as_bytes()).unwrap() else { panic!("{body}") };
        assert_eq!(WithResponse(&read).text(), body);
        let plain = json!({ "handler": { "source": "1", "language": "js" }, "response": "1" });
        assert_eq!(WithResponse(plain.as_object().unwrap()).text(), plain.to_string());
    }
}
