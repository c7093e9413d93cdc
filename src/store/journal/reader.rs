//! Reads frames from a file and reports damage.

use std::{
    fs::File,
    io::{BufReader, Seek as _, SeekFrom},
    ops::Range,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::{
    damage::{JournalDamage, JournalError},
    frame::{Frame, FrameHead, HEAD},
    hash_chain::ChainLink,
    part,
    sector::{self, ROOM, SECTOR, Sector, low_bits, sectors},
    segment::{SegmentHeader, SegmentKind},
};

/// Size of the read buffer, in bytes.
const BUFFER: usize = 256 * 1024;

/// The result of reading at one position.
#[derive(Debug)]
pub(super) enum FrameAt {
    /// A frame as it was written.
    Frame(Box<Frame>),
    /// Zeros from here on, for the length of a frame. `begun` says whether part of a frame came before them.
    Zeros { started: bool },
    /// The end of the file.
    End,
}

/// A file of frames that is read from its start.
#[derive(Debug)]
pub(super) struct FrameReader {
    path: PathBuf,
    input: BufReader<File>,
    /// Its length in bytes.
    pub(super) length: u64,
    pub(super) opening: SegmentHeader,
    /// Offset of the next sector.
    at: u64,
}

impl FrameReader {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path, kind: SegmentKind) -> Result<Self, JournalError> {
        let mut reader = Self::before_header(path, SegmentHeader { kind, size: 0, sequence: 0, link: ChainLink::default() })?;
        let first = reader.sector()?;
        let opening = first.and_then(|first| SegmentHeader::read(&first, kind));
        reader.opening = opening.ok_or_else(|| JournalDamage::new(path, "its header is malformed").at(0))?;
        Ok(reader)
    }

    /// Opens a file without reading its header, which can be damaged. Its first frame has the number `sequence`.
    pub(super) fn open_damaged(path: &Path, kind: SegmentKind, sequence: u64) -> Result<Self, JournalError> {
        let mut reader = Self::before_header(path, SegmentHeader { kind, size: 0, sequence, link: ChainLink::default() })?;
        reader.seek(SECTOR as u64)?;
        Ok(reader)
    }

    fn before_header(path: &Path, opening: SegmentHeader) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(JournalError::io(path))?;
        let length = file.metadata().map_err(JournalError::io(path))?.len();
        Ok(Self { path: path.to_owned(), input: BufReader::with_capacity(BUFFER, file), length, opening, at: 0 })
    }

    /// Returns the offset of the next frame, in bytes.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Seeks to the start of a frame.
    pub(super) fn seek(&mut self, at: u64) -> Result<(), JournalError> {
        self.input.seek(SeekFrom::Start(at)).map_err(JournalError::io(&self.path))?;
        self.at = at;
        Ok(())
    }

    /// Reads at the current position. `expected` is the number of the frame that should come.
    pub(super) fn next(&mut self, expected: u64) -> Result<FrameAt, JournalError> {
        let start = self.at;
        let Some(first) = self.sector()? else { return Ok(FrameAt::End) };
        let whole = match sector::read(&first) {
            Sector::Zero => return Ok(FrameAt::Zeros { started: false }),
            Sector::Good { first: true, .. } => true,
            Sector::Good { .. } => return Err(self.damage("a sector from the middle of a frame", start, expected).into()),
            Sector::Bad => false,
        };
        // Use the header of a damaged sector too: most of it may be intact and show what was lost.
        let head = FrameHead::read(&first[SECTOR - ROOM..]).filter(|head| whole || head.sequence == expected);
        let Some(head) = head.filter(|head| self.has_room(start, head)) else {
            let what = if whole { "a frame is longer than its file" } else { "a changed sector" };
            return Err(self.damage(what, start, expected).with_rows(&[], false).into());
        };
        // The sector of a frame in the middle of a segment may belong elsewhere, so report the expected number.
        let number = if self.opening.kind == SegmentKind::Segment { expected } else { head.sequence };
        self.frame(start, head, &first, (whole, number))
    }

    /// Reads on to the end of the file after zeros where frame `expected` does not continue. Returns whether there was
    /// any data, which then belongs to a write that was never confirmed.
    pub(super) fn rest(&mut self, zeros_at: u64, expected: u64) -> Result<bool, JournalError> {
        let mut any = false;
        loop {
            let at = self.at;
            let Some(bytes) = self.sector()? else { return Ok(any) };
            match sector::read(&bytes) {
                Sector::Zero => {}
                Sector::Bad => return Err(self.damage("a changed sector after the last frame", at, expected).into()),
                Sector::Good { first, .. } => {
                    any = true;
                    if !first {
                        continue;
                    }
                    let head = FrameHead::read(&bytes[SECTOR - ROOM..]).filter(|head| head.fits(self.opening.sequence, self.length));
                    let Some(head) = head else {
                        return Err(self.damage("a misplaced sector after the last frame", at, expected).into());
                    };
                    if head.synced >= expected {
                        let what = format!("zeros, where frame {} knows of frames that were on disk", head.sequence);
                        return Err(self.damage(&what, zeros_at, expected).of(expected, head.synced).with_rows(&[], false).into());
                    }
                }
            }
        }
    }

    /// Seeks to the last sector that starts a frame and returns that frame's number, or `None` if there is none.
    pub(super) fn last_frame(&mut self) -> Result<Option<u64>, JournalError> {
        let mut at = self.length / SECTOR as u64 * SECTOR as u64;
        if at != self.length {
            return Err(JournalDamage::new(&self.path, "it ends within a sector").at(at).into());
        }
        while at > SECTOR as u64 {
            at -= SECTOR as u64;
            // Going backward, the buffer would be refilled for every sector.
            let mut bytes = [0; SECTOR];
            self.input.get_ref().read_exact_at(&mut bytes, at).map_err(JournalError::io(&self.path))?;
            match sector::read(&bytes) {
                Sector::Good { first: true, content, .. } => {
                    self.seek(at)?;
                    return Ok(FrameHead::read(content).map(|head| head.sequence));
                }
                Sector::Good { .. } => {}
                Sector::Zero | Sector::Bad => return Err(JournalDamage::new(&self.path, "a changed sector").at(at).into()),
            }
        }
        Ok(None)
    }

    pub(super) fn damage(&self, what: &str, at: u64, sequence: u64) -> JournalDamage {
        JournalDamage::new(&self.path, what).at(at).of(sequence, sequence)
    }

    fn has_room(&self, start: u64, head: &FrameHead) -> bool {
        head.frame_bytes().div_ceil(ROOM as u64).saturating_mul(SECTOR as u64) <= self.length.saturating_sub(start)
    }

    /// Reads the frame whose first sector is `first`. `whole` says whether that sector is intact. `number` is the
    /// frame's number in reports of damage.
    fn frame(&mut self, start: u64, head: FrameHead, first: &[u8; SECTOR], (whole, number): (bool, u64)) -> Result<FrameAt, JournalError> {
        let bytes = usize::try_from(head.frame_bytes()).unwrap_or(usize::MAX);
        let mut content = Vec::with_capacity(sectors(bytes) * ROOM);
        content.extend_from_slice(&first[SECTOR - ROOM..]);
        let mut damaged: Vec<Range<usize>> = if whole { vec![] } else { std::iter::once(0..ROOM).collect() };
        let mut torn = false;
        for position in 1..sectors(bytes) {
            let Some(bytes) = self.sector()? else { return Err(self.damage("the file ends within a frame", start, number).into()) };
            match sector::read(&bytes) {
                Sector::Zero => torn = true,
                Sector::Good { first: false, low, .. } if low == low_bits(head.sequence) => {}
                Sector::Good { .. } | Sector::Bad => damaged.push(position * ROOM..(position + 1) * ROOM),
            }
            content.extend_from_slice(&bytes[SECTOR - ROOM..]);
        }
        content.truncate(bytes);
        if let Some(first) = damaged.first() {
            let at = start + (first.start / ROOM * SECTOR) as u64;
            let (keys, all) = keys_within(&content, &head, &damaged);
            return Err(self.damage("a changed sector", at, number).with_rows(&keys, all).into());
        }
        if torn {
            return Ok(FrameAt::Zeros { started: true });
        }
        let frame = content.get(HEAD..).and_then(|parts| Frame::of(head, parts));
        frame.map(|frame| FrameAt::Frame(Box::new(frame))).ok_or_else(|| self.damage("a malformed frame", start, number).into())
    }

    fn sector(&mut self) -> Result<Option<[u8; SECTOR]>, JournalError> {
        let sector = sector::next(&mut self.input).map_err(|error| JournalError::io(&self.path)(error))?;
        self.at += sector.map_or(0, |_| SECTOR as u64);
        Ok(sector)
    }
}

/// Returns the keys in the damaged bytes of a frame, and whether these are all of them.
fn keys_within(content: &[u8], head: &FrameHead, damaged: &[Range<usize>]) -> (Vec<(u8, Vec<u8>)>, bool) {
    let middle = HEAD.saturating_add(usize::try_from(head.money_bytes).unwrap_or(usize::MAX)).min(content.len());
    let parts = [HEAD.min(middle)..middle, middle..content.len()];
    let mut found = (Vec::new(), true);
    for part in parts {
        let within = |damaged: &Range<usize>| damaged.start.saturating_sub(part.start)..damaged.end.saturating_sub(part.start);
        let damaged: Vec<_> = damaged.iter().map(within).filter(|damaged| !damaged.is_empty()).collect();
        let (keys, all) = part::keys_within(&content[part], &damaged);
        found.0.extend(keys);
        found.1 &= all;
    }
    found
}
