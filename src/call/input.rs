//! The input of a call: converts the body or query of a request to JSON and validates it.

use bytes::Bytes;
use serde_json::{Value, json};
use tollhouse_base::offload::{length, run_blocking};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::{
    binding,
    receipt::{canonical, request_hash},
};
use tollhouse_tool::{EndpointCode, Mismatch, TextReader, depth, parse_json};

use super::{CallError, fingerprint::fingerprint_bytes};

/// Maximum number of fields in a call's query.
pub const MAX_QUERY_FIELDS: usize = 256;

/// The raw input.
#[derive(Debug, Clone)]
pub enum Input {
    /// JSON text, for example the body of a POST. Empty counts as `{}`.
    Body(Bytes),
    /// The query of a GET, with a [limited number of fields](check_query).
    Query(Vec<(String, String)>),
}

/// The input as JSON, and as the text that the handler parses.
pub struct Parsed {
    /// The JSON value. Null if the handler parses the text itself.
    pub value: Value,
    /// The JSON text.
    pub text: Bytes,
    /// The mismatch that the host found.
    unfit: Option<Mismatch>,
}

impl Input {
    /// Parses the input, and hashes the request. Does not validate it, since the payment comes before the schema.
    pub(super) async fn read(self, live: &LiveEndpoint) -> Result<(Parsed, String), CallError> {
        let read = |input: Self| {
            let parsed = input.parse(live)?;
            let hash = request_hash(live.endpoint.id.as_str(), &canonical(&parsed.value));
            Ok((parsed.retain_for(live), hash))
        };
        run_blocking(self.work(live), || read(self)).await
    }

    /// Does the same for a paid request, and also returns the binding of the payment.
    pub(super) async fn read_bound(
        self,
        live: &LiveEndpoint,
        method: &str,
        query: Option<&str>,
    ) -> Result<(Parsed, String, String), CallError> {
        let read = |input: Self| {
            let in_query = matches!(input, Self::Query(_));
            let parsed = input.parse(live)?;
            let canonical = canonical(&parsed.value);
            let hash = request_hash(live.endpoint.id.as_str(), &canonical);
            let body = if in_query { None } else { Some(fingerprint_bytes(&parsed.text, &canonical)) };
            let binding = binding(live.endpoint.slug.as_str(), method, query, body);
            Ok((parsed.retain_for(live), hash, binding))
        };
        run_blocking(self.work(live), || read(self)).await
    }

    /// Returns the binding of a payment for a request with this input, whatever the tool's current state. `None` if
    /// nobody can have paid for it.
    pub(super) async fn bound(self, slug: &str, method: &str, query: Option<&str>) -> Option<String> {
        let read = |input: Self| {
            let Self::Body(text) = input else { return Some(binding(slug, method, query, None)) };
            let (value, text) = from_body(text).ok()?;
            Some(binding(slug, method, query, Some(fingerprint_bytes(&text, &canonical(&value)))))
        };
        run_blocking(self.bytes(), || read(self)).await
    }

    /// Estimates the work of parsing, in bytes. A query is parsed with the schema.
    fn work(&self, live: &LiveEndpoint) -> usize {
        match self {
            Self::Body(_) => self.bytes(),
            Self::Query(_) => self.bytes() + length(&live.endpoint.input_schema),
        }
    }

    /// Estimates the size in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Body(body) => body.len(),
            Self::Query(fields) => fields.iter().map(|(name, text)| name.len() + text.len()).sum(),
        }
    }

    fn parse(self, live: &LiveEndpoint) -> Result<Parsed, CallError> {
        let limits = &live.endpoint.limits;
        let (value, text) = match self {
            Self::Body(body) if body.len() as u64 > limits.input_bytes => {
                return Err(CallError::BodyTooLarge { limit: limits.input_bytes });
            }
            Self::Body(body) => from_body(body)?,
            Self::Query(fields) => {
                let value = Value::Object(TextReader::new(&live.endpoint.input_schema).read(fields));
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
    /// Drops the value if the handler parses the text itself.
    fn retain_for(self, live: &LiveEndpoint) -> Self {
        if live.runs == EndpointCode::Js { Self { value: Value::Null, ..self } } else { self }
    }

    /// Returns the input if it matches the schema, as far as the host can tell.
    pub(super) fn check(self) -> Result<Self, CallError> {
        match self.unfit {
            Some(mismatch) => Err(CallError::Input(mismatch)),
            None => Ok(self),
        }
    }
}

/// Parses the JSON of a body. Also returns its text.
fn from_body(body: Bytes) -> Result<(Value, Bytes), CallError> {
    if body.trim_ascii().is_empty() {
        return Ok((json!({}), Bytes::from_static(b"{}")));
    }
    let value = parse_json(&body).map_err(CallError::InvalidJson)?;
    Ok((value, body))
}

/// Rejects a query with more than [`MAX_QUERY_FIELDS`] fields, whether it is the input or passed to the handler in
/// addition.
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
}
