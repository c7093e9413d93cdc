//! The requests and responses of the HTTP API, one Rust type for each schema of its OpenAPI document.
//!
//! A request type rejects unknown fields. The types contain no rules of the host, which checks a request after it was read. [`schemas`]
//! returns the schemas of all types.
//!
//! Some types have a parameter for JSON that another crate encodes, such as the record of a tool or a signed receipt. Its
//! default is the type that clients read.
//!
//! This crate does no IO.

mod account;
mod audit;
mod call;
mod credit;
mod discovery;
mod endpoint;
mod error;
mod faucet;
mod health;
mod ledger;
mod metrics;
mod payment;
mod payout;
mod policy;
mod publish;
mod quote;
mod revenue;
mod review;
mod schema;
mod secret;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use tollhouse_tool::MicroUsd;

pub use self::{
    account::*, audit::*, call::*, credit::*, discovery::*, endpoint::*, error::*, faucet::*, health::*, ledger::*, metrics::*, payment::*,
    payout::*, policy::*, publish::*, quote::*, revenue::*, review::*, schema::schemas, secret::*,
};

/// `true`, the only value of a field.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(into = "bool", from = "bool")]
#[schemars(inline, extend("const" = true))]
pub struct True;

impl From<True> for bool {
    fn from(_: True) -> Self {
        true
    }
}

impl From<bool> for True {
    fn from(_: bool) -> Self {
        Self
    }
}

/// Reads a sum of amounts, which can exceed [`MicroUsd::MAX`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 or more, and the conversion saturates")]
fn sum<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MicroUsd, D::Error> {
    let usd = f64::deserialize(deserializer)?;
    if usd < 0.0 || !usd.is_finite() {
        return Err(D::Error::custom("a sum must be a finite number of US dollars, 0 or more"));
    }
    Ok(MicroUsd((usd * 1e6).round() as u64))
}

/// Reads a field that can be absent. If it is present, `null` is a value like any other: for a field whose value is itself an option,
/// `None` is absent and `Some(None)` is `null`.
fn present_value<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
