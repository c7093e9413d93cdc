//! Reads and changes a builder's payout settings.

use tollhouse_api::PayoutSettingsDraft;
use tollhouse_base::{boxed, id::BuilderId};
use tollhouse_store::{Durability, StoreError, Table, schema, update};
use tollhouse_tool::MicroUsd;

use super::{Payouts, error::PayoutError, packet::PayoutSettings};
use crate::{Asset, Network};

pub(super) const PAYOUT_SETTINGS: Table<BuilderId, PayoutSettings> = schema::PAYOUT_SETTINGS.holding();

/// Default minimum of a payout: 1 USD.
const DEFAULT_MINIMUM: MicroUsd = MicroUsd(1_000_000);

impl Payouts {
    /// Returns the payout settings of `builder`.
    #[boxed]
    pub async fn settings(&self, builder: &BuilderId) -> Result<Option<PayoutSettings>, StoreError> {
        PAYOUT_SETTINGS.get(&*self.store, builder).await
    }

    /// Changes the settings. With `onto`, fails unless they are at that revision, where 0 means that none are set.
    /// Existing payouts keep their address.
    #[boxed]
    pub async fn set(&self, builder: &BuilderId, draft: &PayoutSettingsDraft, onto: Option<u64>) -> Result<PayoutSettings, PayoutError> {
        let checked = &self.checked(draft)?;
        let setting = update(&*self.store, Durability::Durable, |mut tx| async move {
            let before = tx.row(&PAYOUT_SETTINGS, builder).await?;
            let revision = before.as_ref().map_or(0, |row| row.value.revision);
            if onto.is_some_and(|onto| onto != revision) {
                return Err(PayoutError::Changed(revision));
            }
            let settings = PayoutSettings { revision: revision + 1, ..checked.clone() };
            tx.replace_or_insert(&PAYOUT_SETTINGS, before.as_ref(), builder, &settings);
            tx.answer(settings)
        });
        setting.await
    }

    fn checked(&self, draft: &PayoutSettingsDraft) -> Result<PayoutSettings, PayoutError> {
        let field = |pointer, message: String| PayoutError::Field { pointer, message };
        let on = |asset: &&&Asset| draft.network.as_deref().is_none_or(|named| Network::named(named) == Some(asset.network));
        let listed = |names: Vec<String>| names.join(", ");
        let all: Vec<_> = self.assets.iter().filter(on).copied().collect();
        let Some(network) = all.first().map(|asset| asset.network) else {
            let networks = self.assets.iter().map(|asset| format!("`{}`", asset.network.caip2)).collect();
            return Err(field("/network", format!("this host does not pay out on this network; use one of {}", listed(networks))));
        };
        let mut there = all.iter().filter(|asset| asset.network == network);
        let Some(asset) = there.clone().find(|asset| draft.asset.as_deref().is_none_or(|named| asset.is_called(named))) else {
            let assets = there.by_ref().map(|asset| format!("`{}`, `{}`", asset.symbol, asset.address)).collect();
            return Err(field("/asset", format!("this host does not pay out in this token; use one of {}", listed(assets))));
        };
        let address = network
            .checked_address(&draft.address)
            .ok_or_else(|| field("/address", format!("an address has {}", network.address_form())))?;
        if address.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|digit| digit == b'0')) {
            return Err(field("/address", "the zero address would lose the money".to_owned()));
        }
        Ok(PayoutSettings {
            address,
            network: network.caip2.to_owned(),
            asset: asset.address.to_owned(),
            minimum_usd: draft.minimum_usd.unwrap_or(DEFAULT_MINIMUM),
            updated_at: self.clock.now(),
            revision: 0,
        })
    }
}
