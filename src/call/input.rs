//! The input of a call: converts the body or query of a request to JSON and validates it.

use bytes::Bytes;
use serde_json::{Value, json};
use tollhouse_base::{
    exact::numbers,
    offload::{length, run_blocking},
};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::{
    binding,
    receipt::{canonical, request_hash},
};
use tollhouse_protocol::limits::Limits;
use tollhouse_tool::{EndpointCode, Mismatch, TextReader, depth, listed_types, media_type, parse_json, takes_type};

use super::{CallError, raw_body::RawBody};

/// Maximum number of fields in a call's query.
pub const MAX_QUERY_FIELDS: usize = 256;

#[derive(Debug, Clone)]
pub enum Input {
    /// JSON text, for example the body of a POST. Empty counts as `{}`.
    Body(Bytes),
    /// A body that is not JSON.
    Raw(RawBody),
    /// The query of a GET, with a [limited number of fields](check_query).
    Query(Vec<(String, String)>),
}

/// The input as JSON, and as the text that the handler parses.
pub struct Parsed {
    /// The JSON value. Null if the handler parses the text itself.
    pub value: Value,
    /// The JSON text. Empty if the body is not JSON.
    pub text: Bytes,
    /// The body, if it is not JSON. It can have come within JSON.
    pub raw: Option<RawBody>,
    /// Why no run can begin with this input, as far as the host knows.
    unfit: Option<Unfit>,
}

/// Why no run can begin with an input.
#[derive(Debug)]
enum Unfit {
    /// It exceeds a limit of the tool.
    Limit(Box<CallError>),
    Schema(Mismatch),
}

impl Parsed {
    /// Creates the input of a run that the host begins with an event.
    pub(super) fn event(event: &Value) -> Self {
        Self { value: Value::Null, text: Bytes::from(event.to_string()), unfit: None, raw: None }
    }
}

impl Input {
    /// Parses the input, and hashes the request. Does not check the schema, since the payment comes first.
    pub(super) async fn read(self, live: &LiveEndpoint) -> Result<(Parsed, String), CallError> {
        self.check_size(&live.endpoint.limits)?;
        run_blocking(self.work(live), || {
            let sent = self.sent_raw().map(RawBody::canonical);
            let parsed = self.parse(live)?.within_limits()?;
            let hash = request_hash(live.endpoint.id.as_str(), &sent.unwrap_or_else(|| canonical(&parsed.value)));
            Ok((parsed.retain_for(live), hash))
        })
        .await
    }

    /// Does the same for a paid request, and also returns the binding of the payment. Does not reject an input that
    /// exceeds the tool's limits, because it can have been paid for under other limits.
    pub(super) async fn read_bound(
        self,
        live: &LiveEndpoint,
        method: &str,
        query: Option<&str>,
    ) -> Result<(Parsed, String, String), CallError> {
        run_blocking(self.work(live), || {
            let in_query = matches!(self, Self::Query(_));
            let sent = self.sent_raw().map(|raw| (raw.canonical(), raw.fingerprint()));
            let parsed = self.parse(live)?;
            let (canonical, raw) = match sent {
                Some((canonical, fingerprint)) => (canonical, Some(fingerprint)),
                None => (canonical(&parsed.value), None),
            };
            let hash = request_hash(live.endpoint.id.as_str(), &canonical);
            let body = match &raw {
                Some(fingerprint) => Some(fingerprint.as_bytes()),
                None if in_query => None,
                None => Some(fingerprint_bytes(&parsed.text, &canonical)),
            };
            let binding = binding(live.endpoint.slug.as_str(), method, query, body);
            Ok((parsed.retain_for(live), hash, binding))
        })
        .await
    }

