//! The payments that a host accepts: networks, tokens and payout addresses.

use std::{
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

use serde_json::{Value, json};
use tollhouse_tool::MicroUsd;

use super::{Asset, CallTerms, ConfigError, Facilitator, Facilitators, Network, WireVersion, network::Family, terms::SETTLE_MARGIN};

/// Conservative lifetime of a Solana transaction: 150 slots of 0.4 s after the block that it names.
const SOLANA_VALID: Duration = Duration::from_secs(60);

/// Value of x402's `extra.paymentFlow` if the payment is settled before the handler runs. Clients prefer an entry
/// without it, so either all entries of a challenge have it, or none.
pub(crate) const UPFRONT: &str = "upfront";

/// An accepted token, and the address that receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedToken {
    /// The token.
    pub asset: &'static Asset,
    /// The recipient's address on the token's network.
    pub pay_to: String,
}

/// The accepted payments, in the order in which they are offered, and the limits on unpaid work.
#[derive(Debug, Clone)]
pub struct PaymentConfig {
    /// Accepted tokens, at least one.
    pub accepted: Vec<AcceptedToken>,
    /// Limits on failed runs, which are unpaid.
    pub failed_runs: FailedRuns,
    /// Limits on gas burned by settlements that do not pay.
    pub gas: GasLimits,
    /// The networks on which this host pays the gas of settlements, each with the least amount that covers it.
    pub least_settlements: Vec<(&'static Network, MicroUsd)>,
    /// How long the host looks up an open settlement before it gives up. Default: 24 h.
    pub unresolved_after: Duration,
    /// Limits on repeated runs for a payment that was settled before the run.
    pub owed: OwedLimits,
}

impl AcceptedToken {
    /// Accepts the named token of `network` (CAIP-2 or v1 name), or the network's first token.
    ///
    /// # Errors
    ///
    /// An unknown network or token; an address that is invalid, has a wrong checksum, or is zero.
    pub fn new(network: &str, asset: Option<&str>, pay_to: &str) -> Result<Self, ConfigError> {
        let network = Network::named(network).ok_or_else(|| ConfigError::UnknownNetwork(network.to_owned()))?;
        let found = match asset {
            Some(text) => Asset::named(network, text),
            None => Asset::of(network).next(),
        };
        let asset = found.ok_or_else(|| ConfigError::UnknownAsset { network, asset: asset.unwrap_or_default().to_owned() })?;
        let pay_to = network.checked_address(pay_to).ok_or_else(|| ConfigError::PayTo { network, address: pay_to.to_owned() })?;
        if network.is_zero_address(&pay_to) {
            return Err(ConfigError::ZeroPayTo(network));
        }
        Ok(Self { asset, pay_to })
    }

    /// Returns whether a call under `terms` can be paid this way: the builder accepts it, and the signed payment stays
    /// valid for as long as the tool may run.
    fn is_acceptable(&self, terms: &CallTerms) -> bool {
        let in_time = match self.asset.network.family {
            Family::Evm { .. } => true,
            Family::Solana => terms.wall + SETTLE_MARGIN <= SOLANA_VALID,
        };
        in_time && (terms.accepts.is_empty() || terms.accepts.iter().any(|entry| self.is_named(entry)))
    }

    /// Returns whether an entry of a builder's list matches: a network, or a network and one of its tokens.
    fn is_named(&self, entry: &str) -> bool {
        let network = self.asset.network;
        entry.strip_prefix(network.caip2).or(entry.strip_prefix(network.name)).is_some_and(|rest| match rest.strip_prefix('/') {
            Some(asset) => self.asset.is_called(asset),
            None => rest.is_empty(),
        })
    }

    /// Describes it as JSON, for agents that have not called yet.
    pub(super) fn describe(&self, facilitators: &Facilitators) -> Value {
        let Self { asset, pay_to } = self;
        let facilitator = facilitators.of(asset.network).name();
        json!({ "network": asset.network.caip2, "networkV1": asset.network.name, "asset": asset.describe(), "payTo": pay_to, "facilitator": facilitator })
    }

