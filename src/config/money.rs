//! Settings of payments: facilitators, recipients, and the host's fee.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::ValueEnum as _;
use tollhouse_money::{
    AcceptedToken, ConfigError, FacilitatorAccess, FacilitatorKind, FacilitatorSite, FailedRuns, Family, GasLimits, LEAST_SETTLEMENT,
    MoneyKind, Network, OwedLimits, PaymentConfig, RemoteRoutes, UNRESOLVED_AFTER,
    receipt::OfferFormat,
    sale::{FeeBps, WHOLE_BPS},
};
use tollhouse_tool::MicroUsd;

use super::{account::usd, error::SettingsError, layered::flags, secret::HiddenValue};

/// Default recipient of simulated payments, an address that nobody owns.
const SIMULATED_PAY_TO: &str = "0x70110e5e70110e5e70110e5e70110e5e70110e5e";

/// Default network for payments.
const DEFAULT_NETWORK: &str = "eip155:84532";

/// Default fee of the host on each sale, in basis points.
const DEFAULT_FEE_BPS: u16 = 500;

/// Default number of blocks that a settlement needs, including its own.
const DEFAULT_CONFIRMATIONS: u64 = 1;

/// Maximum number of blocks, because a call waits for them for at most a minute.
const MAX_CONFIRMATIONS: u64 = 64;

/// Maximum time to look up how a settlement ended, in milliseconds: a year.
const MAX_UNRESOLVED_AFTER_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

/// Default validity of a quote, in milliseconds.
const DEFAULT_QUOTE_MS: u64 = 5 * 60 * 1_000;

/// Maximum validity of a quote, in milliseconds, because a builder's price change waits for it.
const MAX_QUOTE_MS: u64 = 24 * 60 * 60 * 1_000;

/// Maximum runs for one payment that was settled before its run.
const MAX_PAID_RUNS: i64 = 1_000;

/// Maximum time in which such runs can begin, in milliseconds. The payment's record is kept as long.
const MAX_PAID_RUN_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

