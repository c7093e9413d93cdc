//! Reads the archive, and verifies that each frame and each file follows from the one before.

use std::{
    path::{Path, PathBuf},
    vec,
};

use super::{
    archive_gap::ArchiveGap,
    damage::{JournalDamage, JournalError},
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
    last: u64,
}

impl ArchiveFrames {
    /// Starts at the first frame.
    pub(crate) fn start(store: &Path) -> Result<Self, JournalError> {
        let files = SegmentFile::list(store, SegmentKind::Archive)?;
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
                    if head.sequence <= self.last || !self.ends.follows(*here, head.link.chain) {
                        return Err(reader.damage("a frame does not follow from those before it", at, head.sequence).into());
                    }
                    *here = ChainLink::of_money(head.link.chain, head.sequence, &frame.money, head.link.rest).chain;
                    self.last = head.sequence;
                    return Ok(Some(frame));
                }
                FrameAt::Zeros { .. } => return Err(reader.damage("zeros in place of a frame", at, self.last + 1).into()),
                FrameAt::End => {
                    self.ends.chain = *here;
                    self.reading = None;
                }
            }
        }
    }

    /// Returns the number of files left.
    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the recorded gaps between the frames read so far.
    pub(crate) fn crossed_gaps(&self) -> &[ArchiveGap] {
        &self.ends.crossed
    }
}

/// Tracks the hash chain across the files of the archive.
///
/// A journal begins with an empty chain, and its oldest segment states the chain of everything before it. The archive
/// must lead from one to the other, except across recorded gaps. An archive file for that segment or a later one means
/// that the segment was archived but not removed yet.
#[derive(Debug, Default)]
struct ArchiveHashes {
    /// The chain after the files so far.
    chain: Hash,
    /// The oldest segment, until the archive has been compared with it.
    oldest: Option<(u64, Hash)>,
    /// All recorded gaps.
    gaps: Vec<ArchiveGap>,
    /// The gaps so far.
    crossed: Vec<ArchiveGap>,
}

impl ArchiveHashes {
    fn of(store: &Path) -> Result<Self, JournalError> {
        let oldest = SegmentFile::list(store, SegmentKind::Segment)?.into_iter().next();
        // A segment that cannot be read is damage of the journal, not of the archive.
        let oldest = oldest
            .and_then(|oldest| Some((oldest.sequence, FrameReader::open(&oldest.path, SegmentKind::Segment).ok()?.opening.link.chain)));
        Ok(Self { oldest, gaps: ArchiveGap::all(store)?, ..Self::default() })
    }

    /// Returns whether a part with the chain `after` before it follows from `before`, at once or across a recorded gap.
    fn follows(&mut self, before: Hash, after: Hash) -> bool {
        if before == after {
            return true;
        }
        let gap = self.gaps.iter().find(|gap| (gap.before, gap.after) == (before, after));
        self.crossed.extend(gap);
        gap.is_some()
    }

    /// Opens the next file and checks that it follows from the one before.
    fn open(&mut self, store: &Path, named: &SegmentFile) -> Result<FrameReader, JournalError> {
        if self.oldest.is_some_and(|(sequence, _)| sequence <= named.sequence) {
            self.finish(store)?;
        }
        let reader = FrameReader::open(&named.path, SegmentKind::Archive)?;
        if reader.opening.sequence != named.sequence || !self.follows(self.chain, reader.opening.link.chain) {
            let what = "it does not follow from the file before it, or that file is missing";
            return Err(JournalDamage::new(&named.path, what).at(0).into());
        }
        Ok(reader)
    }

    /// Compares the archive's chain with the one that the journal continues from.
    fn finish(&mut self, store: &Path) -> Result<(), JournalError> {
        let Some((sequence, chain)) = self.oldest.take() else { return Ok(()) };
        if !self.follows(self.chain, chain) {
            let what = format!("money of frames before {sequence}, where the journal begins, is missing at its end");
            return Err(JournalDamage::new(&store.join(SegmentKind::Archive.folder()), what).into());
        }
        self.chain = chain;
        Ok(())
    }
}

/// Checks the first sector and the last frame of every file.
pub(super) fn look(store: &Path) -> Result<(), JournalError> {
    let mut ends = ArchiveHashes::of(store)?;
    for named in SegmentFile::list(store, SegmentKind::Archive)? {
        let mut reader = ends.open(store, &named)?;
        ends.chain = reader.opening.link.chain;
        if let Some(last) = reader.last_frame()? {
            let FrameAt::Frame(frame) = reader.next(last)? else {
                return Err(JournalDamage::new(&named.path, "its last frame is incomplete").into());
            };
            let head = frame.head;
            ends.chain = ChainLink::of_money(head.link.chain, head.sequence, &frame.money, head.link.rest).chain;
        }
    }
    ends.finish(store)
}