    /// Returns the binding of a payment for a request with this input, or `None` if nobody can have paid for it.
    pub(super) async fn bound(self, slug: &str, method: &str, query: Option<&str>) -> Option<String> {
        run_blocking(self.bytes(), || {
            let text = match self {
                Self::Body(text) => text,
                Self::Raw(raw) => return Some(binding(slug, method, query, Some(raw.fingerprint().as_bytes()))),
                Self::Query(_) => return Some(binding(slug, method, query, None)),
            };
            let (value, text) = from_body(text).ok()?;
            Some(binding(slug, method, query, Some(fingerprint_bytes(&text, &canonical(&value)))))
        })
        .await
    }

    /// Rejects a body that is larger than the tool's limit.
    pub(super) fn check_size(&self, limits: &Limits) -> Result<(), CallError> {
        match self {
            Self::Body(body) if body.len() as u64 > limits.input_bytes => Err(CallError::BodyTooLarge { limit: limits.input_bytes }),
            Self::Raw(raw) if raw.bytes > limits.body_bytes => Err(CallError::BodyTooLarge { limit: limits.body_bytes }),
            Self::Body(_) | Self::Raw(_) | Self::Query(_) => Ok(()),
        }
    }

    /// Returns the body that was sent, if it is not JSON.
    fn sent_raw(&self) -> Option<&RawBody> {
        if let Self::Raw(raw) = self { Some(raw) } else { None }
    }

    /// Estimates the work of parsing, in bytes. A query is parsed with the schema.
    fn work(&self, live: &LiveEndpoint) -> usize {
        match self {
            Self::Body(_) | Self::Raw(_) => self.bytes(),
            Self::Query(_) => self.bytes() + length(&live.endpoint.input_schema),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Body(body) => body.len(),
            // It was hashed when it came.
            Self::Raw(_) => 0,
            Self::Query(fields) => fields.iter().map(|(name, text)| name.len() + text.len()).sum(),
        }
    }

    fn parse(self, live: &LiveEndpoint) -> Result<Parsed, CallError> {
        let limits = &live.endpoint.limits;
        let in_query = matches!(self, Self::Query(_));
        let size = self.check_size(limits);
        let types = &live.endpoint.request_types;
        let (value, text) = match self {
            Self::Body(body) => from_body(body)?,
            Self::Raw(raw) => {
                let is_taken = takes_type(types, &media_type(&raw.content_type)) && raw.content.is_some();
                let refused = || CallError::UnsupportedMediaType { media: media_type(&raw.content_type), takes: listed_types(types) };
                let unfit = size.err().or_else(|| (!is_taken).then(refused)).map(|error| Unfit::Limit(Box::new(error)));
                return Ok(Parsed { value: Value::Null, text: Bytes::new(), raw: Some(raw), unfit });
            }
            Self::Query(fields) => {
                let value = Value::Object(TextReader::new(&live.endpoint.input_schema).read(fields));
                let text = super::json_bytes(&value);
                (value, text)
            }
        };
        let within = if !in_query && size.is_ok() { RawBody::from_field(&value, types) } else { Ok(None) };
        let mut raw = None;
        let unfit = match size {
            Err(too_large) => Some(Unfit::Limit(Box::new(too_large))),
            Ok(()) if depth(&value) as u64 > limits.input_depth => {
                let message = format!("the nesting of the input exceeds its maximum depth of {}", limits.input_depth);
                Some(Unfit::Limit(Box::new(CallError::InvalidJson(message))))
            }
            Ok(()) => match within {
                Ok(None) => live.input.check(&value).err().map(Unfit::Schema),
                Ok(Some(found)) if found.bytes > limits.body_bytes => {
                    Some(Unfit::Limit(Box::new(CallError::BodyTooLarge { limit: limits.body_bytes })))
                }
                Ok(found) => {
                    raw = found;
                    None
                }
                Err(mismatch) => Some(Unfit::Schema(mismatch)),
            },
        };
        Ok(Parsed { value, text, raw, unfit })
    }
}

impl Parsed {
    /// Drops the value if the handler parses the text itself.
    fn retain_for(self, live: &LiveEndpoint) -> Self {
        if live.runs == EndpointCode::Js { Self { value: Value::Null, ..self } } else { self }
    }

