//! Verifies that the archive is complete from its first and last frames alone: where it must begin, where it must end,
//! and that each file follows from the one before.

use std::path::Path;

use super::{
    damage::{JournalDamage, JournalError},
    hash_chain::{ChainLink, Hash},
    reader::{FrameAt, FrameReader},
    segment::{SegmentFile, SegmentKind},
};

/// Tracks the hash chain across the files of the archive.
///
/// A journal begins with an empty chain, and its oldest segment states the chain of everything before it. The archive
/// must lead from one to the other. An archive file for that segment or a later one means that the segment was archived
/// but not removed yet.
#[derive(Debug, Default)]
pub(super) struct ArchiveHashes {
    /// The chain after the files so far.
    chain: Hash,
    /// The oldest segment, until the archive has been compared with it.
    oldest: Option<(u64, Hash)>,
}

impl ArchiveHashes {
    pub(super) fn of(store: &Path) -> Result<Self, JournalError> {
        let folder = store.join(SegmentKind::Segment.folder());
        let oldest = SegmentFile::all(store, SegmentKind::Segment).map_err(JournalError::io(&folder))?.into_iter().next();
        // A segment that cannot be read is damage of the journal, not of the archive.
        let oldest = oldest
            .and_then(|oldest| Some((oldest.sequence, FrameReader::open(&oldest.path, SegmentKind::Segment).ok()?.opening.link.chain)));
        Ok(Self { chain: Hash::default(), oldest })
    }

    /// Opens the next file and checks that it follows from the one before.
    pub(super) fn open(&mut self, store: &Path, named: &SegmentFile) -> Result<FrameReader, JournalError> {
        if self.oldest.is_some_and(|(sequence, _)| sequence <= named.sequence) {
            self.finish(store)?;
        }
        let reader = FrameReader::open(&named.path, SegmentKind::Archive)?;
        if reader.opening.link.chain != self.chain || reader.opening.sequence != named.sequence {
            let what = "it does not follow from the file before it, or that one is missing";
            return Err(JournalDamage::new(&named.path, what).at(0).into());
        }
        Ok(reader)
    }

    /// Ends a file, whose chain is `chain`.
    pub(super) fn close(&mut self, chain: Hash) {
        self.chain = chain;
    }

    /// Compares the archive's chain with the one that the journal continues from.
    pub(super) fn finish(&mut self, store: &Path) -> Result<(), JournalError> {
        match self.oldest.take() {
            Some((sequence, chain)) if chain != self.chain => {
                let what = format!("money of frames before {sequence}, with which the journal goes on, is missing at its end");
                Err(JournalDamage::new(&store.join(SegmentKind::Archive.folder()), what).into())
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Checks the first sector and the last frame of every file.
pub(super) fn look(store: &Path) -> Result<(), JournalError> {
    let folder = store.join(SegmentKind::Archive.folder());
    let mut ends = ArchiveHashes::of(store)?;
    for named in SegmentFile::all(store, SegmentKind::Archive).map_err(JournalError::io(&folder))? {
        let mut reader = ends.open(store, &named)?;
        if let Some(last) = reader.last_frame()? {
            let FrameAt::Frame(frame) = reader.next(last)? else {
                return Err(JournalDamage::new(&named.path, "its last frame is not whole").into());
            };
            ends.close(ChainLink::of_money(frame.head.link.chain, frame.head.sequence, &frame.money, frame.head.link.rest).chain);
        }
    }
    ends.finish(store)
}
