//! Reads rows from the journal's archive.

use std::path::{Path, PathBuf};

use super::{
    OpenError,
    common::{corrupt, damaged},
};
use crate::{
    Space, WrittenRow,
    journal::{ArchiveFrames, ArchiveGap, JournalError},
};

/// The money rows in the archive, in the order in which they were written.
#[derive(Debug)]
pub struct MoneyRows {
    store: PathBuf,
    archived: ArchiveFrames,
}

impl MoneyRows {
    /// Starts at the first row. The store must not be open, or must keep all frames meanwhile.
    pub fn of(store: &Path) -> Result<Self, OpenError> {
        let archived = ArchiveFrames::start(store).map_err(|error| refused(store, error))?;
        Ok(Self { store: store.to_owned(), archived })
    }

    /// Returns the rows that the next frame wrote, or `None` after the last.
    pub fn next_frame(&mut self) -> Result<Option<Vec<WrittenRow>>, OpenError> {
        let Some(frame) = self.archived.next().map_err(|error| refused(&self.store, error))? else { return Ok(None) };
        let unreadable = || corrupt(&self.store, format!("frame {} of the archive is malformed", frame.sequence()));
        let [money, _] = frame.parts().ok_or_else(unreadable)?;
        let written = money.rows.into_iter().filter_map(|row| Some(WrittenRow::new(Space::of_number(row.space)?, row.key, row.value?)));
        Ok(Some(written.collect()))
    }

    /// Returns the gaps so far, which a repair has recorded.
    pub fn gaps(&self) -> &[ArchiveGap] {
        self.archived.crossed_gaps()
    }
}

fn refused(store: &Path, error: JournalError) -> OpenError {
    match error {
        JournalError::Damaged(damage) => OpenError::Archive { path: store.to_owned(), damage },
        error @ JournalError::Io { .. } => damaged(store, error),
    }
}