flags! {
/// Flags for payments.
pub struct MoneyFlags {
    /// Facilitator that verifies and settles payments [default: simulated]
    pub facilitator: Option<FacilitatorKind> = "TOLLHOUSE_FACILITATOR",
    /// Base URL of the x402 facilitator, for `http`
    pub facilitator_url: Option<String> = "X402_FACILITATOR_URL",
    /// Headers for each request to the facilitator, as `Name: value`, one per line
    pub facilitator_headers: Vec<HiddenValue> = "TOLLHOUSE_FACILITATOR_HEADERS" (hide_env_values = true, value_delimiter = '\n'),
    /// Id of the API key for Coinbase's facilitator
    pub cdp_api_key_id: Option<String> = "CDP_API_KEY_ID",
    /// Secret of Coinbase's API key: Ed25519 in base64, or P-256 as a PEM
    pub cdp_api_key_secret: Option<HiddenValue> = "CDP_API_KEY_SECRET" (hide_env_values = true),
    /// Facilitators of individual networks, as `NETWORK=KIND`, or `NETWORK=URL` for `http` without credentials
    pub network_facilitator: Vec<String> = "TOLLHOUSE_NETWORK_FACILITATORS" (value_delimiter = ','),
    /// Address that receives payments on EVM networks; required with a real facilitator
    pub pay_to: Option<String> = "TOLLHOUSE_PAY_TO",
    /// Address that receives payments on Solana; required for Solana
    pub pay_to_solana: Option<String> = "TOLLHOUSE_PAY_TO_SOLANA",
    /// Networks for payments, as CAIP-2 or by name, in order of preference [default: eip155:84532, Base Sepolia]
    #[serde(deserialize_with = "one_or_more")]
    pub network: Vec<String> = "TOLLHOUSE_NETWORK" (value_delimiter = ','),
    /// Accepted tokens that the host knows, as `NETWORK=SYMBOL` or `NETWORK=ADDRESS` [default: USDC on each network]
    pub asset: Vec<String> = "TOLLHOUSE_ASSETS" (value_delimiter = ','),
    /// JSON-RPC URL of a node on the first EVM network, for settling and lookups
    pub rpc_url: Option<String> = "TOLLHOUSE_RPC_URL" (hide_env_values = true),
    /// JSON-RPC URLs of nodes on other EVM networks, each as `NETWORK=URL`
    pub network_rpc_url: Vec<HiddenValue> = "TOLLHOUSE_NETWORK_RPC_URLS" (hide_env_values = true, value_delimiter = ','),
    /// Confirmations that a settlement needs with a node; its own block is the first [default: 1]
    pub confirmations: Option<u64> = "TOLLHOUSE_CONFIRMATIONS" (value_parser = clap::value_parser!(u64).range(1..=MAX_CONFIRMATIONS)),
    /// Confirmations that a settlement needs on individual networks, each as `NETWORK=BLOCKS`
    pub network_confirmations: Vec<String> = "TOLLHOUSE_NETWORK_CONFIRMATIONS" (value_delimiter = ','),
    /// Key of the account that pays the gas, for `evm`: 32 bytes in hex
    pub gas_key: Option<HiddenValue> = "TOLLHOUSE_GAS_KEY" (hide_env_values = true),
    /// File with the key of the account that pays the gas
    pub gas_key_file: Option<PathBuf> = "TOLLHOUSE_GAS_KEY_FILE",
    /// Gas per hour that one payer can burn without paying; 0 means no limit [default: 3000000]
    pub payer_burned_gas: Option<u64> = "TOLLHOUSE_PAYER_BURNED_GAS",
    /// Hourly gas that new payers at one address can burn unpaid; 0 means no limit [default: 6000000, and none when listening on loopback]
    pub address_burned_gas: Option<u64> = "TOLLHOUSE_ADDRESS_BURNED_GAS",
    /// Hourly gas that payers of one builder's tools can burn unpaid; 0 means no limit [default: 15000000]
    pub builder_burned_gas: Option<u64> = "TOLLHOUSE_BUILDER_BURNED_GAS",
    /// Hourly gas burned unpaid; above this limit, x402 payments get 503; 0 means no limit [default: 60000000]
    pub burned_gas: Option<u64> = "TOLLHOUSE_BURNED_GAS",
    /// Reverted settlements of one payer per hour; 0 means no limit [default: 5]
    pub payer_reverts: Option<u32> = "TOLLHOUSE_PAYER_REVERTS",
    /// Minimum payment that covers the gas of its settlement, in USD; 0 means no minimum [default: 0.001, and 0 on test networks]
    pub least_settlement_usd: Option<MicroUsd> = "TOLLHOUSE_LEAST_SETTLEMENT_USD" (value_parser = usd),
    /// Minimum payments that cover the gas on individual networks, each as `NETWORK=USD`
    pub network_least_settlement_usd: Vec<String> = "TOLLHOUSE_NETWORK_LEAST_SETTLEMENTS_USD" (value_delimiter = ','),
    /// How long the host looks up an unknown settlement, in ms, at most a year [default: 86400000]
    pub unresolved_after_ms: Option<u64> = "TOLLHOUSE_UNRESOLVED_AFTER_MS"
        (value_parser = clap::value_parser!(u64).range(1..=MAX_UNRESOLVED_AFTER_MS)),
    /// Maximum runs for a payment that settles before the run, including the first run [default: 10]
    pub paid_runs: Option<u32> = "TOLLHOUSE_PAID_RUNS" (value_parser = clap::value_parser!(u32).range(1..=MAX_PAID_RUNS)),
    /// Latest start of a run after its settlement, in ms, at most 30 days [default: 86400000]
    pub paid_run_ms: Option<u64> = "TOLLHOUSE_PAID_RUN_MS" (value_parser = clap::value_parser!(u64).range(1..=MAX_PAID_RUN_MS)),
    /// Allow the simulated facilitator on an address other than loopback
    pub allow_simulated_public: Option<bool> = "TOLLHOUSE_ALLOW_SIMULATED_PUBLIC" (num_args = 0..=1, default_missing_value = "true"),
    /// Signature format of offers and receipts, as in x402's offer-receipt extension [default: jws]
    pub offer_format: Option<OfferFormat> = "TOLLHOUSE_OFFER_FORMAT",
    /// Fee of the host on each sale, in basis points of the price [default: 500]
    pub fee_bps: Option<u16> = "TOLLHOUSE_FEE_BPS" (value_parser = clap::value_parser!(u16).range(0..=10_000)),
    /// Validity of a quote, in ms, at most a day [default: 300000]
    pub quote_ms: Option<u64> = "TOLLHOUSE_QUOTE_MS" (value_parser = clap::value_parser!(u64).range(1..=MAX_QUOTE_MS)),
    /// Base URL of a quote API like LI.FI's; without it, a built-in table is used
    pub routes_url: Option<String> = "TOLLHOUSE_ROUTES_URL",
    /// API key for the quote API, sent as `x-lifi-api-key`
    pub routes_key: Option<HiddenValue> = "TOLLHOUSE_ROUTES_KEY" (hide_env_values = true),
}
}

