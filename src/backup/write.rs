//! Writes a dump of a store.

use std::io::Write;

use tokio::{sync::mpsc, task::spawn_blocking};
use tollhouse_store::{CopyPage, Store, StoreError, dump::DumpWriter};

use super::{BackupError, Header};

/// Capacity of the channel of pages.
const PAGES: usize = 4;

/// Writes a snapshot of all rows of a store to `to`. Others can read and commit meanwhile.
///
/// # Errors
///
/// Errors of the store and of `to`. The output is then not a valid dump.
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
