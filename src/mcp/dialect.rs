//! Reads the payment of an MCP call, in the dialects of all known clients.

use std::borrow::Cow;

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::MetaObject;
use serde_json::Value;
use tollhouse_front as front;
use tollhouse_front::{ApiError, offered};
use tollhouse_money::{CreditOffer, OfferedPayment, WireVersion};

use super::revision::Era;

/// The key of an x402 payment: an object (x402's MCP transport), or its base64 (Cloudflare's `agents`).
pub(super) const PAYMENT: &str = "x402/payment";
/// The key in Vercel's `x402-mcp`: base64, v1.
const DOTTED_PAYMENT: &str = "x402.payment";
/// The key of a developer credit's token.
pub(super) const CREDIT: &str = "tollhouse/credit";
/// The key of the idempotency key for calls paid with a credit.
pub(super) const IDEMPOTENCY_KEY: &str = "tollhouse/idempotencyKey";
/// The key of the id of a quote.
pub(super) const QUOTE: &str = "tollhouse/quoteId";

/// How to answer a caller, depending on its revision and its payment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    pub(super) era: Era,
    /// The x402 version of the payment, if there is one.
    pub(super) wire: Option<WireVersion>,
    /// The payment was under Vercel's key, so the settlement is also expected under Vercel's.
    pub(super) dotted: bool,
}

impl Dialect {
    pub(super) fn of(era: Era, meta: &MetaObject, offered: &OfferedPayment) -> Self {
        let wire = match offered {
            OfferedPayment::X402 { version, .. } => Some(*version),
            OfferedPayment::Nothing | OfferedPayment::Credit(_) => None,
        };
        Self { era, wire, dotted: given(meta, PAYMENT).is_none() && given(meta, DOTTED_PAYMENT).is_some() }
    }
}

fn given<'a>(meta: &'a MetaObject, name: &str) -> Option<&'a Value> {
    meta.get(name).filter(|value| !value.is_null())
}