/// Settings of payments.
#[derive(Debug, Clone)]
pub struct MoneySettings {
    /// Networks for payments, in order of preference. There is at least one.
    pub networks: Vec<NetworkSettings>,
    /// Credentials for the facilitator at `X402_FACILITATOR_URL`.
    pub access: FacilitatorAccess,
    /// Key of the account that pays the gas, for `evm`.
    pub gas_key: Option<HiddenValue>,
    /// Limits on gas spent by settlements that do not pay.
    pub gas: GasLimits,
    /// How long to keep asking how a settlement ended.
    pub unresolved_after: Duration,
    /// Limits on repeated runs for a payment that was settled before its run.
    pub owed: OwedLimits,
    /// How offers and receipts in challenges and settlements are signed.
    pub offer_format: OfferFormat,
    /// The host's fee on each sale.
    pub fee: FeeBps,
    /// How long a quote is valid.
    pub quote: Duration,
    /// URL of the service for conversion routes. `None` means the built-in table.
    pub routes_url: Option<String>,
    /// API key for that service.
    pub routes_key: Option<HiddenValue>,
}

/// Settings of payments on one network.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// The network to which these settings apply.
    pub network: &'static Network,
    /// The accepted tokens and their recipients.
    pub accepted: Vec<AcceptedToken>,
    /// The kind of facilitator.
    pub facilitator: FacilitatorKind,
    /// The facilitator's URL, for `http`.
    pub url: Option<String>,
    /// Whether it is the facilitator at `X402_FACILITATOR_URL`, to which credentials are sent.
    pub known: bool,
    /// URL of a node of the network, for looking up settlements.
    pub rpc_url: Option<HiddenValue>,
    /// Number of blocks that a settlement needs before it counts, including its own. Default: 1.
    pub confirmations: u64,
    /// The least amount that covers the gas of its settlement. Zero if every amount does, or if this host pays no gas.
    pub least_settlement: MicroUsd,
}

impl MoneySettings {
    /// Returns the kind of money that the host takes, which is the same on all its networks.
    #[must_use]
    pub fn kind(&self) -> MoneyKind {
        if self.networks.iter().any(|on| on.facilitator == FacilitatorKind::Simulated) {
            MoneyKind::Simulated
        } else if self.networks.iter().any(|on| on.network.is_test) {
            MoneyKind::Test
        } else {
            MoneyKind::Real
        }
    }

