//! Errors of starting a host.

use tollhouse_account::admin_token::TokenError;
use tollhouse_backup::BackupError;
use tollhouse_base::clock::Timestamp;
use tollhouse_capability::secret::SecretError;
use tollhouse_objects::BucketError;
use tollhouse_replica::JoinError;
use tollhouse_store::postgres;

use super::keys::KeysError;

/// Why a host does not start. Each message is one sentence, with the cause as its source.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the data folder `{0}` cannot be created or read")]
    Data(String, #[source] std::io::Error),
    #[error("the admin token cannot be used")]
    AdminToken(#[source] TokenError),
    #[error("the token for metrics is the admin token, which opens everything: set `TOLLHOUSE_METRICS_TOKEN` to another")]
    MetricsToken,
    #[error("the store does not open")]
    Store(#[source] tollhouse_store::sled::OpenError),
    #[error("the database of the store does not open")]
    Database(#[source] postgres::OpenError),
    #[error("the bucket of the objects cannot be used")]
    Objects(#[source] BucketError),
    #[error("the sandbox does not start")]
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
    #[error("the catalogue does not open")]
    Catalog(#[source] tollhouse_catalog::PublishError),
    #[error("the receipts could not be read")]
    Receipts(#[source] tollhouse_store::StoreError),
    #[error("the store is of a version without a ledger; a host that starts on it opens one")]
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
        "the rows of the store in `{data}` went to {to} at {at}: name that in `TOLLHOUSE_STORE`; `tollhouse store stay --data {data}` has a host serve them from here again, \
         as they were then"
    )]
    Departed { data: String, to: String, at: Timestamp },
    #[error(
        "the rows of another store were moved to this database, and the host that did that serves it alone until it has started again: start it with its data folder first"
    )]
    Taken,
    #[error("a restore to this store was begun at {0} and has not ended: restore the same dump again")]
    Unrestored(Timestamp),
}
