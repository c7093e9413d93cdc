//! Where a builder's payouts go, and from what amount on.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::MicroUsd;

tollhouse_store::json_values!(PayoutSettings);

/// Where payouts go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettings {
    /// With its EIP-55 checksum.
    pub address: String,
    /// CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// Less is not paid out.
    pub minimum_usd: MicroUsd,
    /// When they were set.
    pub updated_at: Timestamp,
    /// How often they were set: 0 of those that an older version set last.
    #[serde(default)]
    pub revision: u64,
}