    /// Returns the facilitator of each network. Those configured for a single network get `strangers` as access, without
    /// our credentials.
    #[must_use]
    pub fn sites<'a>(&'a self, strangers: &'a FacilitatorAccess) -> Vec<FacilitatorSite<'a>> {
        let site = |of: &'a NetworkSettings| FacilitatorSite {
            network: of.network,
            kind: of.facilitator,
            url: of.url.as_deref(),
            access: if of.known { &self.access } else { strangers },
            rpc_url: of.rpc_url.as_ref().map(HiddenValue::expose),
            confirmations: of.confirmations,
        };
        self.networks.iter().map(site).collect()
    }

    /// Refuses URLs and credentials with which a host could not start.
    fn check_access(&self) -> Result<(), ConfigError> {
        let strangers = FacilitatorAccess::default();
        let gas_key = self.gas_key.as_ref().map(HiddenValue::expose);
        self.sites(&strangers).iter().try_for_each(|site| site.check(gas_key))?;
        match &self.routes_url {
            Some(url) => RemoteRoutes::check(url, self.routes_key.as_ref().map(HiddenValue::expose)),
            None => Ok(()),
        }
    }

    /// Returns the settings that the gate of payments needs, with limits on runs without a payment.
    #[must_use]
    pub fn payments(&self, failed_runs: FailedRuns) -> PaymentConfig {
        let accepted = self.networks.iter().flat_map(|network| network.accepted.iter().cloned()).collect();
        let least_settlements = self.networks.iter().filter(|on| !on.least_settlement.is_zero());
        PaymentConfig {
            accepted,
            failed_runs,
            gas: self.gas,
            least_settlements: least_settlements.map(|on| (on.network, on.least_settlement)).collect(),
            unresolved_after: self.unresolved_after,
            owed: self.owed,
        }
    }
}

impl MoneyFlags {
    /// Returns the effective settings for a host that listens at `listen`, or on loopback.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, each with what to do about it.
    pub fn settled(self, listen: Option<SocketAddr>) -> Result<MoneySettings, SettingsError> {
        let listen = listen.unwrap_or(super::host::LISTEN);
        self.resolve(listen, listen.ip().is_loopback())
    }

    pub(super) fn resolve(self, listen: SocketAddr, one_address: bool) -> Result<MoneySettings, SettingsError> {
        let networks = self.networks()?;
        let kind_where = |is: fn(FacilitatorKind) -> bool| networks.iter().map(|network| network.facilitator).find(|kind| is(*kind));
        let gas_key = HiddenValue::given_or_in(self.gas_key.clone(), self.gas_key_file.as_deref())?;
        if let (None, Some(kind)) = (&gas_key, kind_where(FacilitatorKind::sends_transactions)) {
            return Err(SettingsError::NoGasKey(kind));
        }
        let plays = kind_where(|kind| kind == FacilitatorKind::Simulated).is_some();
        if plays && kind_where(|kind| kind != FacilitatorKind::Simulated).is_some() {
            return Err(SettingsError::PlayAndRealMoney);
        }
        let network_where = |is_test| networks.iter().map(|on| on.network).find(|network| network.is_test == is_test);
        if !plays && let (Some(test), Some(main)) = (network_where(true), network_where(false)) {
            return Err(SettingsError::TestAndMainNetworks { test: test.name, main: main.name });
        }
        let in_public = !listen.ip().is_loopback() && !self.allow_simulated_public.unwrap_or(false);
        if plays && in_public {
            return Err(SettingsError::SimulatedInPublic(listen));
        }
        let text = |hidden: &HiddenValue| hidden.expose().to_owned();
        let access = FacilitatorAccess {
            headers: self.facilitator_headers.iter().map(text).filter(|line| !line.trim().is_empty()).collect(),
            cdp_key: match (self.cdp_api_key_id, &self.cdp_api_key_secret) {
                (Some(id), Some(secret)) => Some((id, text(secret))),
                (None, None) => None,
                _ => return Err(SettingsError::HalfAKey),
            },
        };
        let fee = self.fee_bps.unwrap_or(DEFAULT_FEE_BPS);
        if fee > WHOLE_BPS {
            return Err(SettingsError::Fee(fee));
        }
        let defaults = GasLimits::default();
        let gas = |given: Option<u64>, max| given.map_or(max, NonZeroU64::new);
        let gas = GasLimits {
            of_payer: gas(self.payer_burned_gas, defaults.of_payer),
            of_address: gas(self.address_burned_gas, defaults.of_address.filter(|_| !one_address)),
            of_builder: gas(self.builder_burned_gas, defaults.of_builder),
            of_all: gas(self.burned_gas, defaults.of_all),
            reverts: self.payer_reverts.map_or(defaults.reverts, NonZeroU32::new),
        };
        let owed = OwedLimits {
            runs: self.paid_runs.map_or(OwedLimits::default().runs, |runs| NonZeroU32::new(runs).unwrap_or(NonZeroU32::MIN)),
            kept: self.paid_run_ms.map_or(OwedLimits::default().kept, |ms| Duration::from_millis(ms.clamp(1, MAX_PAID_RUN_MS))),
        };
        let settings = MoneySettings {
            networks,
            gas,
            unresolved_after: self
                .unresolved_after_ms
                .map_or(UNRESOLVED_AFTER, |ms| Duration::from_millis(ms.clamp(1, MAX_UNRESOLVED_AFTER_MS))),
            owed,
            access,
            gas_key,
            offer_format: self.offer_format.unwrap_or_default(),
            fee: FeeBps(fee),
            routes_url: self.routes_url,
            routes_key: self.routes_key,
            quote: Duration::from_millis(self.quote_ms.map_or(DEFAULT_QUOTE_MS, |ms| ms.clamp(1, MAX_QUOTE_MS))),
        };
        settings.check_access()?;
        Ok(settings)
    }

