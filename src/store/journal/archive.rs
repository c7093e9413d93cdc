//! The archive: the money parts of segments that are no longer needed.
//!
//! There is one file for each segment with money. It has the segment's frames that contain money, with only the money
//! part of each. Instead of the hash of all frames before, each frame stores the chain before it and the `rest` hash
//! that went into it, from which the chain can be verified ([`super::hash_chain`]). An archive file starts with the same
//! number as its segment.

use std::{
    fs::{self, File},
    path::Path,
};

use super::{
    archive_gap::ArchiveGap,
    archived::{self, ArchiveFrames},
    damage::{JournalDamage, JournalError},
    frame::Frame,
    hash_chain::ChainLink,
    reader::{FrameAt, FrameReader},
    segment::{DAMAGED, SegmentFile, SegmentHeader, SegmentKind},
    temp_file::TempFile,
};

/// The contents of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Archive {
    pub(crate) files: u64,
    pub(crate) frames: u64,
    /// Number of its last frame.
    pub(crate) last: u64,
    /// Frames that a repair has recorded as missing.
    pub(crate) gaps: Vec<ArchiveGap>,
}

impl Archive {
    /// Archives the money of all segments without a frame after `sequence`, then removes them. The last segment always
    /// stays. A damaged segment is renamed and stays too. The first such damage is returned once all other segments are
    /// done.
    pub(crate) fn take(store: &Path, sequence: u64) -> Result<(), JournalError> {
        let folder = store.join(SegmentKind::Segment.folder());
        let segments = SegmentFile::list(store, SegmentKind::Segment)?;
        let mut damaged = Ok(());
        for pair in segments.windows(2) {
            if let [segment, next] = pair
                && next.sequence <= sequence + 1
            {
                match Self::keep(store, segment, next.sequence - 1) {
                    Ok(()) => fs::remove_file(&segment.path).map_err(JournalError::io(&segment.path))?,
                    Err(JournalError::Damaged(damage)) => {
                        let aside = segment.path.with_extension(DAMAGED);
                        fs::rename(&segment.path, &aside).map_err(JournalError::io(&aside))?;
                        damaged = damaged.and(Err(JournalDamage { file: aside, ..*damage }.into()));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(JournalError::io(&folder))?;
        damaged
    }

    /// Verifies the hash chain through the whole archive.
    pub(crate) fn check(store: &Path) -> Result<Self, JournalError> {
        let mut archived = ArchiveFrames::start(store)?;
        let files = archived.files();
        let mut frames = 0;
        while archived.next()?.is_some() {
            frames += 1;
        }
        Ok(Self { files, frames, last: archived.last(), gaps: archived.crossed_gaps().to_vec() })
    }

    /// Checks that no file is missing and that both ends of each file are intact. The frames between are not read.
    pub(crate) fn look(store: &Path) -> Result<(), JournalError> {
        archived::look(store)
    }

    /// Archives the money of a segment's frames up to `until`, or up to its first damage.
    pub(crate) fn keep(store: &Path, segment: &SegmentFile, until: u64) -> Result<(), JournalError> {
        let path = store.join(SegmentKind::Archive.folder()).join(SegmentKind::Archive.file_name(segment.sequence));
        let mut reader = FrameReader::open(&segment.path, SegmentKind::Segment)?;
        let opening = SegmentHeader { kind: SegmentKind::Archive, size: 0, ..reader.opening };
        let mut file = TempFile::begin(path.clone()).map_err(JournalError::io(&path))?;
        let mut sectors = opening.sector();
        let (mut sequence, mut link) = (opening.sequence, opening.link);
        let mut read = Ok(());
        while read.is_ok() && sequence <= until {
            match follow(&mut reader, sequence, link, until) {
                Ok(frame) => {
                    (sequence, link) = (sequence + 1, frame.link());
                    archived_part(&frame).iter().for_each(|stored| stored.write(&mut sectors));
                    file.write(&std::mem::take(&mut sectors)).map_err(JournalError::io(&path))?;
                }
                Err(error) => read = Err(error),
            }
        }
        if read.is_ok() && link.chain == opening.link.chain {
            // A segment without money leaves the chain unchanged, so that it needs no file.
            return Ok(());
        }
        file.write(&sectors).and_then(|()| file.finish()).map_err(JournalError::io(&path))?;
        read
    }
}

/// Reads the next frame and checks that it follows from the ones before.
fn follow(reader: &mut FrameReader, sequence: u64, link: ChainLink, until: u64) -> Result<Box<Frame>, JournalError> {
    let at = reader.at();
    match reader.next(sequence)? {
        FrameAt::Frame(frame) if frame.head.sequence == sequence && frame.head.link == link => Ok(frame),
        FrameAt::Frame(_) => Err(reader.damage("a frame does not follow from those before it", at, sequence).into()),
        FrameAt::Zeros { .. } | FrameAt::End => {
            Err(reader.damage("it ends before its last frame", at, sequence).of(sequence, until).into())
        }
    }
}

/// Returns the archived form of a frame, or `None` if it has no money.
pub(super) fn archived_part(frame: &Frame) -> Option<Frame> {
    let head = frame.head;
    let folded = head.link.next(head.sequence, b"", &frame.rest).rest;
    let link = ChainLink { chain: head.link.chain, rest: folded };
    let money = Some(frame.money.clone()).filter(|money| !money.is_empty())?;
    Frame::new(head.sequence, head.synced, link, money, vec![])
}
