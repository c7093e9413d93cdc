//! Reads all frames after a checkpoint, across segments.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use super::{
    damage::{JournalDamage, JournalError},
    frame::Frame,
    hash_chain::ChainLink,
    reader::{FrameAt, FrameReader},
    segment::{SegmentFile, SegmentKind},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    /// Number of the last frame.
    pub(crate) sequence: u64,
    pub(crate) link: ChainLink,
    /// The last segment. `at` is the offset of its next frame.
    pub(crate) segment: PathBuf,
    pub(crate) at: u64,
    pub(crate) size: u64,
    /// Whether a torn write follows.
    pub(crate) torn: bool,
    /// The highest number that a frame states to be on disk.
    pub(crate) synced: u64,
    /// Bytes of the frames after the checkpoint.
    pub(crate) bytes: u64,
}

impl JournalEnd {
    /// Fails if the journal ends before the number from which its checkpoint is consistent.
    pub(crate) fn reaches(&self, holds_from: u64) -> Result<(), JournalError> {
        if self.sequence >= holds_from {
            return Ok(());
        }
        Err(self.short_of(holds_from, "the journal ends before its checkpoint").into())
    }

    /// Returns the damage that frames up to `to` are missing.
    pub(crate) fn short_of(&self, to: u64, what: &str) -> JournalDamage {
        JournalDamage::new(&self.segment, what).at(self.at).of(self.sequence + 1, to).with_rows(&[], false)
    }
}

/// A walk over the frames after number `after`.
#[derive(Debug)]
pub(crate) struct FrameWalk {
    after: u64,
    link_after: Option<ChainLink>,
    waiting: VecDeque<SegmentFile>,
    reader: FrameReader,
    end: JournalEnd,
}

impl FrameWalk {
    /// Starts after a checkpoint, at the frame after `after`. `link` is the hash of all frames up to `after`.
    pub(crate) fn start(store: &Path, after: u64, link: ChainLink) -> Result<Self, JournalError> {
        let folder = store.join(SegmentKind::Segment.folder());
        let segments = SegmentFile::list(store, SegmentKind::Segment)?;
        let Some(first) = segments.iter().rposition(|segment| segment.sequence <= after + 1) else {
            let what = "the segment with the first required frame is missing";
            let to = segments.first().map_or(after + 1, |segment| segment.sequence - 1);
            return Err(JournalDamage::new(&folder, what).of(after + 1, to).with_rows(&[], false).into());
        };
        let mut waiting: VecDeque<SegmentFile> = segments.into_iter().skip(first).collect();
        let Some(named) = waiting.pop_front() else { return Err(JournalDamage::new(&folder, "it does not contain a segment").into()) };
        let reader = open(&named)?;
        let opening = reader.opening;
        let end = JournalEnd {
            sequence: opening.sequence - 1,
            link: opening.link,
            segment: named.path,
            at: reader.at(),
            size: opening.size,
            torn: false,
            synced: opening.sequence - 1,
            bytes: 0,
        };
        let mut walk = Self { after, link_after: Some(link), waiting, reader, end };
        walk.check_link()?;
        Ok(walk)
    }

    /// Continues where another walk ended. The journal may have grown since.
    pub(crate) fn next_segment(store: &Path, end: JournalEnd) -> Result<Self, JournalError> {
        let mut waiting = VecDeque::from(SegmentFile::list(store, SegmentKind::Segment)?);
        waiting.retain(|segment| segment.sequence > end.sequence && segment.path != end.segment);
        let mut reader = FrameReader::open(&end.segment, SegmentKind::Segment)?;
        reader.seek(end.at)?;
        Ok(Self { after: end.sequence, link_after: None, waiting, reader, end })
    }

    /// Returns the next frame, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Box<Frame>>, JournalError> {
        loop {
            let (expected, at) = (self.end.sequence + 1, self.reader.at());
            let torn = match self.reader.next(expected)? {
                FrameAt::Frame(frame) => {
                    if frame.head.sequence != expected || frame.head.link != self.end.link {
                        return Err(self.reader.damage("a frame does not follow from those before it", at, expected).into());
                    }
                    (self.end.sequence, self.end.link) = (expected, frame.link());
                    self.end.synced = self.end.synced.max(frame.head.synced);
                    self.end.at = self.reader.at();
                    self.check_link()?;
                    if expected > self.after {
                        self.end.bytes += frame.disk_bytes();
                        return Ok(Some(frame));
                    }
                    continue;
                }
                FrameAt::Zeros { started } => self.reader.rest(at, expected)? || started,
                FrameAt::End => false,
            };
            self.check_length()?;
            if !self.roll(torn)? {
                return self.end.reaches(self.after).map(|()| None);
            }
        }
    }

    /// Returns the end of the journal. Call it once there is no next frame.
    pub(crate) fn end(self) -> JournalEnd {
        self.end
    }

    /// Moves on to the next segment, if there is one.
    fn roll(&mut self, torn: bool) -> Result<bool, JournalError> {
        let expected = self.end.sequence + 1;
        let Some(named) = self.waiting.pop_front() else {
            self.end.torn = torn;
            return Ok(false);
        };
        // A segment is synced before the next one is begun, so that a torn write or a gap here is damage.
        if named.sequence != expected || torn {
            let what = format!("frames are missing before `{}`", named.path.display());
            let missing = JournalDamage::new(&self.end.segment, what).at(self.end.at);
            return Err(missing.of(expected, named.sequence.saturating_sub(1)).with_rows(&[], false).into());
        }
        self.reader = open(&named)?;
        if self.reader.opening.link != self.end.link {
            return Err(JournalDamage::new(&named.path, "it does not follow from the segment before it")
                .at(0)
                .of(expected, expected)
                .into());
        }
        (self.end.segment, self.end.at, self.end.size) = (named.path, self.reader.at(), self.reader.opening.size);
        self.end.synced = self.end.synced.max(expected - 1);
        Ok(true)
    }

    /// Checks that a segment has its original length. A shorter one has lost nothing if the next segment continues from
    /// its last frame.
    fn check_length(&self) -> Result<(), JournalError> {
        let (length, size) = (self.reader.length, self.end.size);
        if length >= size || self.waiting.front().is_some_and(|next| next.sequence == self.end.sequence + 1) {
            return Ok(());
        }
        let what = format!("the file has {length} bytes instead of {size}; any data after its end is lost");
        Err(JournalDamage::new(&self.end.segment, what).at(length).of(self.end.sequence + 1, self.end.sequence + 1).into())
    }

    /// Checks that the frames up to the checkpoint have the hash that it states.
    fn check_link(&mut self) -> Result<(), JournalError> {
        if self.end.sequence == self.after && self.link_after.take().is_some_and(|link| link != self.end.link) {
            let what = "its frames differ from those in the checkpoint";
            return Err(JournalDamage::new(&self.end.segment, what).at(self.end.at).of(self.after, self.after).into());
        }
        Ok(())
    }
}

fn open(named: &SegmentFile) -> Result<FrameReader, JournalError> {
    let reader = FrameReader::open(&named.path, SegmentKind::Segment)?;
    if reader.opening.sequence == named.sequence && named.sequence > 0 {
        return Ok(reader);
    }
    Err(JournalDamage::new(&named.path, format!("its first frame is {}", reader.opening.sequence)).at(0).into())
}