    /// Returns the networks, each with its own settings and the common ones.
    fn networks(&self) -> Result<Vec<NetworkSettings>, SettingsError> {
        let mut networks: Vec<&'static Network> = Vec::new();
        for name in self.network.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let network = named("TOLLHOUSE_NETWORK", name)?;
            if !networks.contains(&network) {
                networks.push(network);
            }
        }
        if networks.is_empty() {
            networks.extend(Network::named(DEFAULT_NETWORK));
        }
        let kinds = pairs("TOLLHOUSE_NETWORK_FACILITATORS", self.network_facilitator.iter().map(String::as_str), &networks)?;
        let assets = pairs("TOLLHOUSE_ASSETS", self.asset.iter().map(String::as_str), &networks)?;
        let nodes = pairs("TOLLHOUSE_NETWORK_RPC_URLS", self.network_rpc_url.iter().map(HiddenValue::expose), &networks)?;
        let depths = pairs("TOLLHOUSE_NETWORK_CONFIRMATIONS", self.network_confirmations.iter().map(String::as_str), &networks)?;
        let least = self.network_least_settlement_usd.iter().map(String::as_str);
        let least = pairs("TOLLHOUSE_NETWORK_LEAST_SETTLEMENTS_USD", least, &networks)?;
        let first_evm = networks.iter().find(|network| network.chain_id().is_some());
        let all = networks
            .iter()
            .map(|network| {
                let of = |pairs: &[Pair<'_>]| {
                    pairs.iter().filter(|(of, _)| of == network).map(|(_, text)| (*text).to_owned()).collect::<Vec<_>>()
                };
                let first = self.rpc_url.as_ref().filter(|_| first_evm == Some(network)).cloned();
                let rpc_url = of(&nodes).pop().or(first).map(HiddenValue::from);
                let confirmations = match of(&depths).pop() {
                    Some(_) if rpc_url.is_none() => return Err(SettingsError::NoNodeForConfirmations(network.caip2)),
                    None => self.confirmations.unwrap_or(DEFAULT_CONFIRMATIONS),
                    Some(text) => text.parse().map_err(|_| SettingsError::Confirmations { text, max: MAX_CONFIRMATIONS })?,
                };
                if !(1..=MAX_CONFIRMATIONS).contains(&confirmations) {
                    let text = confirmations.to_string();
                    return Err(SettingsError::Confirmations { text, max: MAX_CONFIRMATIONS });
                }
                let on = self.on(network, of(&kinds).pop(), &of(&assets), rpc_url)?;
                let usual = if network.is_test { MicroUsd::ZERO } else { LEAST_SETTLEMENT };
                let least_settlement = match of(&least).pop() {
                    Some(text) => usd(&text).map_err(|reason| SettingsError::LeastSettlement { text, reason })?,
                    None => self.least_settlement_usd.unwrap_or(usual),
                };
                let least_settlement = if on.facilitator.sends_transactions() { least_settlement } else { MicroUsd::ZERO };
                Ok(NetworkSettings { confirmations, least_settlement, ..on })
            })
            .collect::<Result<Vec<_>, _>>()?;
        match self.confirmations {
            // One is met by every settlement that counts at all.
            Some(blocks) if blocks > 1 && all.iter().all(|on| on.rpc_url.is_none()) => {
                Err(SettingsError::NoNodeForAnyConfirmations(blocks))
            }
            _ => Ok(all),
        }
    }

    /// Returns the effective settings of one network.
    fn on(
        &self,
        network: &'static Network,
        own: Option<String>,
        assets: &[String],
        rpc_url: Option<HiddenValue>,
    ) -> Result<NetworkSettings, SettingsError> {
        let kind = self.facilitator.unwrap_or_default();
        let (facilitator, url) = match own {
            None => (kind, None),
            Some(text) => match FacilitatorKind::from_str(&text, true) {
                Ok(kind) => (kind, None),
                Err(_) => (FacilitatorKind::Http, Some(text)),
            },
        };
        if !facilitator.settles_on(network.family) {
            return Err(SettingsError::NotSettledBy { facilitator, network: network.caip2 });
        }
        let known = url.is_none();
        let url = url.or_else(|| self.facilitator_url.clone()).filter(|_| facilitator == FacilitatorKind::Http);
        if facilitator == FacilitatorKind::Http && url.is_none() {
            return Err(SettingsError::NoFacilitatorUrl(facilitator));
        }
        if facilitator.sends_transactions() && rpc_url.is_none() {
            return Err(SettingsError::NoNode { facilitator, network: network.caip2 });
        }
        let pay_to = match (network.family, &self.pay_to, &self.pay_to_solana) {
            (Family::Evm { .. }, Some(pay_to), _) | (Family::Solana, _, Some(pay_to)) => pay_to.as_str(),
            (Family::Evm { .. }, None, _) if facilitator == FacilitatorKind::Simulated => SIMULATED_PAY_TO,
            (Family::Evm { .. }, None, _) | (Family::Solana, _, None) => {
                return Err(SettingsError::NoPayTo { facilitator, setting: network.pay_to_setting() });
            }
        };
        let accepted = match assets {
            [] => vec![AcceptedToken::new(network.caip2, None, pay_to)?],
            named => named.iter().map(|asset| AcceptedToken::new(network.caip2, Some(asset), pay_to)).collect::<Result<_, _>>()?,
        };
        let (confirmations, least_settlement) = (DEFAULT_CONFIRMATIONS, MicroUsd::ZERO);
        Ok(NetworkSettings { network, accepted, facilitator, url, known, rpc_url, confirmations, least_settlement })
    }
}

