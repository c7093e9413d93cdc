//! Reading dumps: whether one is whole, and a store that is filled from it.

use std::{
    collections::BTreeSet,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{sync::mpsc, task::spawn_blocking};
use tollhouse_store::{
    Page, Store, StoreError, Sums, Written,
    dump::{DumpError, DumpReader},
    fill::{Filler, written},
};

use super::{BackupError, Header, objects::Named};

/// Pages on their way.
const PAGES: usize = 4;

/// What a dump holds.
#[derive(Debug, Clone)]
pub struct ReadBack {
    /// What it says of itself.
    pub header: Header,
    /// Rows at its moment.
    pub rows: u64,
    /// Of keys and values.
    pub bytes: u64,
    /// Contents of files that its rows name, and some that they named while it was written.
    pub named: BTreeSet<Named>,
}

/// Reads a dump to its end. `named` says which content a row names.
///
/// # Errors
///
/// What of it is damaged; the file's.
pub async fn read_back(path: &Path, named: fn(&Written) -> Option<Named>) -> Result<ReadBack, BackupError> {
    let path = path.to_owned();
    let reading = spawn_blocking(move || {
        let wrong = |source| BackupError::Dump { path: path.clone(), source };
        let mut dump = open(&path)?;
        let (mut found, mut sums) = (BTreeSet::new(), Sums::default());
        while let Some(page) = dump.next_page().map_err(wrong)? {
            found.extend(written(&page).filter_map(|row| named(&row)));
            if let Page::End(said) = page {
                sums = *said;
            }
        }
        let header = serde_json::from_value(dump.header().clone()).map_err(|_| wrong(DumpError::Format))?;
        Ok(ReadBack { header, rows: sums.entries(), bytes: sums.bytes(), named: found })
    });
    reading.await.unwrap_or_else(|error| Err(StoreError::Away(error.to_string()).into()))
}

/// Fills an empty store from a dump, and holds each row against it. Until [that ends](Filler::settle) no host serves it.
///
/// # Errors
///
/// A dump that is damaged, or a store that does not take it, or holds something else then.
pub async fn restore(path: &Path, store: &Arc<dyn Store>) -> Result<(), BackupError> {
    let (hand, mut pages) = mpsc::channel(PAGES);
    let path = path.to_owned();
    let reading = spawn_blocking(move || hand_out(path, &hand));
    let mut filler = Filler::new(Arc::clone(store));
    let filling = async {
        let mut sums = None;
        while let Some(page) = pages.recv().await {
            if let Page::End(said) = &page {
                sums = Some(**said);
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

fn hand_out(path: PathBuf, hand: &mpsc::Sender<Page>) -> Result<(), BackupError> {
    let mut dump = open(&path)?;
    while let Some(page) = dump.next_page().map_err(|source| BackupError::Dump { path: path.clone(), source })? {
        if hand.blocking_send(page).is_err() {
            // Whoever takes them says why not.
            return Ok(());
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<DumpReader<BufReader<File>>, BackupError> {
    let file = File::open(path).map_err(BackupError::io(path))?;
    DumpReader::begin(BufReader::new(file)).map_err(|source| BackupError::Dump { path: path.to_owned(), source })
}
