//! Reads dumps: verifies one, or restores a store from it.

use std::{
    collections::BTreeSet,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{sync::mpsc, task::spawn_blocking};
use tollhouse_store::{
    CopyPage, RowSums, Store, StoreError, WrittenRow,
    dump::{DumpError, DumpReader},
    import::{Importer, written},
};

use super::{BackupError, Header, objects::NamedObject};

/// Capacity of the channel of pages.
const PAGES: usize = 4;

/// The contents of a dump.
#[derive(Debug, Clone)]
pub struct ReadBack {
    /// Its header.
    pub header: Header,
    /// Number of rows in the snapshot.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Objects that its rows name, and some that they named while it was written.
    pub named: BTreeSet<NamedObject>,
}

/// Reads a whole dump. `named` returns the object that a row names.
///
/// # Errors
///
/// The dump is damaged, or the file cannot be read.
pub async fn read_back(path: &Path, named: fn(&WrittenRow) -> Option<NamedObject>) -> Result<ReadBack, BackupError> {
    let path = path.to_owned();
    let reading = spawn_blocking(move || {
        let wrong = |source| BackupError::Dump { path: path.clone(), source };
        let mut dump = open(&path)?;
        let (mut found, mut sums) = (BTreeSet::new(), RowSums::default());
        while let Some(page) = dump.next_page().map_err(wrong)? {
            found.extend(written(&page).filter_map(|row| named(&row)));
            if let CopyPage::End(message) = page {
                sums = *message;
            }
        }
        let header = serde_json::from_value(dump.header().clone()).map_err(|_| wrong(DumpError::Format))?;
        Ok(ReadBack { header, rows: sums.entries(), bytes: sums.bytes(), named: found })
    });
    reading.await.unwrap_or_else(|error| Err(StoreError::Away(error.to_string()).into()))
}

/// Restores a dump into an empty store and verifies each row. No host may serve the store meanwhile.
///
/// # Errors
///
/// The dump is damaged, or the store does not accept it or differs from it afterwards.
pub async fn restore(path: &Path, store: &Arc<dyn Store>) -> Result<(), BackupError> {
    let (hand, mut pages) = mpsc::channel(PAGES);
    let path = path.to_owned();
    let reading = spawn_blocking(move || hand_out(path, &hand));
    let mut filler = Importer::new(Arc::clone(store));
    let filling = async {
        let mut sums = None;
        while let Some(page) = pages.recv().await {
            if let CopyPage::End(message) = &page {
                sums = Some(**message);
            }
            filler.take(page).await?;
        }
        drop(pages);
        Ok::<_, BackupError>(sums)
    };
    let (read, filled) = tokio::join!(reading, filling);
    let sums = filled?;
    read.unwrap_or_else(|error| Err(StoreError::Away(error.to_string()).into()))?;
    let sums = sums.ok_or(BackupError::CutOff)?;
    Ok(filler.settle(&sums).await?)
}

fn hand_out(path: PathBuf, hand: &mpsc::Sender<CopyPage>) -> Result<(), BackupError> {
    let mut dump = open(&path)?;
    while let Some(page) = dump.next_page().map_err(|source| BackupError::Dump { path: path.clone(), source })? {
        if hand.blocking_send(page).is_err() {
            // The receiver reports why it stopped.
            return Ok(());
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<DumpReader<BufReader<File>>, BackupError> {
    let file = File::open(path).map_err(BackupError::io(path))?;
    DumpReader::begin(BufReader::new(file)).map_err(|source| BackupError::Dump { path: path.to_owned(), source })
}
