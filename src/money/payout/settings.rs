//! A builder's payout settings.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::MicroUsd;

tollhouse_store::json_values!(PayoutSettings);

/// The recipient, token and minimum of payouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettings {
    /// The recipient's address in canonical form.
    pub address: String,
    /// The network's CAIP-2 id.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// Minimum amount of a payout.
    pub minimum_usd: MicroUsd,
    /// When they were last changed.
    pub updated_at: Timestamp,
    /// Number of changes. 0 if an older version made the last one.
    #[serde(default)]
    pub revision: u64,
}
