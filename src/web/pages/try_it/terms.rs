//! Terms of payment for a call: the tool's challenge, with a quoted price.

use serde_json::{Value, json};
use tollhouse_base::offload::DropOffThread;

use super::{answer::CallAnswer, tool::TriedTool};
use crate::visitor::{ApiRefusal, Visitor};

/// The terms of a call.
pub(super) struct CallTerms<'v> {
    /// The x402 challenge.
    challenge: Value,
    pub(super) quote: DropOffThread,
    pub(super) manifest: &'v Value,
}

impl<'v> CallTerms<'v> {
    /// Reads the terms from the answer that requires a payment.
    pub(super) async fn read(visitor: &'v Visitor, tool: &TriedTool, answer: &CallAnswer) -> Result<Self, ApiRefusal> {
        let challenge = answer.decoded("payment-required").unwrap_or_default();
        let quote = visitor.unsigned().fetch_about("/ai/quote", &json!({ "slug": tool.slug() })).await?;
        let manifest = visitor.manifest().await?;
        Ok(Self { challenge, quote, manifest })
    }

    /// Returns the ways to pay that are in both the challenge and the quote.
    pub(super) fn accepts(&self) -> Vec<&Value> {
        let quoted = self.quote["accepts"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.challenge["accepts"].as_array().into_iter().flatten().filter(|accepted| quoted.contains(accepted)).collect()
    }

    /// Returns the first of them that an Ethereum wallet can sign for.
    pub(super) fn signable(&self) -> Option<&Value> {
        let signs = |accepted: &&Value| accepted["network"].as_str().is_some_and(|network| network.starts_with("eip155:"));
        self.accepts().into_iter().find(signs)
    }

    /// Returns the resource to pay for.
    pub(super) fn resource(&self) -> &Value {
        &self.challenge["resource"]
    }

    /// Returns the price in dollars.
    pub(super) fn price(&self) -> &Value {
        &self.quote["priceUsd"]
    }

    /// Returns whether the price is a maximum, so that a call may cost less.
    pub(super) fn is_most(&self) -> bool {
        self.quote["accepts"].as_array().into_iter().flatten().any(|accepted| accepted["scheme"] == "upto")
    }

    /// Whether the call is charged before the tool runs.
    pub(super) fn is_upfront(&self) -> bool {
        self.quote["accepts"].as_array().into_iter().flatten().any(|accepted| accepted["extra"]["paymentFlow"] == "upfront")
    }

    pub(super) fn simulated(&self) -> bool {
        self.manifest["payment"]["simulated"] == true
    }
}
