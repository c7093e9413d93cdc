//! Where and how builders are paid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, money::MicroUsd, time::Timestamp};

/// Where and how a builder is paid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettings {
    /// The recipient's address.
    pub address: String,
    /// The network, as CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// Minimum amount of a payout.
    pub minimum_usd: MicroUsd,
    /// When the settings were changed.
    pub updated_at: Timestamp,
    /// Number of times that they were set.
    pub revision: u64,
}

/// The payout settings of a builder, and what waits to be paid out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettingsResponse {
    /// Always true.
    pub ok: True,
    /// The settings. Null before they are first set.
    pub payout_settings: Option<PayoutSettings>,
    /// What waits to be paid out.
    pub waiting: WaitingPayout,
}

/// What waits to be paid out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WaitingPayout {
    /// Amount of the next payout, whatever the minimum.
    pub amount_usd: MicroUsd,
    /// Number of receipts that are in no payout, up to 10,000.
    pub receipt_count: u64,
}

/// The request to change payout settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PayoutSettingsDraft {
    /// The recipient's address.
    pub address: String,
    /// The network, by name or as CAIP-2. Default: the host's first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The token, by symbol or address. Default: the first of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// Minimum amount of a payout. Default: 1 USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_usd: Option<MicroUsd>,
}
