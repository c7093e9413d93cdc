//! Play money of the simulated ledger.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_tool::MicroUsd;

use crate::True;

/// The request for play money on the simulated ledger.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaucetRequest {
    /// The address to fund.
    pub address: String,
    /// The amount, in US dollars.
    pub amount_usd: MicroUsd,
    /// The network, by name or as CAIP-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The token, by symbol or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
}

/// The balance of an address on the simulated ledger.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedBalance {
    pub ok: True,
    /// Always true: this is play money.
    pub simulated: True,
    /// The network.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// The address.
    pub address: String,
    /// Its balance, in US dollars.
    #[serde(deserialize_with = "crate::sum")]
    pub balance_usd: MicroUsd,
}
