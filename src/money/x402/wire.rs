//! Challenges and settle responses in both versions of x402.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tollhouse_base::sentence::sentence_case;

use super::extensions::{self, ChallengeDetail};
use super::offer::UPFRONT_BY_V2;
use crate::{CallTerms, EntryMethod, Refusal, Settlement, SettlementNotice, WireVersion, terms::short};

/// Maximum size of the `PAYMENT-REQUIRED` header, in bytes. nginx has 4 KiB for all headers of a response, of which
/// other headers take up to 600 bytes, and 8 KiB for the payer's header, which is longer than the challenge.
const MAX_HEADER_BYTES: usize = 3_400;

/// Maximum size of a challenge over MCP as base64, in bytes. It is not sent in a header.
const MAX_MCP_BYTES: usize = 8 << 10;

/// Maximum number of tags of a resource, and the maximum length of a tag in characters (x402 v2, ResourceInfo).
const MAX_TAGS: usize = 5;
const MAX_TAG: usize = 32;

/// Length of a shortened description, in characters.
const CUT_DESCRIPTION: usize = 100;

/// An x402 challenge in both versions: v2 for the header, v1 for the body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct X402Challenge {
    /// The reason: an x402 code if there is one.
    pub error: String,
    /// The v2 `PaymentRequired` object, with as much detail as fits into the header.
    pub v2: Value,
    /// `v2` as base64, for the header `PAYMENT-REQUIRED`.
    pub v2_header: String,
    /// The v1 body. If the header is too small, its field `paymentRequired` is the complete v2 object.
    pub v1: Value,
    /// The reason for people.
    pub sentence: String,
    /// The failed settlement that the challenge responds to, if any.
    pub failed: Option<SettlementNotice>,
}

impl X402Challenge {
    /// Builds a challenge with the ways to pay for v1 and v2, and the signed offers of those for v2.
    pub(crate) fn new(
        terms: &CallTerms,
        method: EntryMethod,
        [accepts_v1, accepts_v2]: &[Vec<Value>; 2],
        offers: &[Value],
        error: &str,
    ) -> Self {
        let error = short(error);
        let token = extensions::new_token();
        let describe = |cut| {
            let v2 = json!({
                "x402Version": 2,
                "error": error,
                "resource": resource(terms, method, cut),
                "accepts": accepts_v2,
                "extensions": extensions::extensions_json(terms, method, offers, token.as_deref(), cut),
            });
            let header = STANDARD.encode(v2.to_string());
            (v2, header)
        };
        let mut v1 = json!({ "x402Version": 1, "error": error, "accepts": accepts_v1 });
        if terms.is_upfront() {
            // V1 clients find no entry to pay with.
            v1["message"] = json!(sentence_case(UPFRONT_BY_V2.to_owned()));
        }
        let max = if method == EntryMethod::Mcp { MAX_MCP_BYTES } else { MAX_HEADER_BYTES };
        let (mut v2, mut v2_header) = describe(ChallengeDetail::None);
        for cut in ChallengeDetail::MORE {
            if v2_header.len() <= max {
                break;
            }
            let whole = v2;
            (v2, v2_header) = describe(cut);
            // Over MCP the schemas are in the list of tools, and the challenge is returned as sent.
            if cut == ChallengeDetail::FIRST && method != EntryMethod::Mcp {
                v1["paymentRequired"] = whole;
            }
        }
        Self { sentence: sentence(terms, &error), error, v2, v2_header, v1, failed: None }
    }

    /// Adds an explanation, for people and for readers of the body.
    #[must_use]
    pub fn explained(mut self, message: &str) -> Self {
        let message = sentence_case(message.to_owned());
        self.v1["message"] = json!(message);
        self.sentence = format!("{} {message}.", self.sentence);
        self
    }
}

/// Returns a sentence with the price of a call, and why the call was not made.
fn sentence(terms: &CallTerms, error: &str) -> String {
    let max = if terms.metered { "at most " } else { "" };
    let each = if terms.is_upfront() { "each call, charged before it runs" } else { "each successful call" };
    let costs = format!("`{}` costs {max}{} USD for {each}, paid with x402 or developer credit.", terms.slug, terms.price);
    if error == Refusal::NoPayment.to_string() { costs } else { format!("Not charged: the payment was refused ({error}). {costs}") }
}

fn resource(terms: &CallTerms, method: EntryMethod, cut: ChallengeDetail) -> Value {
    let describe = |tag: &&String| (1..=MAX_TAG).contains(&tag.len()) && tag.bytes().all(|b| (b' '..=b'~').contains(&b));
    let tags: Vec<_> = terms.tags.iter().filter(describe).take(MAX_TAGS).collect();
    let description = short(&terms.description);
    let description = if cut < ChallengeDetail::Description { description } else { description.chars().take(CUT_DESCRIPTION).collect() };
    json!({
        "url": terms.resource(method),
        "description": description,
        "mimeType": "application/json",
        "serviceName": "Tollhouse",
        "tags": tags,
    })
}

/// Builds the settle response of a settled payment, for `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`.
pub(crate) fn settle_response(settlement: &Settlement, version: WireVersion, network: &str, extensions: Option<&Value>) -> Value {
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

/// Builds the settle response of a refused settlement. Nothing was taken.
pub(crate) fn settle_refusal(reason: &str, message: &str, network: &str, payer: &str) -> Value {
    json!({ "success": false, "errorReason": reason, "errorMessage": message, "transaction": "", "network": network, "payer": payer })
}

#[cfg(test)]
mod tests;
