//! Terms of payment for a call: the tool's challenge, with a quoted price.

use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_api::{Manifest, PaymentRequirements, QuoteResponse};
use tollhouse_tool::MicroUsd;

use super::{answer::CallAnswer, tool::TriedTool};
use crate::{Answer, ApiRefusal, Visitor, play_wallet};

pub(super) struct CallTerms<'v> {
    /// The resource to pay for.
    pub(super) resource: Value,
    /// The ways to pay that are in both the challenge and the quote.
    pub(super) accepts: Vec<PaymentRequirements>,
    pub(super) quote: Answer<QuoteResponse>,
    pub(super) manifest: &'v Manifest,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Challenge {
    resource: Value,
    accepts: Vec<PaymentRequirements>,
}

impl<'v> CallTerms<'v> {
    /// Reads the terms from the answer that requires a payment.
    pub(super) async fn read(visitor: &'v Visitor, tool: &TriedTool, answer: &CallAnswer) -> Result<Self, ApiRefusal> {
        let challenge = answer.decoded("payment-required").and_then(|challenge| serde_json::from_value(challenge).ok());
        let Challenge { resource, mut accepts } = challenge.unwrap_or_default();
        let quote: Answer<QuoteResponse> = visitor.without_session().post("/ai/quote", &json!({ "slug": tool.slug() })).await?;
        accepts.retain(|accepted| quote.quote.accepts.contains(accepted));
        Ok(Self { resource, accepts, quote, manifest: visitor.manifest().await? })
    }

    /// Returns the first way to pay that an Ethereum wallet can sign for.
    pub(super) fn signable(&self) -> Option<&PaymentRequirements> {
        play_wallet::signable(&self.accepts)
    }

    /// Returns the price in dollars.
    pub(super) fn price(&self) -> MicroUsd {
        self.quote.quote.price_usd
    }

    /// Returns whether the price is a maximum, so that a call may cost less.
    pub(super) fn is_maximum(&self) -> bool {
        self.quote.quote.accepts.iter().any(|accepted| accepted.scheme == "upto")
    }

    /// Returns whether the call is charged before the tool runs.
    pub(super) fn is_upfront(&self) -> bool {
        let flow = |accepted: &PaymentRequirements| {
            accepted.extra.as_ref().is_some_and(|extra| extra.get("paymentFlow") == Some(&json!("upfront")))
        };
        self.quote.quote.accepts.iter().any(flow)
    }

    pub(super) fn simulated(&self) -> bool {
        self.manifest.payment.simulated
    }
}
