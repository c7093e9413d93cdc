//! A seller's challenge: v2 in the header, v1 in the body.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::HeaderMap;
use serde_json::Value;
use tollhouse_money::WireVersion;

/// Maximum number of entries of `accepts` that are read.
const MAX_TERMS: usize = 64;

/// The payment terms of a seller.
#[derive(Debug)]
pub(crate) struct Challenge {
    pub(crate) version: WireVersion,
    pub(crate) accepts: Vec<Value>,
    pub(crate) resource: Value,
    /// The seller's reason for the challenge.
    pub(crate) error: String,
    /// The seller's declaration of x402's payment-identifier extension, if it wants payments to have an identifier.
    pub(crate) naming: Option<Value>,
    /// The host's extension with a random token. Only a payer who echoes it gets the answer and the receipt again.
    pub(crate) replay_token: Option<Value>,
}

impl Challenge {
    /// Reads the challenge of a response. Returns `None` if there is none that can be parsed.
    pub(crate) fn read(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let v2 = headers.get("payment-required").and_then(|header| STANDARD.decode(header.as_bytes()).ok());
        let v2 = v2.and_then(|json| Self::of(WireVersion::V2, serde_json::from_slice(&json).ok()?));
        v2.or_else(|| Self::of(WireVersion::V1, serde_json::from_slice(body).ok()?))
    }

    fn of(version: WireVersion, mut reported: Value) -> Option<Self> {
        let number = match version {
            WireVersion::V1 => 1,
            WireVersion::V2 => 2,
        };
        if reported["x402Version"] != number {
            return None;
        }
        let Value::Array(mut accepts) = reported["accepts"].take() else { return None };
        accepts.truncate(MAX_TERMS);
        let error = reported["error"].as_str().unwrap_or_default().to_owned();
        let naming = reported["extensions"]["payment-identifier"].take();
        let naming = Some(naming).filter(|naming| naming["info"]["required"] == true);
        let replay_token = Some(reported["extensions"]["replay-token"].take()).filter(Value::is_object);
        Some(Self { version, accepts, resource: reported["resource"].take(), error, naming, replay_token })
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(challenge: &Value) -> HeaderMap {
        let value = HeaderValue::from_str(&STANDARD.encode(challenge.to_string())).unwrap();
        HeaderMap::from_iter([(reqwest::header::HeaderName::from_static("payment-required"), value)])
    }

    #[test]
    fn header_has_precedence_over_the_body() {
        let (v2, v1) = (json!({ "x402Version": 2, "accepts": [{}] }), json!({ "x402Version": 1, "accepts": [{}, {}], "error": "why" }));
        let body = v1.to_string();
        let read =
            |headers: &HeaderMap, body: &str| Challenge::read(headers, body.as_bytes()).map(|read| (read.version, read.accepts.len()));
        assert_eq!(read(&headers(&v2), &body), Some((WireVersion::V2, 1)));
        assert_eq!(read(&HeaderMap::new(), &body), Some((WireVersion::V1, 2)));
        assert_eq!(read(&headers(&json!({ "x402Version": 3, "accepts": [] })), &body), Some((WireVersion::V1, 2)));
        for none in ["", "{}", "[]", r#"{"x402Version":1}"#, r#"{"x402Version":2,"accepts":[]}"#] {
            assert_eq!(read(&HeaderMap::new(), none), None, "{none}");
        }
        assert_eq!(Challenge::read(&HeaderMap::new(), body.as_bytes()).unwrap().error, "why");
    }
}
