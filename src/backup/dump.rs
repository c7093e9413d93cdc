//! Dumps: writes one, verifies one, or restores a store from it.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufReader, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, task::spawn_blocking};
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_store::{
    CopyPage, RowSums, Store, StoreError, WrittenRow,
    dump::{DumpError, DumpReader, DumpWriter},
    import::{Importer, written},
};

use super::{BackupError, objects::NamedObject};

/// Capacity of the channel of pages.
const PAGES: usize = 4;

/// Writes a snapshot of all rows of a store to `to`. Others can read and commit meanwhile.
/// After an error the output is not a valid dump.
pub async fn write_dump(store: &dyn Store, header: &Header, to: impl Write + Send + 'static) -> Result<(), BackupError> {
    let header = serde_json::to_value(header).expect("a header has text keys");
    let (hand, mut pages) = mpsc::channel(PAGES);
    let writing = spawn_blocking(move || {
        let mut dump = DumpWriter::begin(to, &header)?;
        while let Some(page) = pages.blocking_recv() {
            dump.page(&page)?;
            if let CopyPage::End(_) = page {
                return Ok(true);
            }
        }
        Ok(false)
    });
    let (copied, written) = tokio::join!(store.copy(hand), writing);
    let written = written.map_err(|error| StoreError::Away(error.to_string()))?;
    // If writing failed, the copy failed only because nobody received its pages, so report this error first.
    let ended = written.map_err(BackupError::Written)?;
    copied?;
    if ended { Ok(()) } else { Err(StoreError::Away("a copy without an end".to_owned()).into()) }
}

/// The contents of a dump.
#[derive(Debug, Clone)]
pub struct ReadBack {
    /// The header of the dump: version, time, backend and keys.
    pub header: Header,
    /// Number of rows in the snapshot.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Objects that its rows name, and some that they named while it was written.
    pub named: BTreeSet<NamedObject>,
}

/// Reads a whole dump. `named` returns the object that a row names.
pub async fn read_back(path: &Path, named: fn(&WrittenRow) -> Option<NamedObject>) -> Result<ReadBack, BackupError> {
    let path = path.to_owned();
    let reading = spawn_blocking(move || {
        let wrong = |source| BackupError::Dump { path: path.clone(), source };
        let mut dump = open(&path)?;
        let (mut found, mut sums) = (BTreeSet::new(), RowSums::default());
        while let Some(page) = dump.next_page().map_err(wrong)? {
            found.extend(written(&page).filter_map(|row| named(&row)));
            if let CopyPage::End(totals) = page {
                sums = *totals;
            }
        }
        let header = serde_json::from_value(dump.header().clone()).map_err(|_| wrong(DumpError::Format))?;
        Ok(ReadBack { header, rows: sums.entries(), bytes: sums.bytes(), named: found })
    });
    reading.await.unwrap_or_else(|error| Err(StoreError::Away(error.to_string()).into()))
}

/// Restores a dump into an empty store and verifies each row. No host may serve the store meanwhile.
#[boxed]
pub async fn restore(path: &Path, store: &Arc<dyn Store>) -> Result<(), BackupError> {
    let (hand, mut pages) = mpsc::channel(PAGES);
    let path = path.to_owned();
    let reading = spawn_blocking(move || hand_out(path, &hand));
    let mut filler = Importer::new(Arc::clone(store));
    let filling = async {
        let mut sums = None;
        while let Some(page) = pages.recv().await {
            if let CopyPage::End(totals) = &page {
                sums = Some(**totals);
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

/// The header of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the program that wrote it.
    pub version: String,
    /// When it was begun.
    pub at: Timestamp,
    /// The store's backend, in one word.
    pub backend: String,
    /// The keys without which the rows are useless.
    pub keys: Ids,
}

impl Header {
    /// Creates the header for a copy of this store by this version.
    pub fn of(store: &dyn Store, at: Timestamp, keys: Ids) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), at, backend: store.sizes().backend.to_owned(), keys }
    }
}

/// The ids of a host's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The key that signs receipts. `None` if there was none yet.
    pub receipt: Option<String>,
    /// The key that encrypts secrets.
    pub master: Option<String>,
}
