//! Reads the archive frame by frame and verifies that each follows from the one before.

use std::{
    path::{Path, PathBuf},
    vec,
};

use super::{
    archive_hashes::ArchiveHashes,
    damage::JournalError,
    frame::Frame,
    hash_chain::{ChainLink, Hash},
    reader::{FrameAt, FrameReader},
    segment::{SegmentFile, SegmentKind},
};

/// The frames of the archive, from the first on.
#[derive(Debug)]
pub(crate) struct ArchiveFrames {
    store: PathBuf,
    files: vec::IntoIter<SegmentFile>,
    /// The file being read, and the chain up to its last frame read.
    reading: Option<(FrameReader, Hash)>,
    ends: ArchiveHashes,
    /// Number of the last frame read.
    last: u64,
}

impl ArchiveFrames {
    /// Starts at the first frame.
    pub(crate) fn start(store: &Path) -> Result<Self, JournalError> {
        let folder = store.join(SegmentKind::Archive.folder());
        let files = SegmentFile::all(store, SegmentKind::Archive).map_err(JournalError::io(&folder))?;
        Ok(Self { store: store.to_owned(), files: files.into_iter(), reading: None, ends: ArchiveHashes::of(store)?, last: 0 })
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
                FrameAt::Frame(frame) => {
                    let head = frame.head;
                    if head.link.chain != *here || head.sequence <= self.last {
                        return Err(reader.damage("a frame that does not follow from those before it", at, head.sequence).into());
                    }
                    *here = ChainLink::of_money(*here, head.sequence, &frame.money, head.link.rest).chain;
                    self.last = head.sequence;
                    return Ok(Some(frame));
                }
                FrameAt::Zeros { .. } => return Err(reader.damage("zeros in place of a frame", at, self.last + 1).into()),
                FrameAt::End => {
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