/// A setting for one network.
type Pair<'a> = (&'static Network, &'a str);

/// Returns the network with this name, which is in `setting`.
fn named(setting: &'static str, name: &str) -> Result<&'static Network, SettingsError> {
    let unknown = || SettingsError::UnknownNetwork { setting, error: ConfigError::UnknownNetwork(name.to_owned()) };
    Network::named(name).ok_or_else(unknown)
}

/// Parses settings for single networks, each as `NETWORK=VALUE`.
fn pairs<'a>(
    setting: &'static str,
    each: impl Iterator<Item = &'a str>,
    networks: &[&'static Network],
) -> Result<Vec<Pair<'a>>, SettingsError> {
    let each = each.map(str::trim).filter(|text| !text.is_empty());
    each.map(|text| {
        let (name, value) = text.split_once('=').ok_or(SettingsError::NoPair { setting })?;
        let network = named(setting, name.trim())?;
        if !networks.contains(&network) {
            return Err(SettingsError::NotANetworkOfOurs { setting, network: network.caip2 });
        }
        Ok((network, value.trim()))
    })
    .collect()
}

/// Deserializes a list, or a single entry as a list of one.
fn one_or_more<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match serde::Deserialize::deserialize(deserializer)? {
        OneOrMore::One(one) => one.split(',').map(str::to_owned).collect(),
        OneOrMore::More(more) => more,
    })
}

#[cfg(test)]
mod tests;
