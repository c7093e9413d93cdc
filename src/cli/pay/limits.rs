//! The limits of what may be spent, with which token and on which network: from the profile and from the flags of the
//! call.

use tollhouse_money::{Asset, Network};
use tollhouse_tool::MicroUsd;

use crate::base::{Error, Profile, Result};

/// Network with test money that hosts use by default.
const PLAY: &str = "eip155:84532";

/// The networks, tokens and amounts to which a payment is limited.
#[derive(Debug, Clone)]
pub(crate) struct PaymentLimits {
    /// The profile whose daily limit counts.
    pub(crate) profile: String,
    /// The only network to pay on. `None` allows all test networks, whose tokens are worth nothing.
    pub(crate) network: Option<&'static Network>,
    /// The only token to pay with. `None` allows each known token of those networks.
    pub(crate) asset: Option<&'static Asset>,
    /// The limit of one call.
    pub(crate) max: MicroUsd,
    /// The limit of a day.
    pub(crate) daily: MicroUsd,
}

impl PaymentLimits {
    /// Returns the limits of a profile. `max` is the limit given for this call.
    ///
    /// # Errors
    ///
    /// The network is unknown, or no payments are signed for it.
    pub(crate) fn of(name: Option<&str>, profile: &Profile, max: Option<MicroUsd>) -> Result<Self> {
        let network = match &profile.network {
            Some(text) => Some(named(text)?),
            None => None,
        };
        let asset = profile.asset.as_deref().map(|text| token(network, text)).transpose()?;
        let max = max.unwrap_or(profile.max_usd);
        Ok(Self { profile: name.unwrap_or_default().to_owned(), network, asset, max, daily: profile.daily_usd })
    }

    /// Returns whether the limits allow this token.
    pub(crate) fn takes(&self, token: &Asset) -> bool {
        let there = match self.network {
            Some(network) => token.network == network,
            None => token.network.is_test,
        };
        there && self.asset.is_none_or(|asset| asset == token)
    }

    /// Returns the token whose balance is shown if the profile names none.
    pub(crate) fn token(&self) -> Result<&'static Asset> {
        if let Some(asset) = self.asset {
            return Ok(asset);
        }
        let network = self.network.map_or_else(|| named(PLAY), Ok)?;
        Asset::of(network).next().ok_or_else(|| Error::usage(format!("no token is known on `{}`", network.caip2)))
    }

    /// Describes for people where payments may go.
    pub(crate) fn source_of_limit(&self) -> String {
        let profile = &self.profile;
        match self.network {
            Some(network) => format!("profile `{profile}` pays only on {}", network.caip2),
            None if profile.is_empty() => "without a profile that has a network, you can pay only with play money".to_owned(),
            None => format!("profile `{profile}` has no network, so it can pay only with play money"),
        }
    }
}

fn token(network: Option<&'static Network>, text: &str) -> Result<&'static Asset> {
    let network = network.map_or_else(|| named(PLAY), Ok)?;
    Asset::named(network, text).ok_or_else(|| Error::usage(format!("the profile's asset `{text}` is not known on {}", network.caip2)))
}

fn named(text: &str) -> Result<&'static Network> {
    let network = Network::named(text).ok_or_else(|| Error::usage(format!("the profile's network `{text}` is not known")))?;
    match network.chain_id() {
        Some(_) => Ok(network),
        None => Err(Error::usage(format!("payments cannot be signed for the profile's network `{text}`"))),
    }
}
