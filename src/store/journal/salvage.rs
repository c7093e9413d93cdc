//! Salvages an archive: takes the money of all intact frames, and records the gaps between them.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use super::{
    archive::archived_part,
    archive_gap::ArchiveGap,
    damage::JournalError,
    frame::Frame,
    hash_chain::{ChainLink, Hash},
    reader::{FrameAt, FrameReader},
    sector::SECTOR,
    segment::{SegmentFile, SegmentHeader, SegmentKind},
    temp_file::TempFile,
};

/// Makes the archive lead to the chain `end` after frame `until`. It keeps the intact frames of the archive, and adds
/// those of segments up to `until`, which stay. Files that it replaces are kept in the folder `aside`. Returns the
/// frames whose money is missing, including those of earlier salvages. After an interruption, run it again.
pub(crate) fn salvage_up_to(store: &Path, aside: &Path, until: u64, end: Hash) -> Result<Vec<ArchiveGap>, JournalError> {
    for named in ArchiveGap::files(store)? {
        set_aside(&named.path, aside)?;
    }
    let archived = listed(store, SegmentKind::Archive.folder(), SegmentFile::all(store, SegmentKind::Archive))?;
    let folder = SegmentKind::Segment.folder();
    let mut segments = listed(store, folder, SegmentFile::damaged(store))?;
    segments.extend(listed(store, folder, SegmentFile::all(store, SegmentKind::Segment))?);
    let mut numbers: Vec<_> = archived.iter().chain(&segments).map(|named| named.sequence).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut salvage = Salvage { store, aside, next: 1, chain: Hash::default(), gaps: vec![] };
    let ends = numbers.iter().skip(1).map(|next| next - 1).chain([u64::MAX]);
    for (number, last) in numbers.iter().zip(ends) {
        let archived = archived.iter().find(|named| named.sequence == *number);
        if *number > until {
            // The segment with this number is archived later.
            archived.map_or(Ok(()), |named| set_aside(&named.path, aside))?;
            continue;
        }
        let segments = segments.iter().filter(|named| named.sequence == *number);
        salvage.take(archived, segments, *number, last.min(until))?;
    }
    salvage.bridge(until.saturating_add(1), end);
    salvage.gaps.iter().try_for_each(|gap| gap.write(store))?;
    File::open(aside).and_then(|folder| folder.sync_all()).map_err(JournalError::io(aside))?;
    Ok(salvage.gaps)
}

/// Does the same for an archive that leads to an intact journal.
pub(crate) fn salvage_up_to_journal(store: &Path, aside: &Path) -> Result<Vec<ArchiveGap>, JournalError> {
    let segments = listed(store, SegmentKind::Segment.folder(), SegmentFile::all(store, SegmentKind::Segment))?;
    let Some(oldest) = segments.first() else { return Ok(vec![]) };
    let opening = FrameReader::open(&oldest.path, SegmentKind::Segment)?.opening;
    salvage_up_to(store, aside, oldest.sequence.saturating_sub(1), opening.link.chain)
}

fn listed(store: &Path, folder: &str, files: io::Result<Vec<SegmentFile>>) -> Result<Vec<SegmentFile>, JournalError> {
    files.map_err(JournalError::io(&store.join(folder)))
}

fn set_aside(file: &Path, aside: &Path) -> Result<(), JournalError> {
    fs::rename(file, aside.join(file.file_name().unwrap_or_default())).map_err(JournalError::io(file))
}

/// The archive so far.
struct Salvage<'a> {
    store: &'a Path,
    aside: &'a Path,
    /// The first frame that was not reached yet.
    next: u64,
    /// The chain after the frames so far.
    chain: Hash,
    gaps: Vec<ArchiveGap>,
}

