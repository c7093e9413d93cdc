//! Who the admin is, and what it costs to become a builder.

use super::layered::flags;
use crate::tool::MicroUsd;

/// What it costs to become a builder when nothing else is set.
const REGISTRATION_PRICE: MicroUsd = MicroUsd(1_000_000);

flags! {
/// Of accounts.
pub struct AccountFlags {
    /// Admin token [default: made on first start, in the file `admin-token` of the data folder]
    #[arg(long, env = "TOLLHOUSE_ADMIN_TOKEN", hide_env_values = true)]
    pub admin_token: Option<String>,
    /// What it costs to become a builder, in USD; 0 is nothing [default: 1]
    #[arg(long, env = "TOLLHOUSE_REGISTRATION_PRICE_USD", value_parser = usd)]
    pub registration_price_usd: Option<MicroUsd>,
}
}

/// Who comes, and at what price.
#[derive(Debug, Clone)]
pub struct AccountSettings {
    /// Default: made on first start, and kept in the data folder.
    pub admin_token: Option<String>,
    /// What it costs to become a builder.
    pub registration_price: MicroUsd,
}

impl AccountFlags {
    pub(super) fn resolve(self) -> AccountSettings {
        AccountSettings { admin_token: self.admin_token, registration_price: self.registration_price_usd.unwrap_or(REGISTRATION_PRICE) }
    }
}

/// An amount of USD, as a flag.
fn usd(text: &str) -> Result<MicroUsd, String> {
    let usd = text.parse().map_err(|_| "a number of US dollars".to_owned())?;
    MicroUsd::from_usd(usd).map_err(|error| error.to_string())
}
