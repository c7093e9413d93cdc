//! Reads the archive frame by frame and verifies that each follows from the one before.

use std::{
    path::{Path, PathBuf},
    vec,
};

use super::{
    damage::JournalError,
    ends::Ends,
    frame::Frame,
    link::{Hash, Link},
    reader::{Found, Reader},
    segment::{Kind, Named},
};

/// The frames of the archive, from the first on.
#[derive(Debug)]
pub(crate) struct Archived {
    store: PathBuf,
    files: vec::IntoIter<Named>,
    /// The file being read, and the chain up to its last frame read.
    reading: Option<(Reader, Hash)>,
    ends: Ends,
    /// Number of the last frame read.
    last: u64,
}

impl Archived {
    /// Starts at the first frame.
    pub(crate) fn start(store: &Path) -> Result<Self, JournalError> {
        let folder = store.join(Kind::Archive.folder());
        let files = Named::all(store, Kind::Archive).map_err(JournalError::io(&folder))?;
        Ok(Self { store: store.to_owned(), files: files.into_iter(), reading: None, ends: Ends::of(store)?, last: 0 })
    }

    /// Returns the next frame, or `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Box<Frame>>, JournalError> {
        loop {
            let Some((reader, here)) = &mut self.reading else {
                let Some(named) = self.files.next() else { return self.ends.finish(&self.store).map(|()| None) };
                let reader = self.ends.open(&self.store, &named)?;
                let chain = reader.opening.link.chain;
                self.reading = Some((reader, chain));
                continue;
            };
            let at = reader.at();
            match reader.next(self.last + 1)? {
                Found::Frame(frame) => {
                    let head = frame.head;
                    if head.link.chain != *here || head.sequence <= self.last {
                        return Err(reader.damage("a frame that does not follow from those before it", at, head.sequence).into());
                    }
                    *here = Link::of_money(*here, head.sequence, &frame.money, head.link.rest).chain;
                    self.last = head.sequence;
                    return Ok(Some(frame));
                }
                Found::Zeros { .. } => return Err(reader.damage("zeros in place of a frame", at, self.last + 1).into()),
                Found::End => {
                    self.ends.close(*here);
                    self.reading = None;
                }
            }
        }
    }

    /// Returns the number of files left.
    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Returns the number of the last frame read.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}
