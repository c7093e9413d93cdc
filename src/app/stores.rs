//! Stores, opened where a host may have them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tollhouse_backup as backup;
use tollhouse_backup::{BackupError, Departed, How};
use tollhouse_base::folder;
use tollhouse_config::Settings;
use tollhouse_money::receipt;
use tollhouse_replica::Replica;
use tollhouse_store::{
    Store,
    movable::MovableStore,
    postgres::{PostgresConfig, PostgresStore},
    sled::{SledConfig, SledStore},
};

use super::error::StartError;

/// Makes the data folder, where it is not there, for its owner alone.
pub(super) fn make_folder(data: &Path) -> Result<(), StartError> {
    folder::make_private(data).map_err(|error| StartError::Data(data.display().to_string(), error))
}

/// Refuses a database that is not all there yet, or that another host has to itself. That host itself opens it to all.
pub(super) async fn is_free(store: &dyn Store, settings: &Settings) -> Result<(), StartError> {
    if is_whole(store, &settings.data, &settings.store).await? {
        return Ok(());
    }
    Ok(backup::is_open_to_all(store).await.map_err(BackupError::from)?)
}

/// Refuses a database that is not all there yet; whether it is open to all, and not only to the host whose rows were moved to it from `data`.
pub(super) async fn is_whole(store: &dyn Store, data: &Path, config: &SledConfig) -> Result<bool, StartError> {
    let Some(by) = backup::filled_by(store).await.map_err(BackupError::from)? else { return Ok(true) };
    if by.how == How::Restore {
        return Err(StartError::Unrestored(by.at));
    }
    // Whoever has the folder locked that the rows came from serves them still.
    let Ok(folder) = store_of(data) else { return Err(StartError::Taken) };
    let left = SledStore::open(folder, config.clone()).map_err(StartError::Store)?;
    let departed = backup::departed(&left).await.map_err(BackupError::from)?;
    if departed.is_none_or(|departed| departed.id != by.id || departed.at.is_none()) {
        return Err(StartError::Taken);
    }
    Ok(false)
}

/// Refuses a store whose rows are elsewhere, or not all there yet.
pub(super) async fn is_here(store: &dyn Store, data: &Path) -> Result<(), StartError> {
    if let Some(Departed { to, at: Some(at), .. }) = backup::departed(store).await.map_err(BackupError::from)? {
        return Err(StartError::Departed { data: data.display().to_string(), to, at });
    }
    match backup::filled_by(store).await.map_err(BackupError::from)? {
        Some(by) => Err(StartError::Unrestored(by.at)),
        None => Ok(()),
    }
}

/// Says when something was sold here last: a clock that is far beyond that tells no ages for a while.
pub(super) async fn note_last_sale(store: &dyn Store, replica: &Replica) -> Result<(), StartError> {
    if let Some(last) = receipt::newest_at(store).await.map_err(StartError::Receipts)? {
        replica.was_at(last);
    }
    Ok(())
}

/// Opens the store in a database.
pub(super) async fn open_database(database: &PostgresConfig) -> Result<Arc<dyn Store>, StartError> {
    Ok(Arc::new(PostgresStore::open(database.clone()).await.map_err(StartError::Database)?))
}

/// Opens the store in a data folder.
pub(super) fn open_folder(data: &Path, config: &SledConfig) -> Result<Arc<dyn Store>, StartError> {
    Ok(Arc::new(open_movable(data, config)?))
}

/// The same, as one that may move.
pub(super) fn open_movable(data: &Path, config: &SledConfig) -> Result<MovableStore, StartError> {
    Ok(MovableStore::new(SledStore::open(data.join("store"), config.clone()).map_err(StartError::Store)?))
}

/// Where the store of a host is, that has been there.
pub(super) fn store_of(data: &Path) -> Result<PathBuf, StartError> {
    let folder = data.join("store");
    if folder.is_dir() {
        return Ok(folder);
    }
    let error = std::io::Error::new(std::io::ErrorKind::NotFound, "it holds no store");
    Err(StartError::Data(data.display().to_string(), error))
}