/// Returns a value in `_meta` as text, or `None` if it is absent or `null`. Other JSON becomes its text, so that it is
/// rejected like any wrong value, and not ignored.
fn text_in_meta(meta: &MetaObject, name: &str) -> Option<String> {
    given(meta, name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Returns the value that `_meta` or the HTTP headers have. `header` describes the one in the headers.
///
/// # Errors
///
/// 400 if both have a value and the two differ.
fn from_either(meta: &MetaObject, name: &str, header: &str, in_headers: Option<String>) -> Result<Option<String>, ApiError> {
    match (text_in_meta(meta, name), in_headers) {
        (Some(own), Some(other)) if own != other => {
            let message = format!("`{name}` in `_meta` and the {header} differ");
            Err(ApiError::bad_request(message).hint("Send the value in one of the two places, or the same value in both"))
        }
        (own, other) => Ok(own.or(other)),
    }
}

/// Returns the payment in `_meta`, or else in the HTTP headers, where clients without payment support can configure a
/// credit. A credit and its idempotency key can each be in either place. The payment check rejects an invalid payment
/// later.
///
/// # Errors
///
/// 400 if `_meta` and the headers have different credits or idempotency keys.
pub(super) fn offer(meta: &MetaObject, headers: &HeaderMap) -> Result<OfferedPayment, ApiError> {
    let credit = from_either(meta, CREDIT, "credit in the HTTP headers", front::credit(headers).map(Cow::into_owned))?;
    let idempotency_key = from_either(meta, IDEMPOTENCY_KEY, "header `Idempotency-Key`", front::idempotency_key(headers))?;
    Ok(match given(meta, PAYMENT).or_else(|| given(meta, DOTTED_PAYMENT)) {
        Some(Value::String(encoded)) => OfferedPayment::X402 { version: version(&decoded(encoded)), header: encoded.clone() },
        Some(payment) => OfferedPayment::X402 { version: version(payment), header: payment.to_string() },
        None => match (credit, offered(headers)) {
            // An x402 payment in the headers comes before a credit there, but after one in `_meta`.
            (_, payment @ OfferedPayment::X402 { .. }) if given(meta, CREDIT).is_none() => payment,
            (Some(token), _) => OfferedPayment::Credit(CreditOffer { token, idempotency_key, observer: None }),
            (None, payment) => payment,
        },
    })
}

/// Returns the quote id in `_meta` or in the HTTP headers. The call rejects an invalid one later.
///
/// # Errors
///
/// 400 if both name a quote and the two differ.
pub(super) fn quote(meta: &MetaObject, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    from_either(meta, QUOTE, "header `X-Quote-Id`", front::quote(headers))
}

/// Returns the version in a payment. Default: v2.
fn version(payment: &Value) -> WireVersion {
    if payment["x402Version"] == 1 { WireVersion::V1 } else { WireVersion::V2 }
}

fn decoded(text: &str) -> Value {
    let bytes = if text.trim_start().starts_with('{') { Ok(text.as_bytes().to_vec()) } else { STANDARD.decode(text.trim()) };
    bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;
    use serde_json::json;
    use tollhouse_front::Code;

    use super::*;

    fn meta(entries: Value) -> MetaObject {
        let Value::Object(entries) = entries else { panic!("meta is an object") };
        MetaObject(entries)
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|&(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn offered_by(entries: Value) -> OfferedPayment {
        offer(&meta(entries), &HeaderMap::new()).unwrap()
    }

    /// Returns the token and the key of an offered credit.
    fn credit_of(offered: OfferedPayment) -> (String, Option<String>) {
        let OfferedPayment::Credit(CreditOffer { token, idempotency_key, .. }) = offered else { panic!("{offered:?}") };
        (token, idempotency_key)
    }

    #[test]
    fn each_dialect_is_read() {
        for (payment, requested) in [
            (json!({ "x402Version": 2, "payload": {} }), WireVersion::V2),
            (json!({ "x402Version": 1, "payload": {} }), WireVersion::V1),
            (json!(STANDARD.encode(r#"{"x402Version":1}"#)), WireVersion::V1),
            (json!(STANDARD.encode(r#"{"x402Version":2}"#)), WireVersion::V2),
            (json!("nonsense"), WireVersion::V2),
        ] {
            for key in [PAYMENT, DOTTED_PAYMENT] {
                let offered = offered_by(json!({ key: payment }));
                assert!(matches!(&offered, OfferedPayment::X402 { version, .. } if *version == requested), "{payment}: {offered:?}");
            }
        }
        let offered = offered_by(json!({ CREDIT: "dc_1_2", IDEMPOTENCY_KEY: "once" }));
        assert!(
            matches!(&offered, OfferedPayment::Credit(offer) if offer.token == "dc_1_2" && offer.idempotency_key.as_deref() == Some("once"))
        );
        assert!(matches!(offered_by(json!({})), OfferedPayment::Nothing));
    }
    #[test]
    fn credit_and_key_can_be_in_either_place() {
        let requested = ("dc_1_2".to_owned(), Some("once".to_owned()));
        let bearer = [("authorization", "Bearer dc_1_2"), ("idempotency-key", "once")];
        let cases: [(Value, &[(&'static str, &str)]); 7] = [
            (json!({ CREDIT: "dc_1_2", IDEMPOTENCY_KEY: "once" }), &[]),
            (json!({ CREDIT: "dc_1_2" }), &[("idempotency-key", "once")]),
            (json!({ IDEMPOTENCY_KEY: "once" }), &[("x-developer-credit", "dc_1_2")]),
            (json!({ IDEMPOTENCY_KEY: "once" }), &bearer[..1]),
            (json!({}), &bearer),
            (json!({ CREDIT: null, IDEMPOTENCY_KEY: null }), &bearer),
            (json!({ CREDIT: "dc_1_2", IDEMPOTENCY_KEY: "once" }), &bearer),
        ];
        for (entries, fields) in cases {
            assert_eq!(credit_of(offer(&meta(entries.clone()), &headers(fields)).unwrap()), requested, "{entries} {fields:?}");
        }
    }

    #[test]
    fn values_of_another_type_are_not_ignored() {
        assert_eq!(credit_of(offered_by(json!({ CREDIT: 7, IDEMPOTENCY_KEY: 8 }))), ("7".to_owned(), Some("8".to_owned())));
        assert_eq!(credit_of(offered_by(json!({ CREDIT: "" }))), (String::new(), None));
        assert_eq!(quote(&meta(json!({ QUOTE: 7 })), &HeaderMap::new()).unwrap().as_deref(), Some("7"));
    }

    #[test]
    fn different_values_in_meta_and_headers_are_rejected() {
        let both = headers(&[("x-developer-credit", "dc_1_2"), ("idempotency-key", "once"), ("x-quote-id", "quo_1")]);
        for (name, header) in [(CREDIT, "credit in the HTTP headers"), (IDEMPOTENCY_KEY, "`Idempotency-Key`")] {
            for value in [json!("other"), json!(""), json!(7)] {
                let fault = offer(&meta(json!({ name: value })), &both).unwrap_err();
                assert_eq!(fault.code(), Code::InvalidRequest);
                assert!(fault.message().contains(name) && fault.message().contains(header), "{fault:?}");
            }
        }
        let fault = quote(&meta(json!({ QUOTE: "quo_2" })), &both).unwrap_err();
        assert!(fault.message().contains(QUOTE) && fault.message().contains("`X-Quote-Id`"), "{fault:?}");
        assert_eq!(quote(&meta(json!({ QUOTE: "quo_1" })), &both).unwrap().as_deref(), Some("quo_1"));
    }

    #[test]
    fn payment_in_meta_comes_before_the_headers() {
        let x402 = headers(&[("payment-signature", "e30="), ("x-developer-credit", "dc_1_2")]);
        assert!(matches!(offer(&meta(json!({})), &x402).unwrap(), OfferedPayment::X402 { header, .. } if header == "e30="));
        assert_eq!(credit_of(offer(&meta(json!({ CREDIT: "dc_1_2" })), &x402).unwrap()).0, "dc_1_2");
        let in_meta = offer(&meta(json!({ PAYMENT: { "x402Version": 1 } })), &x402).unwrap();
        assert!(matches!(in_meta, OfferedPayment::X402 { version: WireVersion::V1, .. }), "{in_meta:?}");
    }
}
