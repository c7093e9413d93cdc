//! What may be spent, of what, and where: by the profile, and by what was said for this one call.

use tollhouse_money::{Asset, Network};
use tollhouse_tool::MicroUsd;

use crate::base::{
    error::{Error, Result},
    profile::Profile,
};

/// Where play money is, of hosts that have not been told otherwise.
const PLAY: &str = "eip155:84532";

/// The limits of a payment.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    /// Whose day it is counted in.
    pub(crate) profile: String,
    /// The one network to pay on. Without it: those whose tokens are worth nothing.
    pub(crate) network: Option<&'static Network>,
    /// The one token to pay with. Without it: each that is known there.
    pub(crate) asset: Option<&'static Asset>,
    /// The most of one call.
    pub(crate) max: MicroUsd,
    /// The most of a day.
    pub(crate) daily: MicroUsd,
}

impl Means {
    /// Those of a profile, of which `max` was said for this call.
    ///
    /// # Errors
    ///
    /// A network that is not known, or that nothing is signed for.
    pub(crate) fn of(name: Option<&str>, profile: &Profile, max: Option<MicroUsd>) -> Result<Self> {
        let network = match &profile.network {
            Some(text) => Some(named(text)?),
            None => None,
        };
        let asset = profile.asset.as_deref().map(|text| token(network, text)).transpose()?;
        let max = max.unwrap_or(profile.max_usd);
        Ok(Self { profile: name.unwrap_or_default().to_owned(), network, asset, max, daily: profile.daily_usd })
    }

    /// Whether a token may be paid with.
    pub(crate) fn takes(&self, token: &Asset) -> bool {
        let there = match self.network {
            Some(network) => token.network == network,
            None => token.network.is_test,
        };
        there && self.asset.is_none_or(|asset| asset == token)
    }

    /// The token of a payer's own that is told of where none is named.
    pub(crate) fn token(&self) -> Result<&'static Asset> {
        if let Some(asset) = self.asset {
            return Ok(asset);
        }
        let network = self.network.map_or_else(|| named(PLAY), Ok)?;
        Asset::of(network).next().ok_or_else(|| Error::usage(format!("no token is known on `{}`", network.caip2)))
    }

    /// For people: where it is paid.
    pub(crate) fn whereabouts(&self) -> String {
        let profile = &self.profile;
        match self.network {
            Some(network) => format!("profile `{profile}` pays on {} alone", network.caip2),
            None if profile.is_empty() => "play money alone is paid with where no profile names a network".to_owned(),
            None => format!("profile `{profile}` names no network, and pays with play money alone"),
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
        None => Err(Error::usage(format!("the profile's network `{text}` is none that payments are signed for here"))),
    }
}
