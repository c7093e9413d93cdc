//! Who verifies and settles payments, where they go, and what the host keeps.

use std::{fs, net::SocketAddr, path::PathBuf};

use super::{error::SettingsError, layered::flags, secret::Hidden};
use crate::money::{
    FacilitatorAccess, FacilitatorKind,
    sale::{FeeBps, WHOLE_BPS},
};

/// Address that simulated payments go to when none is set: nobody's.
const SIMULATED_PAY_TO: &str = "0x70110e5e70110e5e70110e5e70110e5e70110e5e";

/// What the host keeps of each sale when nothing else is set, in basis points.
const DEFAULT_FEE_BPS: u16 = 500;

flags! {
/// Of money.
pub struct MoneyFlags {
    /// Who verifies and settles payments [default: simulated]
    #[arg(long, env = "TOLLHOUSE_FACILITATOR")]
    pub facilitator: Option<FacilitatorKind>,
    /// Base URL of the x402 facilitator, for `http`
    #[arg(long, env = "X402_FACILITATOR_URL")]
    pub facilitator_url: Option<String>,
    /// Headers that are sent to the facilitator with every question, each as `Name: value`, one a line
    #[arg(long, env = "TOLLHOUSE_FACILITATOR_HEADERS", hide_env_values = true, value_delimiter = '\n')]
    pub facilitator_headers: Vec<Hidden>,
    /// Id of the key by which Coinbase's facilitator knows this host
    #[arg(long, env = "CDP_API_KEY_ID")]
    pub cdp_api_key_id: Option<String>,
    /// Secret of that key, Ed25519, in base64
    #[arg(long, env = "CDP_API_KEY_SECRET", hide_env_values = true)]
    pub cdp_api_key_secret: Option<Hidden>,
    /// Address that payments go to; required with a real facilitator
    #[arg(long, env = "TOLLHOUSE_PAY_TO")]
    pub pay_to: Option<String>,
    /// Network that payments are made on, CAIP-2 [default: eip155:84532, Base Sepolia]
    #[arg(long, env = "TOLLHOUSE_NETWORK")]
    pub network: Option<String>,
    /// JSON-RPC URL of a node of the network: for `evm`, and to look settlements up when another facilitator did not say
    #[arg(long, env = "TOLLHOUSE_RPC_URL", hide_env_values = true)]
    pub rpc_url: Option<String>,
    /// Key of the account that pays the gas, for `evm`: 32 bytes in hex
    #[arg(long, env = "TOLLHOUSE_GAS_KEY", hide_env_values = true)]
    pub gas_key: Option<Hidden>,
    /// File that has the key of the account that pays the gas
    #[arg(long, env = "TOLLHOUSE_GAS_KEY_FILE")]
    pub gas_key_file: Option<PathBuf>,
    /// Let the simulated facilitator serve an address other than loopback
    #[arg(long, env = "TOLLHOUSE_ALLOW_SIMULATED_PUBLIC", num_args = 0..=1, default_missing_value = "true")]
    pub allow_simulated_public: Option<bool>,
    /// What the host keeps of each sale, in basis points of the price [default: 500]
    #[arg(long, env = "TOLLHOUSE_FEE_BPS", value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub fee_bps: Option<u16>,
}
}

/// Who verifies and settles, and where payments go.
#[derive(Debug, Clone)]
pub struct MoneySettings {
    /// Which of them.
    pub facilitator: FacilitatorKind,
    /// Its address, for `http`.
    pub facilitator_url: Option<String>,
    /// By what it knows us, for `http`.
    pub access: FacilitatorAccess,
    /// Address that payments go to.
    pub pay_to: String,
    /// CAIP-2 name of the network that payments are made on.
    pub network: String,
    /// A node of that network, to look settlements up at.
    pub rpc_url: Option<String>,
    /// What pays the gas, for `evm`.
    pub gas_key: Option<Hidden>,
    /// What the host keeps of each sale.
    pub fee: FeeBps,
}

impl MoneyFlags {
    pub(super) fn resolve(self, listen: SocketAddr) -> Result<MoneySettings, SettingsError> {
        let facilitator = self.facilitator.unwrap_or_default();
        let pay_to = match self.pay_to {
            Some(pay_to) => pay_to,
            None if facilitator.plays() => SIMULATED_PAY_TO.to_owned(),
            None => return Err(SettingsError::NoPayTo(facilitator)),
        };
        if facilitator.elsewhere() && self.facilitator_url.is_none() {
            return Err(SettingsError::NoFacilitatorUrl(facilitator));
        }
        if facilitator.sends() && self.rpc_url.is_none() {
            return Err(SettingsError::NoNode(facilitator));
        }
        let gas_key = match (self.gas_key, self.gas_key_file) {
            (Some(key), _) => Some(key),
            (None, Some(path)) => {
                let text = fs::read_to_string(&path).map_err(|source| SettingsError::Read { path, source })?;
                Some(Hidden::from(text))
            }
            (None, None) if facilitator.sends() => return Err(SettingsError::NoGasKey(facilitator)),
            (None, None) => None,
        };
        let in_public = !listen.ip().is_loopback() && !self.allow_simulated_public.unwrap_or(false);
        if facilitator.plays() && in_public {
            return Err(SettingsError::SimulatedInPublic(listen));
        }
        let text = |hidden: &Hidden| hidden.expose().to_owned();
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
        Ok(MoneySettings {
            facilitator,
            facilitator_url: self.facilitator_url,
            access,
            pay_to,
            network: self.network.unwrap_or_else(|| "eip155:84532".to_owned()),
            rpc_url: self.rpc_url,
            gas_key,
            fee: FeeBps(fee),
        })
    }
}