impl Salvage<'_> {
    /// Continues at frame `sequence`, which has the chain `before` it. Records a gap if that does not follow.
    fn bridge(&mut self, sequence: u64, before: Hash) {
        if before != self.chain {
            let last = sequence.saturating_sub(1).max(self.next);
            match self.gaps.last_mut() {
                // No money was found since the last gap.
                Some(gap) if gap.after == self.chain => (gap.last, gap.after) = (last, before),
                _ => self.gaps.push(ArchiveGap { first: self.next, last, before: self.chain, after: before }),
            }
        }
        (self.next, self.chain) = (sequence.max(self.next), before);
    }

    /// Takes the money of the files with one number, whose last frame is at most `last`.
    fn take<'f>(
        &mut self,
        archived: Option<&SegmentFile>,
        segments: impl Iterator<Item = &'f SegmentFile> + Clone,
        number: u64,
        last: u64,
    ) -> Result<(), JournalError> {
        if let Some(named) = archived
            && segments.clone().next().is_none()
            && let Some(intact) = IntactFile::read(named, last)?
        {
            self.bridge(number, intact.before);
            (self.next, self.chain) = (intact.last + 1, intact.after);
            return Ok(());
        }
        let path = self.store.join(SegmentKind::Archive.folder()).join(SegmentKind::Archive.file_name(number));
        let io = |error| JournalError::io(&path)(error);
        let sources = archived.map(|named| (named, SegmentKind::Archive)).into_iter();
        let mut file = None;
        for (named, kind) in sources.chain(segments.map(|named| (named, SegmentKind::Segment))) {
            let mut frames = IntactFrames { reader: FrameReader::open_damaged(&named.path, kind, number)? };
            while let Some(frame) = frames.next(self.next, last)? {
                let head = frame.head;
                self.bridge(head.sequence, head.link.chain);
                let part = if kind == SegmentKind::Archive { Some(*frame) } else { archived_part(&frame) };
                self.next = head.sequence.saturating_add(1);
                let Some(part) = part else { continue };
                let mut sectors = vec![];
                let file = match &mut file {
                    Some(file) => file,
                    none => {
                        let link = ChainLink { chain: self.chain, rest: Hash::default() };
                        sectors = SegmentHeader { kind: SegmentKind::Archive, size: 0, sequence: number, link }.sector();
                        none.insert(TempFile::begin(path.clone()).map_err(io)?)
                    }
                };
                self.chain = after(&part);
                part.write(&mut sectors);
                file.write(&sectors).map_err(io)?;
            }
        }
        if let Some(named) = archived {
            let copy = self.aside.join(named.path.file_name().unwrap_or_default());
            fs::copy(&named.path, &copy).map_err(JournalError::io(&copy))?;
            File::open(&copy).and_then(|copy| copy.sync_all()).map_err(JournalError::io(&copy))?;
        }
        match (file, archived) {
            (Some(file), _) => file.finish().map_err(io),
            (None, Some(named)) => fs::remove_file(&named.path).map_err(JournalError::io(&named.path)),
            (None, None) => Ok(()),
        }
    }
}

/// Returns the chain after an archived frame.
fn after(frame: &Frame) -> Hash {
    ChainLink::of_money(frame.head.link.chain, frame.head.sequence, &frame.money, frame.head.link.rest).chain
}

/// An archive file whose frames all follow from each other.
struct IntactFile {
    before: Hash,
    after: Hash,
    last: u64,
}

impl IntactFile {
    /// Reads a file whose last frame must be at most `last`. Returns `None` if anything is wrong with it, or it is empty.
    fn read(named: &SegmentFile, last: u64) -> Result<Option<Self>, JournalError> {
        match Self::verified(named, last) {
            Err(JournalError::Damaged(_)) => Ok(None),
            read => read,
        }
    }

    fn verified(named: &SegmentFile, last: u64) -> Result<Option<Self>, JournalError> {
        let mut reader = FrameReader::open(&named.path, SegmentKind::Archive)?;
        let SegmentHeader { sequence, link, .. } = reader.opening;
        if sequence != named.sequence || sequence == 0 {
            return Ok(None);
        }
        let mut read = Self { before: link.chain, after: link.chain, last: sequence - 1 };
        loop {
            match reader.next(read.last.saturating_add(1))? {
                FrameAt::Frame(frame) if frame.head.link.chain == read.after && (read.last + 1..=last).contains(&frame.head.sequence) => {
                    (read.last, read.after) = (frame.head.sequence, after(&frame));
                }
                FrameAt::End => return Ok(Some(read).filter(|read| read.before != read.after)),
                FrameAt::Frame(_) | FrameAt::Zeros { .. } => return Ok(None),
            }
        }
    }
}

/// Reads the intact frames of a file, whatever is between them.
struct IntactFrames {
    reader: FrameReader,
}

impl IntactFrames {
    /// Returns the next frame with a number from `from` to `last`.
    fn next(&mut self, from: u64, last: u64) -> Result<Option<Box<Frame>>, JournalError> {
        loop {
            let at = self.reader.at();
            match self.reader.next(from) {
                Ok(FrameAt::Frame(frame)) if (from..=last).contains(&frame.head.sequence) => return Ok(Some(frame)),
                Ok(FrameAt::End) => return Ok(None),
                Ok(FrameAt::Frame(_) | FrameAt::Zeros { .. }) => {}
                // The length of a damaged frame is unknown, so every later sector can begin another one.
                Err(JournalError::Damaged(_)) if self.reader.at() == at + SECTOR as u64 => {}
                // Seeking discards the read buffer, so it is done once for a frame, not for each of its sectors.
                Err(JournalError::Damaged(_)) => self.reader.seek(at + SECTOR as u64)?,
                Err(error) => return Err(error),
            }
        }
    }
}
