//! Settings of the admin, of sessions, and of the price of registration.

use std::{
    num::{NonZeroU8, NonZeroU32},
    path::PathBuf,
};

use tollhouse_account::{session::SessionSettings, token::Token};
use tollhouse_tool::MicroUsd;

use super::{error::SettingsError, layered::flags, secret::HiddenValue};

/// Milliseconds in an hour.
const HOUR: u64 = 3_600 * 1_000;

/// Default price of registration as a builder.
const REGISTRATION_PRICE: MicroUsd = MicroUsd(1_000_000);

flags! {
/// Flags for accounts.
pub struct AccountFlags {
    /// Admin token [default: created on first start, in the file `admin-token` of the data folder]
    pub admin_token: Option<HiddenValue> = "TOLLHOUSE_ADMIN_TOKEN" (hide_env_values = true),
    /// File with the admin token
    pub admin_token_file: Option<PathBuf> = "TOLLHOUSE_ADMIN_TOKEN_FILE",
    /// Price of registration as a builder, in USD; 0 is free [default: 1]
    pub registration_price_usd: Option<MicroUsd> = "TOLLHOUSE_REGISTRATION_PRICE_USD" (value_parser = usd),
    /// Hours without use after which a dashboard session ends [default: 12]
    pub session_idle_hours: Option<NonZeroU32> = "TOLLHOUSE_SESSION_IDLE_HOURS",
    /// Days after which a dashboard session ends, used or not [default: 7]
    pub session_days: Option<NonZeroU32> = "TOLLHOUSE_SESSION_DAYS",
    /// Concurrent sessions of one account; a further one ends the least recently used [default: 20]
    pub sessions: Option<NonZeroU8> = "TOLLHOUSE_SESSIONS",
}
}

/// Settings of accounts and registration.
#[derive(Debug, Clone)]
pub struct AccountSettings {
    /// The admin token. Default: created on first start and kept in the data folder.
    pub admin_token: Option<HiddenValue>,
    /// Price of registration as a builder.
    pub registration_price: MicroUsd,
    /// How long people stay signed in.
    pub sessions: SessionSettings,
}

impl AccountFlags {
    pub(super) fn resolve(self) -> Result<AccountSettings, SettingsError> {
        let sessions = SessionSettings::default();
        let admin_token = HiddenValue::given_or_in(self.admin_token, self.admin_token_file.as_deref())?;
        if let Some(token) = &admin_token {
            Token::of(token.expose()).map_err(SettingsError::AdminToken)?;
        }
        Ok(AccountSettings {
            admin_token,
            registration_price: self.registration_price_usd.unwrap_or(REGISTRATION_PRICE),
            sessions: SessionSettings {
                idle_ms: self.session_idle_hours.map_or(sessions.idle_ms, |hours| u64::from(hours.get()) * HOUR),
                age_ms: self.session_days.map_or(sessions.age_ms, |days| u64::from(days.get()) * 24 * HOUR),
                max: self.sessions.map_or(sessions.max, |max| max.get().into()),
            },
        })
    }
}

/// Parses an amount in USD.
pub(super) fn usd(text: &str) -> Result<MicroUsd, String> {
    let usd = text.parse().map_err(|_| "a number of US dollars".to_owned())?;
    MicroUsd::from_usd(usd).map_err(|error| error.to_string())
}
