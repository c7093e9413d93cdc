//! The JSON form of a quote: the total price of a call, its validity, and how to pay.

use serde::Serialize;
use serde_json::{Value, json};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::MicroUsd;

use super::Quote;
use crate::{AmountDue, CallTerms, Route, X402Challenge};

/// The line for the cost of converting funds.
const CONVERSION: &str = "conversion";

/// A quote as its reader gets it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuoteDocument {
    /// The id to use in a call.
    pub quote_id: String,
    slug: String,
    endpoint_id: String,
    price_usd: MicroUsd,
    lines: Vec<CostLine>,
    total_usd: MicroUsd,
    currency: &'static str,
    created_at: Timestamp,
    expires_at: Timestamp,
    /// The exact requirements that a payment of a v2 client must accept. Empty if the call is free.
    accepts: Value,
    accepts_v1: Value,
    payment_route: Value,
    /// The amounts to arrive, in known tokens.
    #[serde(skip)]
    dues: Vec<AmountDue>,
}

/// An item of a call's price.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostLine {
    kind: &'static str,
    amount_usd: MicroUsd,
    what: &'static str,
}

/// Description of the price of a metered tool.
const AT_MOST: &str = "the most that one successful call costs: the tool says what it does";

impl QuoteDocument {
    /// Constructs the document of a `quote` from the tool's `terms` and its challenge.
    pub fn new(quote: &Quote, terms: &CallTerms, challenge: &X402Challenge) -> Self {
        let free = quote.price.is_zero();
        let accepts = |challenge: &Value| if free { json!([]) } else { challenge["accepts"].clone() };
        let line = |kind, amount_usd, what| CostLine { kind, amount_usd, what };
        Self {
            quote_id: quote.id.clone(),
            slug: terms.slug.to_string(),
            endpoint_id: terms.endpoint_id.to_string(),
            price_usd: quote.price,
            lines: vec![
                line("price", quote.price, if terms.metered { AT_MOST } else { "the tool's price, for one successful call" }),
                line("platformFee", MicroUsd::ZERO, "the host's share is taken out of the price"),
                line("networkFee", MicroUsd::ZERO, "the payer signs, and the facilitator pays the network"),
                line(CONVERSION, MicroUsd::ZERO, "none was asked for: name `startNetwork` and `startAsset`"),
            ],
            total_usd: quote.price,
            currency: "USD",
            created_at: quote.created_at,
            expires_at: quote.expires_at,
            accepts: accepts(&challenge.v2),
            accepts_v1: accepts(&challenge.v1),
            payment_route: json!({
                "method": "POST",
                "url": terms.resource_url,
                "headers": { "X-Quote-Id": quote.id },
                "invoke": { "quoteId": quote.id },
                "mcp": { "_meta": { "tollhouse/quoteId": quote.id } },
                "means": if free { json!([]) } else { json!(["x402", "developer_credit"]) },
                "conversion": null,
            }),
            dues: dues(&challenge.v2["accepts"]),
        }
    }

    /// Returns the amount to arrive for each way to pay.
    pub fn dues(&self) -> &[AmountDue] {
        &self.dues
    }

    /// Adds the route, whose cost becomes one of the lines.
    #[must_use]
    pub fn with_conversion(mut self, route: &Route) -> Self {
        let cost = route.estimated_cost.cost_usd;
        if let Some(line) = self.lines.iter_mut().find(|line| line.kind == CONVERSION) {
            *line =
                CostLine { kind: CONVERSION, amount_usd: cost, what: "getting what is to be paid in, as `paymentRoute.conversion` says" };
        }
        self.total_usd = MicroUsd(self.lines.iter().map(|line| line.amount_usd.0).sum());
        self.payment_route["conversion"] = json!(route);
        self
    }

    /// Encodes it as JSON.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).expect("a quote has text keys")
    }
}

/// Returns the amounts that entries of `accepts` require, for known tokens.
fn dues(accepts: &Value) -> Vec<AmountDue> {
    let due = |entry: &Value| AmountDue::of(entry["network"].as_str()?, entry["asset"].as_str()?, entry["amount"].as_str()?.parse().ok()?);
    accepts.as_array().into_iter().flatten().filter_map(due).collect()
}
