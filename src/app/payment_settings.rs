//! Settings of payments that all hosts of a store must share: networks, recipients, facilitators, and the account for gas.
//!
//! A payment can be verified by one host and settled by another one. So a host does not start while a live host of its
//! store has other settings.

use std::{collections::BTreeMap, time::Duration};

use tollhouse_base::boxed;
use tollhouse_config::MoneySettings;
use tollhouse_money::{ConfigError, gas_address};
use tollhouse_replica::{PAYMENT_SETTINGS, Replica};
use tollhouse_store::StoreError;

/// Number of times, and the interval, at which a host looks again before it refuses. Together they are longer than a lease: a
/// host that was killed is then gone.
const ATTEMPTS: u32 = 40;
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Why the hosts of a store cannot serve it together.
#[derive(Debug, thiserror::Error)]
pub enum PaymentSettingsError {
    #[error(
        "the {name} is `{ours}` here, and `{theirs}` at another host of the store: set the same on all hosts, or stop all of them before you \
         change it"
    )]
    Other { name: String, ours: String, theirs: String },
    #[error("the account for gas cannot be determined")]
    GasKey(#[source] ConfigError),
    #[error("the payment settings of the other hosts could not be read")]
    Store(#[from] StoreError),
}

/// The settings by name. Later versions can have more of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedSettings(BTreeMap<String, String>);

impl SharedSettings {
    /// Returns those of a host with these settings.
    pub(super) fn of(money: &MoneySettings) -> Result<Self, PaymentSettingsError> {
        let networks: Vec<_> = money.networks.iter().map(|on| on.network.caip2).collect();
        let mut settings = BTreeMap::from([("list of networks".to_owned(), networks.join(", "))]);
        for on in &money.networks {
            let accepted = on.accepted.iter().map(|accepted| format!("{} to {}", accepted.asset.symbol, accepted.pay_to));
            settings.insert(format!("`payTo` of {}", on.network.caip2), accepted.collect::<Vec<_>>().join(", "));
            settings.insert(format!("facilitator of {}", on.network.caip2), on.facilitator.identity(on.url.as_deref()));
        }
        if money.networks.iter().any(|on| on.facilitator.sends_transactions())
            && let Some(key) = &money.gas_key
        {
            settings.insert("account for gas".to_owned(), gas_address(key.expose()).map_err(PaymentSettingsError::GasKey)?);
        }
        Ok(Self(settings))
    }

    fn text(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// Returns the first difference from the stored settings of another host, or `None` if this version finds none.
    fn difference(&self, theirs: &str) -> Option<PaymentSettingsError> {
        let theirs: BTreeMap<String, String> = serde_json::from_str(theirs).ok()?;
        self.0.iter().find_map(|(name, ours)| {
            let theirs = theirs.get(name).filter(|theirs| *theirs != ours)?;
            Some(PaymentSettingsError::Other { name: name.clone(), ours: ours.clone(), theirs: theirs.clone() })
        })
    }

    /// Refuses settings that differ from those of live hosts. The host need not have its lease yet.
    pub(super) async fn agree(&self, replica: &Replica) -> Result<(), PaymentSettingsError> {
        let mut attempt = 0;
        loop {
            let theirs = replica.agreed(PAYMENT_SETTINGS, &self.text()).await?;
            let Some(difference) = self.difference(&theirs) else { return Ok(()) };
            if !replica.has_others().await? {
                return Ok(());
            }
            if attempt == ATTEMPTS {
                return Err(difference);
            }
            attempt += 1;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Makes these settings those of the store. The host must hold its lease.
    ///
    /// # Errors
    ///
    /// Another host has set other ones, possibly at the same moment.
    pub(super) async fn announce(&self, replica: &Replica) -> Result<(), PaymentSettingsError> {
        let theirs = replica.announce(PAYMENT_SETTINGS, &self.text()).await?;
        theirs.and_then(|theirs| self.difference(&theirs)).map_or(Ok(()), Err)
    }
}

/// Compares the settings of a host with those of the live hosts of a shared store. Returns whether there are any.
#[boxed]
pub(super) async fn compare(replica: &Replica, money: &MoneySettings) -> Result<bool, PaymentSettingsError> {
    let ours = SharedSettings::of(money)?;
    if !replica.has_others().await? {
        return Ok(false);
    }
    let theirs = replica.shared_value(PAYMENT_SETTINGS).await?;
    theirs.and_then(|theirs| ours.difference(&theirs)).map_or(Ok(true), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(named: &[(&str, &str)]) -> SharedSettings {
        SharedSettings(named.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn differences_are_found_in_settings_that_both_versions_know() {
        let ours = settings(&[("account for gas", "0x1"), ("list of networks", "eip155:8453")]);
        assert!(ours.difference(&ours.text()).is_none());
        let later = settings(&[("list of networks", "eip155:8453"), ("setting of a later version", "1")]);
        assert!(ours.difference(&later.text()).is_none() && ours.difference("[]").is_none());
        let other = settings(&[("account for gas", "0x2"), ("list of networks", "eip155:8453")]);
        let expected = "the account for gas is `0x1` here, and `0x2` at another host of the store: set the same on all hosts, or stop all of \
                        them before you change it";
        assert_eq!(ours.difference(&other.text()).unwrap().to_string(), expected);
    }
}