    /// Returns the `extra` field of the requirements, or `None` if such a call cannot be paid this way.
    fn extra(&self, facilitator: &dyn Facilitator, terms: &CallTerms) -> Option<Value> {
        let Asset { network, name, version, .. } = self.asset;
        let mut extra = match (network.family, terms.metered) {
            (Family::Evm { .. }, false) => Some(json!({ "name": name, "version": version })),
            (Family::Evm { .. }, true) => {
                let address = facilitator.meter(network)?;
                Some(json!({ "name": name, "version": version, "assetTransferMethod": "permit2", "facilitatorAddress": address }))
            }
            (Family::Solana, false) => Some(json!({ "feePayer": facilitator.fee_payer(network)? })),
            (Family::Solana, true) => None,
        }?;
        if terms.is_upfront() {
            extra["paymentFlow"] = json!(UPFRONT);
        }
        Some(extra)
    }

    /// Builds an entry of `accepts` for the given x402 version.
    pub fn requirements(&self, terms: &CallTerms, version: WireVersion, extra: &Value) -> Value {
        let Self { asset, pay_to } = self;
        let amount = asset.atomic(terms.price).to_string();
        let scheme = if terms.metered { "upto" } else { "exact" };
        match version {
            WireVersion::V2 => json!({
                "scheme": scheme,
                "network": asset.network.caip2,
                "amount": amount,
                "asset": asset.address,
                "payTo": pay_to,
                "maxTimeoutSeconds": terms.timeout_secs,
                "extra": extra,
            }),
            WireVersion::V1 => json!({
                "scheme": scheme,
                "network": asset.network.name,
                "maxAmountRequired": amount,
                "resource": terms.resource_url,
                "description": super::terms::short(&terms.description),
                "mimeType": "application/json",
                "outputSchema": { "input": { "type": "http", "method": "POST", "discoverable": true }, "output": *terms.output_schema },
                "payTo": pay_to,
                "maxTimeoutSeconds": terms.timeout_secs,
                "asset": asset.address,
                "extra": extra,
            }),
        }
    }
}

/// Default least amount that covers the gas of its settlement: 0.001 USD, about its cost on a rollup.
pub const LEAST_SETTLEMENT: MicroUsd = MicroUsd(1_000);

/// Default time for which an open settlement is looked up: 24 h.
pub const UNRESOLVED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

impl PaymentConfig {
    /// Builds default settings for `network` (CAIP-2 or v1 name) and its first token.
    pub fn for_network(network: &str, pay_to: &str) -> Result<Self, ConfigError> {
        let accepted = vec![AcceptedToken::new(network, None, pay_to)?];
        let (failed_runs, gas) = (FailedRuns::default(), GasLimits::default());
        let (least_settlements, owed) = (Vec::new(), OwedLimits::default());
        Ok(Self { accepted, failed_runs, gas, least_settlements, unresolved_after: UNRESOLVED_AFTER, owed })
    }

    /// Returns the least amount that covers the gas of its settlement on `network`. Zero if every amount does, or if
    /// somebody else pays the gas.
    pub fn least_settlement(&self, network: &Network) -> MicroUsd {
        self.least_settlements.iter().find(|(known, _)| *known == network).map_or(MicroUsd::ZERO, |(_, least)| *least)
    }

    /// Returns the networks on which a call for at most `price` costs this host more gas than it brings, each with the
    /// least amount that covers the gas. `accepts` is the builder's list of accepted payments.
    pub fn underpaid_on(&self, price: MicroUsd, accepts: &[String]) -> Vec<(&'static Network, MicroUsd)> {
        let is_accepted = |accepted: &AcceptedToken| accepts.is_empty() || accepts.iter().any(|entry| accepted.is_named(entry));
        let is_offered =
            |network: &Network| self.accepted.iter().any(|accepted| accepted.asset.network == network && is_accepted(accepted));
        let underpaid = self.least_settlements.iter().filter(|(network, least)| price < *least && is_offered(network));
        underpaid.copied().collect()
    }

