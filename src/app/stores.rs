//! Opening of stores that this host may use.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tollhouse_backup as backup;
use tollhouse_backup::{
    BackupError, Departure, FillMode,
    control::{MAX_UNRESOLVED, Unresolved},
};
use tollhouse_base::{boxed, fsync_dir};
use tollhouse_config::{Home, MoneySettings, selects_database};
use tollhouse_money::{MoneyKind, kind_in_use, receipt, summarize_unresolved};
use tollhouse_replica::Replica;
use tollhouse_store::{
    Store,
    live_migration::MigratableStore,
    postgres::{self, PostgresConfig, PostgresStore},
    sled::{SledConfig, SledStore},
};

use super::{
    error::StartError,
    payment_settings::{self, PaymentSettingsError},
};

/// Creates the data folder, with access only for its owner.
pub(super) fn make_folder(data: &Path) -> Result<(), StartError> {
    fsync_dir::make_private(data).map_err(|error| StartError::Data(data.display().to_string(), error))
}

/// Refuses a database that is incomplete, or that another host uses exclusively. That host itself
/// makes it available to all.
pub(super) async fn is_free(store: &dyn Store, home: &Home) -> Result<(), StartError> {
    if is_whole(store, home).await? {
        return Ok(());
    }
    Ok(backup::open_to_all(store).await.map_err(BackupError::from)?)
}

/// Refuses an incomplete database. Returns whether it is available to all, and not only to the host
/// whose rows were moved to it from the data folder of `home`.
pub(super) async fn is_whole(store: &dyn Store, home: &Home) -> Result<bool, StartError> {
    let Some(by) = backup::filled_by(store).await.map_err(BackupError::from)? else { return Ok(true) };
    if by.how == FillMode::Restore {
        return Err(StartError::Unrestored(by.at));
    }
    // Another process has the folder locked that the rows come from, and still serves them.
    let Ok(folder) = store_of(&home.data) else { return Err(StartError::Taken) };
    let remaining = SledStore::open(folder, home.store.clone()).map_err(StartError::Store)?;
    let departed = backup::departed(&remaining).await.map_err(BackupError::from)?;
    if departed.is_none_or(|departed| departed.id != by.id || departed.at.is_none()) {
        return Err(StartError::Taken);
    }
    Ok(false)
}

/// Refuses a store whose rows have moved elsewhere, or are incomplete.
pub(super) async fn is_here(store: &dyn Store, data: &Path) -> Result<(), StartError> {
    if let Some(Departure { to, at: Some(at), .. }) = backup::departed(store).await.map_err(BackupError::from)? {
        return Err(StartError::Departed { data: data.display().to_string(), to, at });
    }
    match backup::filled_by(store).await.map_err(BackupError::from)? {
        Some(by) => Err(StartError::Unrestored(by.at)),
        None => Ok(()),
    }
}

/// Reports the time of the last sale. If the clock is far beyond it, ages are not trusted for a
/// while.
pub(super) async fn note_last_sale(store: &dyn Store, replica: &Replica) -> Result<(), StartError> {
    if let Some(last) = receipt::newest_at(store).await.map_err(StartError::Receipts)? {
        replica.was_at(last);
    }
    Ok(())
}

pub(super) async fn open_database(database: &PostgresConfig) -> Result<Arc<dyn Store>, StartError> {
    Ok(Arc::new(PostgresStore::open(database.clone()).await.map_err(StartError::Database)?))
}

/// The money in a database's store, and the settings of its hosts.
#[derive(Debug)]
pub struct DatabaseMoney {
    /// The kind of its money, or `None` if it contains none.
    pub kind: Option<MoneyKind>,
    /// The unresolved settlements.
    pub unresolved: Unresolved,
    /// Whether live hosts have the given settings of payments. False if no host lives.
    pub shared: Result<bool, PaymentSettingsError>,
}

/// Returns the money in a database's store, or `None` if there is no store. Does not create one.
#[boxed]
pub async fn money_in(database: &PostgresConfig, settings: &MoneySettings) -> Result<Option<DatabaseMoney>, StartError> {
    if !postgres::about(database).await.map_err(StartError::Database)?.has_store {
        return Ok(None);
    }
    let store = open_database(database).await?;
    tollhouse_replica::readable(&*store).await.map_err(StartError::Replica)?;
    let kind = kind_in_use(&*store).await.map_err(|error| StartError::Money(error.into()))?;
    let (count, oldest) = summarize_unresolved(&*store, MAX_UNRESOLVED).await.map_err(StartError::Recovery)?;
    let shared = payment_settings::compare(&Replica::new(store), settings).await;
    Ok(Some(DatabaseMoney { kind, unresolved: Unresolved { count, max: MAX_UNRESOLVED, oldest }, shared }))
}

pub(super) fn open_folder(data: &Path, config: &SledConfig) -> Result<Arc<dyn Store>, StartError> {
    Ok(Arc::new(open_movable(data, config)?))
}

/// Opens the store in a data folder so that it can be migrated.
pub(super) fn open_movable(data: &Path, config: &SledConfig) -> Result<MigratableStore, StartError> {
    Ok(MigratableStore::new(SledStore::open(data.join("store"), config.clone()).map_err(StartError::Store)?))
}

/// Returns the folder of an existing store.
pub(super) fn store_of(data: &Path) -> Result<PathBuf, StartError> {
    let folder = data.join("store");
    if folder.is_dir() {
        return Ok(folder);
    }
    let data = data.display().to_string();
    Err(if selects_database() { StartError::InDatabase(data) } else { StartError::NoStore(data) })
}
