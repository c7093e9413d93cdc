//! Asking for a builder's payout settings, and setting them.

use serde::Deserialize;

use super::{Payouts, error::PayoutError, settings::PayoutSettings};
use crate::{
    base::id::BuilderId,
    money::network::checked_address,
    store::{Durability, StoreError, Table, schema},
    tool::MicroUsd,
};

const PAYOUT_SETTINGS: Table<BuilderId, PayoutSettings> = schema::PAYOUT_SETTINGS.holding();

/// The smallest payout when the builder sets none: 1 USD.
const DEFAULT_MINIMUM: MicroUsd = MicroUsd(1_000_000);

/// The body that sets them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettingsDraft {
    /// `0x` and 40 hex digits, in one case or with the EIP-55 checksum.
    pub address: String,
    /// The host's, which is the default too.
    pub network: Option<String>,
    /// The host's, by its address or as `USDC`, which is the default too.
    pub asset: Option<String>,
    /// Default: 1 USD.
    pub minimum_usd: Option<MicroUsd>,
}

impl Payouts {
    /// Where the payouts of `builder` go.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn settings(&self, builder: &BuilderId) -> Result<Option<PayoutSettings>, StoreError> {
        PAYOUT_SETTINGS.get(&*self.store, builder).await
    }

    /// Sets where they go. A packet that exists keeps the address it was made for.
    ///
    /// # Errors
    ///
    /// [`PayoutError::Field`], the store's.
    pub async fn set(&self, builder: &BuilderId, draft: &SettingsDraft) -> Result<PayoutSettings, PayoutError> {
        let settings = self.checked(draft)?;
        PAYOUT_SETTINGS.put(builder, &settings).commit(&*self.store, Durability::Durable).await?;
        Ok(settings)
    }

    fn checked(&self, draft: &SettingsDraft) -> Result<PayoutSettings, PayoutError> {
        let field = |pointer, message: String| PayoutError::Field { pointer, message };
        let network = self.network;
        let address = checked_address(&draft.address).ok_or_else(|| {
            let message = "an address is `0x` and 40 hex digits, in one case or with the EIP-55 checksum";
            field("/address", message.to_owned())
        })?;
        if address.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|digit| digit == b'0')) {
            return Err(field("/address", "what is sent to the zero address is lost".to_owned()));
        }
        if draft.network.as_ref().is_some_and(|named| named != network.caip2) {
            return Err(field("/network", format!("this host pays out on `{}`", network.caip2)));
        }
        if draft.asset.as_ref().is_some_and(|named| !network.names_asset(named)) {
            return Err(field("/asset", format!("this host pays out in `USDC`, `{}`", network.asset)));
        }
        Ok(PayoutSettings {
            address,
            network: network.caip2.to_owned(),
            asset: network.asset.to_owned(),
            minimum_usd: draft.minimum_usd.unwrap_or(DEFAULT_MINIMUM),
            updated_at: self.clock.now(),
        })
    }
}
