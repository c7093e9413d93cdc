//! Reads the payment of an MCP call, in the dialects of all known clients.

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::MetaObject;
use serde_json::Value;
use tollhouse_front as front;
use tollhouse_front::offered;
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

/// Returns the payment in `_meta`, or else in the HTTP headers, where clients without payment support can configure a
/// credit. It never fails: the payment check rejects an invalid payment later.
pub(super) fn offer(meta: &MetaObject, headers: &HeaderMap) -> OfferedPayment {
    let text = |name: &str| meta.get(name).and_then(Value::as_str).map(str::to_owned);
    match given(meta, PAYMENT).or_else(|| given(meta, DOTTED_PAYMENT)) {
        Some(Value::String(encoded)) => OfferedPayment::X402 { version: version(&decoded(encoded)), header: encoded.clone() },
        Some(payment) => OfferedPayment::X402 { version: version(payment), header: payment.to_string() },
        None => match text(CREDIT) {
            Some(token) => OfferedPayment::Credit(CreditOffer { token, idempotency_key: text(IDEMPOTENCY_KEY), observer: None }),
            None => offered(headers),
        },
    }
}

/// Returns the quote id in `_meta`, or else in the HTTP headers. It never fails: the call rejects an invalid one later.
pub(super) fn quote(meta: &MetaObject, headers: &HeaderMap) -> Option<String> {
    match given(meta, QUOTE) {
        Some(Value::String(id)) => Some(id.clone()),
        Some(other) => Some(other.to_string()),
        None => front::quote(headers),
    }
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
    use serde_json::json;

    use super::*;

    fn offered_by(meta: Value) -> OfferedPayment {
        let Value::Object(meta) = meta else { panic!("meta is an object") };
        offer(&MetaObject(meta), &HeaderMap::new())
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
}