    /// Returns the size of the input in bytes, as it was sent.
    pub(super) fn bytes(&self) -> usize {
        match &self.raw {
            Some(raw) if self.text.is_empty() => usize::try_from(raw.bytes).unwrap_or(usize::MAX),
            _ => self.text.len(),
        }
    }

    /// Returns whether a run can begin with the input, as far as the host can tell.
    pub(super) fn fits(&self) -> bool {
        self.unfit.is_none()
    }

    /// Returns the input if it is within the tool's limits.
    fn within_limits(self) -> Result<Self, CallError> {
        if matches!(self.unfit, Some(Unfit::Limit(_))) { self.check() } else { Ok(self) }
    }

    /// Returns the input if a run can begin with it, as far as the host can tell.
    pub(super) fn check(self) -> Result<Self, CallError> {
        match self.unfit {
            Some(Unfit::Limit(error)) => Err(*error),
            Some(Unfit::Schema(mismatch)) => Err(CallError::Input(mismatch)),
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

/// Rejects a query with more than [`MAX_QUERY_FIELDS`] fields, even if it is not the input.
pub fn check_query(fields: &[(String, String)]) -> Result<(), CallError> {
    if fields.len() > MAX_QUERY_FIELDS {
        return Err(CallError::Input(Mismatch::whole(format!("the query has more than {MAX_QUERY_FIELDS} fields"))));
    }
    Ok(())
}

/// Number of significant decimal digits that a double preserves.
const EXACT_DIGITS: usize = f64::DIGITS as usize;
/// Below this value, doubles are less precise.
const LEAST_EXACT: f64 = f64::MIN_POSITIVE * 1e16;

/// Returns the identity of a body: the canonical JSON, independent of spacing and field order. If the text contains a
/// number that a double does not represent uniquely, returns the text, because a handler may read it.
fn fingerprint_bytes<'a>(text: &'a [u8], canonical: &'a [u8]) -> &'a [u8] {
    if numbers(text).all(fits_a_double) { canonical } else { text.trim_ascii() }
}

/// Returns whether no other number of at most 15 digits is the same double. Rejects the smallest doubles.
fn fits_a_double(number: &[u8]) -> bool {
    let mantissa = number.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let digits = mantissa.iter().filter(|byte| byte.is_ascii_digit()).skip_while(|digit| **digit == b'0').count();
    let value: f64 = str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or_default();
    digits == 0 || (digits <= EXACT_DIGITS && value.abs() > LEAST_EXACT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_input_is_that_of_its_text() {
        let field = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(Input::Body(Bytes::from_static(b"[1, 2]")).bytes(), 6);
        assert_eq!(Input::Query(vec![field("abc", "defg"), field("h", "")]).bytes(), 8);
    }

    #[test]
    fn a_query_has_at_most_256_fields() {
        let fields = |count| vec![("name".to_owned(), "text".to_owned()); count];
        assert!(check_query(&fields(256)).is_ok() && check_query(&[]).is_ok());
        assert!(matches!(check_query(&fields(257)), Err(CallError::Input(_))));
    }

    #[test]
    fn a_body_with_a_precise_number_is_identified_by_its_text() {
        for short in [
            "{}",
            "[1,2.5,-3e8]",
            r#"{"a":123456789012345}"#,
            r#"["12345678901234567890 \" 1e-400"]"#,
            "0.000000000000000000",
            "[0]",
            "1e-280",
        ] {
            assert_eq!(fingerprint_bytes(short.as_bytes(), b"canonical"), b"canonical", "{short}");
        }
        for long in [
            "9007199254740993",
            r#"{"a":[0.12345678901234567]}"#,
            r#"["\\",12345678901234567890]"#,
            "1e-400",
            "[-5e-324]",
            " 1.0000000000000001\n",
        ] {
            assert_eq!(fingerprint_bytes(long.as_bytes(), b"canonical"), long.trim().as_bytes(), "{long}");
        }
    }
}
