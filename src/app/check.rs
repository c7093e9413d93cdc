//! Consistency checks of a store and its objects, and compaction of a store's folder.

use std::{path::Path, sync::Arc};

use tollhouse_base::{boxed, check_report::CheckReport};
use tollhouse_capability as capability;
use tollhouse_catalog::check_catalogue;
use tollhouse_config::Home;
use tollhouse_money::{
    check_payments,
    ledger::{self, Check, LedgerReport},
    payout::check_packets,
    sale::check_sellers,
};
use tollhouse_objects::ObjectLayout;
use tollhouse_operate::disk::taken;
use tollhouse_replica as replica;
use tollhouse_store::{
    Store,
    sled::{MoneyRows, SledConfig, SledStore},
};

use super::{
    error::StartError,
    stores::{is_here, is_whole, open_database, store_of},
};

/// The result of a check.
#[derive(Debug)]
pub struct StoreCheck {
    /// Inconsistencies between rows, and between rows and objects.
    pub flaws: CheckReport,
    /// The result for the ledger, if there is one.
    pub ledger: Option<LedgerReport>,
}

/// Checks the rows of a host: objects against their hashes, indexes against their tables, sums
/// against their entries. Memory holds one page of rows or one object at a time, and one sum for
/// each account. The host must not run, except on a shared database. There, inconsistencies are
/// checked a second time, because hosts may write meanwhile.
///
/// # Errors
///
/// The store does not open, for example because a host that runs has it, or an error of the store.
#[boxed]
pub async fn check_rows(home: &Home) -> Result<StoreCheck, StartError> {
    let Some(database) = &home.database else {
        let folder = store_of(&home.data)?;
        let store = SledStore::open(&folder, home.store.clone()).map_err(StartError::Store)?;
        is_here(&store, &home.data).await?;
        let flaws = flaws_of(&store, home).await?;
        return Ok(StoreCheck { flaws, ledger: ledger_in(&store, &folder).await? });
    };
    let store: Arc<dyn Store> = open_database(database).await?;
    is_whole(&*store, home).await?;
    let mut flaws = flaws_of(&*store, home).await?;
    if flaws.count > 0 {
        // Data written between two checks is consistent in the second. A real inconsistency
        // remains.
        let again = flaws_of(&*store, home).await?;
        flaws.listed.retain(|flaw| again.listed.contains(flaw));
        flaws.count = flaws.listed.len() as u64;
    }
    if ledger::opened(&*store).await.map_err(StartError::Ledger)?.is_none() {
        return Ok(StoreCheck { flaws, ledger: None });
    }
    let mut found = ledger::check(&*store).await.map_err(StartError::Ledger)?;
    if found.disagreements > 0 {
        let before = found;
        found = ledger::check(&*store).await.map_err(StartError::Ledger)?;
        found.wrong.retain(|wrong| before.wrong.contains(wrong));
        found.disagreements = found.wrong.len() as u64;
    }
    Ok(StoreCheck { flaws, ledger: Some(found) })
}

/// Verifies the ledger of a host that does not run, with its data in `data`.
///
/// # Errors
///
/// The store does not open, for example because a host that runs has it, or it is damaged; an error of the store.
#[boxed]
pub async fn check_ledger(data: &Path) -> Result<LedgerReport, StartError> {
    let folder = store_of(data)?;
    let store = SledStore::open(&folder, SledConfig::default()).map_err(StartError::Store)?;
    is_here(&store, data).await?;
    replica::readable(&store).await.map_err(StartError::Replica)?;
    ledger_in(&store, &folder).await?.ok_or(StartError::NoLedger)
}

/// Verifies the ledger of a store in a folder, if there is one: for itself, and against the journal's archive.
async fn ledger_in(store: &SledStore, folder: &Path) -> Result<Option<LedgerReport>, StartError> {
    if ledger::opened(store).await.map_err(StartError::Ledger)?.is_none() {
        return Ok(None);
    }
    let mut check = Check::new(store);
    check.all().await.map_err(StartError::Ledger)?;
    let mut archived = MoneyRows::of(folder).map_err(StartError::Store)?;
    while let Some(rows) = archived.next_frame().map_err(StartError::Store)? {
        check.archived(&rows).await.map_err(StartError::Ledger)?;
    }
    archived.gaps().iter().for_each(|gap| check.archive_lacks(gap.first, gap.last));
    Ok(Some(check.report()))
}

async fn flaws_of(store: &dyn Store, home: &Home) -> Result<CheckReport, StartError> {
    replica::readable(store).await.map_err(StartError::Replica)?;
    let mut flaws = CheckReport::default();
    let objects = ObjectLayout::at_if_there(&home.objects).map_err(StartError::Objects)?;
    check_catalogue(store, &objects, &mut flaws).await.map_err(StartError::Ledger)?;
    check_payments(store, &mut flaws).await.map_err(StartError::Ledger)?;
    check_packets(store, &mut flaws).await.map_err(StartError::Ledger)?;
    check_sellers(store, &mut flaws).await.map_err(StartError::Ledger)?;
    capability::check_objects(store, &objects, &mut flaws).await.map_err(StartError::Ledger)?;
    Ok(flaws)
}

/// Compacts the store of a host that does not run to the size of its rows: a new checkpoint
/// replaces the journal, and a new tree replaces the old one. If it is killed at any moment, either
/// the old or the new state is intact. Returns the bytes on disk before and after.
///
/// # Errors
///
/// The store does not open, for example because a host that runs has it, or it is damaged; there is
/// no disk space for a second copy of the rows.
#[boxed]
pub async fn compact(home: &Home) -> Result<(u64, u64), StartError> {
    let folder = store_of(&home.data)?;
    let before = taken(&folder);
    let store = SledStore::open(&folder, home.store.clone()).map_err(StartError::Store)?;
    store.compact().await.map_err(StartError::Ledger)?;
    drop(store);
    Ok((before, taken(&folder)))
}
