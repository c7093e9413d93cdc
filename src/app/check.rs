//! Whether all rows of a store agree with each other, and with the contents that they name; and a store's folder made anew, small.

use std::sync::Arc;

use tollhouse_base::flaws::Flaws;
use tollhouse_capability as capability;
use tollhouse_catalog::check_catalogue;
use tollhouse_config::Home;
use tollhouse_money::{
    check_payments,
    ledger::{self, Check, Found},
    payout::check_packets,
    sale::check_sellers,
};
use tollhouse_objects::Kept;
use tollhouse_operate::disk::taken;
use tollhouse_replica as replica;
use tollhouse_store::{
    Store,
    sled::{MoneyRows, SledStore},
};

use super::{
    error::StartError,
    stores::{is_here, is_whole, open_database, store_of},
};

/// What was found of a store's rows.
#[derive(Debug)]
pub struct Checked {
    /// Rows against rows, and contents against rows.
    pub flaws: Flaws,
    /// Of the ledger, where there is one.
    pub ledger: Option<Found>,
}

/// Goes through the rows of a host: contents against their hashes, indexes against their tables, sums against what they are of. A page of rows,
/// or one content, is in memory at a time, and a sum for each account. The host is not to run; hosts of one database may, and what does not
/// agree while they write is looked at once more.
///
/// # Errors
///
/// A store that does not open, for a host that runs has it; the store's.
pub async fn check_rows(home: &Home) -> Result<Checked, StartError> {
    let Some(database) = &home.database else {
        let folder = store_of(&home.data)?;
        let store = SledStore::open(&folder, home.store.clone()).map_err(StartError::Store)?;
        is_here(&store, &home.data).await?;
        let flaws = flaws_of(&store, home).await?;
        if ledger::opened(&store).await.map_err(StartError::Ledger)?.is_none() {
            return Ok(Checked { flaws, ledger: None });
        }
        let mut check = Check::new(&store).await.map_err(StartError::Ledger)?;
        check.all().await.map_err(StartError::Ledger)?;
        let mut archived = MoneyRows::of(&folder).map_err(StartError::Store)?;
        while let Some(rows) = archived.next_frame().map_err(StartError::Store)? {
            check.archived(&rows).await.map_err(StartError::Ledger)?;
        }
        return Ok(Checked { flaws, ledger: Some(check.found()) });
    };
    let store: Arc<dyn Store> = open_database(database).await?;
    is_whole(&*store, &home.data, &home.store).await?;
    let mut flaws = flaws_of(&*store, home).await?;
    if flaws.count > 0 {
        // What was written between two looks is well at the second: a flaw stays.
        let again = flaws_of(&*store, home).await?;
        flaws.told.retain(|flaw| again.told.contains(flaw));
        flaws.count = flaws.told.len() as u64;
    }
    if ledger::opened(&*store).await.map_err(StartError::Ledger)?.is_none() {
        return Ok(Checked { flaws, ledger: None });
    }
    let mut found = ledger::check(&*store).await.map_err(StartError::Ledger)?;
    if found.disagreements > 0 {
        let before = found;
        found = ledger::check(&*store).await.map_err(StartError::Ledger)?;
        found.wrong.retain(|wrong| before.wrong.contains(wrong));
        found.disagreements = found.wrong.len() as u64;
    }
    Ok(Checked { flaws, ledger: Some(found) })
}

async fn flaws_of(store: &dyn Store, home: &Home) -> Result<Flaws, StartError> {
    replica::readable(store).await.map_err(StartError::Replica)?;
    let mut flaws = Flaws::default();
    let objects = Kept::at_if_there(&home.objects).map_err(StartError::Objects)?;
    check_catalogue(store, &objects, &mut flaws).await.map_err(StartError::Ledger)?;
    check_payments(store, &mut flaws).await.map_err(StartError::Ledger)?;
    check_packets(store, &mut flaws).await.map_err(StartError::Ledger)?;
    check_sellers(store, &mut flaws).await.map_err(StartError::Ledger)?;
    capability::check_kept(store, &objects, &mut flaws).await.map_err(StartError::Ledger)?;
    Ok(flaws)
}

/// What a store's folder took on the disk, and takes now, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// Now.
    pub after: u64,
}

/// Makes the store of a host that does not run anew in its folder, as small as its rows: another checkpoint takes the place of the journal, and
/// another tree that of the tree. Killed at any moment, the store is as it was, or as it is to be.
///
/// # Errors
///
/// A store that does not open, for a host that runs has it, or it is damaged; no room for all rows once more.
pub async fn compact(home: &Home) -> Result<Compacted, StartError> {
    let folder = store_of(&home.data)?;
    let before = taken(&folder);
    let store = SledStore::open(&folder, home.store.clone()).map_err(StartError::Store)?;
    store.compact().await.map_err(StartError::Ledger)?;
    drop(store);
    Ok(Compacted { before, after: taken(&folder) })
}
