//! Challenges and settle responses, in both versions of the x402 wire.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::money::{Refusal, Settlement, SettlementNotice, Terms, WireVersion, terms::short};

/// Largest `PAYMENT-REQUIRED` header, in bytes: proxies cut longer ones.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// Most tags of a resource, and the longest one, in characters (x402 v2, ResourceInfo).
const MAX_TAGS: usize = 5;
const MAX_TAG: usize = 32;

/// An x402 challenge in both wires: v2 for the header, v1 for the body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Challenge {
    /// The reason; a code of x402 where there is one.
    pub error: String,
    /// The v2 `PaymentRequired` object.
    pub v2: Value,
    /// `v2` as base64, for the header `PAYMENT-REQUIRED`.
    pub v2_header: String,
    /// The v1 body.
    pub v1: Value,
    /// The same for people.
    pub sentence: String,
    /// The settlement that failed, where the challenge answers one.
    pub failed: Option<SettlementNotice>,
}

impl Challenge {
    /// `accepts` are the ways to pay, in both forms.
    pub(in crate::money) fn new(accepts: [Vec<Value>; 2], terms: &Terms, error: &str) -> Self {
        let [accepts_v1, accepts_v2] = accepts;
        let error = short(error);
        let tags: Vec<_> = terms
            .tags
            .iter()
            .filter(|tag| (1..=MAX_TAG).contains(&tag.len()) && tag.bytes().all(|b| (b' '..=b'~').contains(&b)))
            .take(MAX_TAGS)
            .collect();
        let mut v2 = json!({
            "x402Version": 2,
            "error": error,
            "resource": {
                "url": terms.resource_url,
                "description": short(&terms.description),
                "mimeType": "application/json",
                "serviceName": "Tollhouse",
                "tags": tags,
            },
            "accepts": accepts_v2,
            "extensions": extensions(terms),
        });
        let mut v2_header = STANDARD.encode(v2.to_string());
        if v2_header.len() > MAX_HEADER_BYTES {
            // Discovery is worth less than a header that arrives.
            v2["extensions"] = json!({ PAYMENT_IDENTIFIER: payment_identifier() });
            v2_header = STANDARD.encode(v2.to_string());
        }
        let v1 = json!({ "x402Version": 1, "error": error, "accepts": accepts_v1 });
        Self { sentence: sentence(terms, &error), error, v2, v2_header, v1, failed: None }
    }

    /// The same, with what is wrong in words: for people, and for who reads the body.
    #[must_use]
    pub fn explained(mut self, message: &str) -> Self {
        self.v1["message"] = json!(message);
        self.sentence = format!("{} {message}.", self.sentence);
        self
    }
}

/// What a call costs, and why it was not made, in words.
fn sentence(terms: &Terms, error: &str) -> String {
    let most = if terms.metered { "at most " } else { "" };
    let costs = format!("`{}` costs {most}{} USD for each successful call, paid with x402 or developer credit.", terms.slug, terms.price);
    if error == Refusal::NoPayment.to_string() { costs } else { format!("Not charged: the payment was refused ({error}). {costs}") }
}

/// Name of the extension by which a client names its payment.
pub(in crate::money) const PAYMENT_IDENTIFIER: &str = "payment-identifier";

/// The extensions that a challenge advertises.
pub(in crate::money) fn extensions(terms: &Terms) -> Value {
    json!({
        PAYMENT_IDENTIFIER: payment_identifier(),
        "bazaar": {
            "info": {
                "input": { "type": "http", "method": "POST", "bodyType": "json", "body": example(&terms.input_schema) },
                "output": { "type": "json" },
            },
            "schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "input": {
                        "type": "object",
                        "properties": {
                            "type": { "const": "http" },
                            "method": { "enum": ["POST"] },
                            "bodyType": { "enum": ["json"] },
                            "body": *terms.input_schema,
                        },
                        "required": ["type", "method", "bodyType", "body"],
                    },
                    "output": { "type": "object" },
                },
                "required": ["input"],
            },
        },
    })
}

fn payment_identifier() -> Value {
    json!({
        "info": { "required": false },
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "required": { "type": "boolean" },
                "id": { "type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[A-Za-z0-9_-]+$" },
            },
            "required": ["required"],
        },
    })
}

/// An input by its schema's own examples, for catalogues.
fn example(schema: &Value) -> Value {
    if let Some(first) = schema["examples"].get(0) {
        return first.clone();
    }
    let Some(properties) = schema["properties"].as_object() else { return json!({}) };
    let examples = properties.iter().filter_map(|(name, property)| {
        let value = property.get("default").or_else(|| property["examples"].get(0)).or_else(|| property["enum"].get(0))?;
        Some((name.clone(), value.clone()))
    });
    Value::Object(examples.collect())
}

/// What a settled payment is told as, in `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`.
pub(in crate::money) fn settle_response(settlement: &Settlement, version: WireVersion, network: &str, extensions: Option<&Value>) -> Value {
    let mut response = json!({
        "success": true,
        "transaction": settlement.transaction,
        "network": network,
        "payer": settlement.payer,
    });
    if version == WireVersion::V2 {
        response["amount"] = json!(settlement.amount);
        if let Some(extensions) = extensions {
            response["extensions"] = extensions.clone();
        }
    }
    response
}

/// What a payment is told as whose settlement was refused. Nothing was taken.
pub(in crate::money) fn settle_refusal(reason: &str, message: &str, network: &str, payer: &str) -> Value {
    json!({ "success": false, "errorReason": reason, "errorMessage": message, "transaction": "", "network": network, "payer": payer })
}
