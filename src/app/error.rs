//! Errors of starting a host.

use tollhouse_account::admin_token::TokenError;
use tollhouse_backup::BackupError;
use tollhouse_base::clock::Timestamp;
use tollhouse_capability::secret::SecretError;
use tollhouse_objects::BucketError;
use tollhouse_replica::JoinError;
use tollhouse_store::postgres;

use super::{keys::KeysError, payment_settings::PaymentSettingsError};

/// Why a host does not start. Each message is one sentence, with the cause as its source.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the data folder `{0}` cannot be created or read")]
    Data(String, #[source] std::io::Error),
    #[error("the data folder `{0}` does not contain a store")]
    NoStore(String),
    #[error(
        "the data folder `{0}` does not contain a store, and `TOLLHOUSE_STORE` selects a database. `tollhouse store check` checks a \
         database with its ledger. `tollhouse secrets rotate --url URL` rotates the master key of a running host"
    )]
    InDatabase(String),
    #[error("the admin token is invalid")]
    AdminToken(#[source] TokenError),
    #[error("the token for metrics is the same as the admin token: set `TOLLHOUSE_METRICS_TOKEN` to a different value")]
    MetricsToken,
    #[error("the store cannot be opened")]
    Store(#[source] tollhouse_store::sled::OpenError),
    #[error("the database of the store cannot be opened")]
    Database(#[source] postgres::OpenError),
    #[error("the bucket of the objects cannot be used")]
    Objects(#[source] BucketError),
    #[error("the sandbox cannot be started")]
    Sandbox(#[source] tollhouse_pool::PoolError),
    #[error("the outgoing client cannot be set up")]
    Guard(#[source] tollhouse_capability::guard::GuardError),
    #[error("telemetry cannot be sent: {0}")]
    Telemetry(String),
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error("the secrets could not be read")]
    Secrets(#[source] tollhouse_store::StoreError),
    #[error("the master key was not rotated")]
    Rotation(#[source] SecretError),
    #[error("payments cannot be set up")]
    Payment(#[source] tollhouse_money::ConfigError),
    #[error(transparent)]
    Money(#[from] tollhouse_money::MoneyKindError),
    #[error(transparent)]
    PaymentSettings(#[from] PaymentSettingsError),
    #[error("the catalog cannot be opened")]
    Catalog(#[source] tollhouse_catalog::PublishError),
    #[error("the receipts could not be read")]
    Receipts(#[source] tollhouse_store::StoreError),
    #[error("the store was written by a version without a ledger; start a host on it once to create the ledger")]
    NoLedger,
    #[error("the ledger could not be read")]
    Ledger(#[source] tollhouse_store::StoreError),
    #[error("open settlements could not be read")]
    Recovery(#[source] tollhouse_store::StoreError),
    #[error("the host cannot serve the store")]
    Replica(#[source] JoinError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(
        "the store in `{data}` was moved to {to} at {at}: set `TOLLHOUSE_STORE` to that address, or use `--store` beside `--data`. To go back \
         to the store as it was before the move, run `tollhouse store stay --data {data}`"
    )]
    Departed { data: String, to: String, at: Timestamp },
    #[error("another host began to move its store to this database: restart that host with its data folder, then start this host again")]
    Taken,
    #[error("a restore to this store began at {0} and is not complete: restore the same dump again")]
    Unrestored(Timestamp),
}