    /// Returns the entries of `accepts` for `terms`: the payments that host and tool both accept and a facilitator can
    /// settle. For v1, networks unknown to v1 clients are left out, unless there is no other.
    pub fn accepts(&self, facilitators: &Facilitators, terms: &CallTerms, version: WireVersion) -> Vec<Value> {
        if (terms.metered || terms.is_upfront()) && version == WireVersion::V1 {
            // v1 clients throw at any scheme but `exact`, and v1 cannot express that a payment is settled before the
            // run.
            return Vec::new();
        }
        let taken: Vec<_> = self.accepted.iter().filter(|accepted| accepted.is_acceptable(terms)).collect();
        let hidden =
            |network: &Network| version == WireVersion::V1 && !network.in_v1 && taken.iter().any(|other| other.asset.network.in_v1);
        let reported = taken.iter().filter(|accepted| !hidden(accepted.asset.network));
        reported
            .filter_map(|accepted| {
                let extra = accepted.extra(facilitators.of(accepted.asset.network), terms)?;
                Some(accepted.requirements(terms, version, &extra))
            })
            .collect()
    }

    /// Returns whether an entry of a builder's list matches a payment that the host accepts.
    pub fn takes(&self, entry: &str) -> bool {
        self.accepted.iter().any(|accepted| accepted.is_named(entry))
    }

    /// Returns the supported x402 schemes. `upto` needs a facilitator that settles metered charges.
    pub(super) fn schemes(&self, facilitators: &Facilitators) -> Vec<&'static str> {
        let metered = self.assets().any(|asset| facilitators.of(asset.network).meter(asset.network).is_some());
        if metered { vec!["exact", "upto"] } else { vec!["exact"] }
    }

    /// Returns the accepted tokens in order.
    pub fn assets(&self) -> impl Iterator<Item = &'static Asset> {
        self.accepted.iter().map(|accepted| accepted.asset)
    }

    /// Returns the token that is offered first.
    pub fn first(&self) -> &AcceptedToken {
        self.accepted.first().expect("settings name at least one network")
    }
}

/// Unpaid runs and refused payments per minute after which further ones get 429. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRuns {
    /// Per payer, for all tools together. Default: 30.
    pub of_payer: Option<NonZeroU32>,
    /// Per caller's address, for all payers together. Default: 60.
    pub of_address: Option<NonZeroU32>,
    /// Per tool, for all payers together who have not paid for it before: once for x402, and once for credit. Default: 100.
    pub of_tool: Option<NonZeroU32>,
    /// Payments per caller's address that are refused, or verified for no run, for all payers together. Default: 60.
    pub refused_of_address: Option<NonZeroU32>,
}

impl Default for FailedRuns {
    fn default() -> Self {
        let some = NonZeroU32::new;
        Self { of_payer: some(30), of_address: some(60), of_tool: some(100), refused_of_address: some(60) }
    }
}

/// Limits on gas per hour that settlements burn without paying. `None` means no limit. Gas of underpaid settlements counts
/// apart, and has the same limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasLimits {
    /// Per payer. Default: 3,000,000.
    pub of_payer: Option<NonZeroU64>,
    /// Per address, for callers who have not paid for the tool before. Default: 6,000,000.
    pub of_address: Option<NonZeroU64>,
    /// For all tools of a builder. Default: 15,000,000.
    pub of_builder: Option<NonZeroU64>,
    /// In total. Default: 60,000,000.
    pub of_all: Option<NonZeroU64>,
    /// Maximum number of reverted settlements per payer and hour. As many more are excused if another transaction had
    /// moved the money before. Default: 5.
    pub reverts: Option<NonZeroU32>,
}

impl Default for GasLimits {
    fn default() -> Self {
        let some = NonZeroU64::new;
        Self {
            of_payer: some(3_000_000),
            of_address: some(6_000_000),
            of_builder: some(15_000_000),
            of_all: some(60_000_000),
            reverts: NonZeroU32::new(5),
        }
    }
}

/// Limits on repeated runs for a payment that was settled before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwedLimits {
    /// Maximum number of runs for one payment, including the first. Default: 10.
    pub runs: NonZeroU32,
    /// Time from the settlement until the last run can begin. Default: 24 hours.
    pub kept: Duration,
}

impl Default for OwedLimits {
    fn default() -> Self {
        Self { runs: NonZeroU32::MIN.saturating_add(9), kept: Duration::from_secs(24 * 60 * 60) }
    }
}
