//! Deserializes bodies and queries, and explains errors in the client's terms: fields, parameters and JSON shapes,
//! never the names of our types.

mod by_name;
mod node;
mod serde_error;

use serde::{
    Deserializer,
    de::{DeserializeOwned, value::MapDeserializer},
};
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

pub use self::by_name::ByName;
use self::{
    node::{Node, nodes},
    serde_error::{SerdeError, short},
};

/// A deserialization error with its location.
#[derive(Debug, PartialEq, Eq)]
pub struct DeserializeError {
    /// JSON Pointer to the field, also if the field is missing. Empty for the whole value.
    pub pointer: String,
    /// The problem as a sentence, without its location.
    pub message: String,
}

/// Deserializes a JSON value.
pub fn json<T: DeserializeOwned>(value: &Value) -> Result<T, DeserializeError> {
    read(Node::Json(value)).map_err(|error| error.among("field"))
}

/// Deserializes the fields of a JSON object.
pub fn members<T: DeserializeOwned>(object: &Map<String, Value>) -> Result<T, DeserializeError> {
    read(nodes(object)).map_err(|error| error.among("field"))
}

/// Deserializes the parameters of a query.
pub fn query<T: DeserializeOwned>(query: &str) -> Result<T, DeserializeError> {
    let fields: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let nodes = fields.iter().map(|(name, text)| (&**name, Node::Text(text)));
    read(MapDeserializer::new(nodes)).map_err(|error| error.among("parameter"))
}

fn read<'de, T: DeserializeOwned, D: Deserializer<'de, Error = SerdeError>>(node: D) -> Result<T, ErrorPath> {
    serde_path_to_error::deserialize(node).map_err(|error| ErrorPath { path: names(error.path()), wrong: error.into_inner() })
}

fn names(path: &serde_path_to_error::Path) -> Vec<String> {
    let name = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(name).collect()
}

/// An error with the path that leads to it.
struct ErrorPath {
    path: Vec<String>,
    wrong: SerdeError,
}

impl ErrorPath {
    /// Builds the error message. `kind` says what the names are: fields (`field`) or parameters.
    fn among(mut self, kind: &str) -> DeserializeError {
        if let SerdeError::Missing(name) | SerdeError::Unknown(name, _) | SerdeError::Twice(name) = &self.wrong
            && self.path.last() != Some(name)
        {
            self.path.push(name.clone());
        }
        let subject = match self.path.last() {
            // For a position in a list, name the list too.
            Some(last) if last.bytes().all(|byte| byte.is_ascii_digit()) => match self.path.len().checked_sub(2) {
                Some(list) => format!("item {last} of `{}`", self.path[list]),
                None => format!("item {last}"),
            },
            Some(last) => format!("`{last}`"),
            None => "the whole value".to_owned(),
        };
        let message = match self.wrong {
            SerdeError::Shape { got, requested } => format!("{subject} is {got}, but must be {requested}"),
            SerdeError::Missing(_) => format!("{subject} is missing"),
            SerdeError::Twice(_) => format!("{subject} appears more than once"),
            SerdeError::Unknown(_, known) => format!("there is no {kind} {subject}{}", choices(known, "use one of")),
            SerdeError::Value(got, known) => format!("{subject} is `{}`{}", short(&got), choices(known, "use one of")),
            SerdeError::Custom(message) => message,
        };
        let escaped = self.path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")));
        DeserializeError { pointer: escaped.collect(), message }
    }
}

fn choices(known: &[&str], lead: &str) -> String {
    if known.is_empty() { String::new() } else { format!("; {lead} `{}`", known.join("`, `")) }
}
