//! Frames out of a file, and what is wrong where they do not come.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Seek as _, SeekFrom},
    ops::Range,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::{
    damage::{Damage, JournalError},
    frame::{Frame, HEAD, Head},
    part,
    sector::{self, ROOM, SECTOR, Sector, low_bits, sectors},
    segment::{Kind, Opening},
};

/// Bytes read at once.
const BUFFER: usize = 256 * 1024;

/// What lies at a place.
#[derive(Debug)]
pub(super) enum Found {
    /// A frame, as it was written.
    Frame(Box<Frame>),
    /// Zeros from here on, as far as one frame goes. Whether a frame had begun before them.
    Zeros { begun: bool },
    /// The file's last byte was read.
    End,
}

/// A file of frames, read from its start.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    /// How long it is.
    pub(super) length: u64,
    pub(super) opening: Opening,
    /// Where the next sector is.
    at: u64,
}

impl Reader {
    /// Opens a file and reads what it says of itself.
    pub(super) fn open(path: &Path, kind: Kind) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(JournalError::io(path))?;
        let length = file.metadata().map_err(JournalError::io(path))?.len();
        let mut input = BufReader::with_capacity(BUFFER, file);
        let mut first = [0; SECTOR];
        let opening = match input.read_exact(&mut first) {
            Ok(()) => Opening::read(&first, kind),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(JournalError::io(path)(error)),
        };
        let opening = opening.ok_or_else(|| Damage::new(path, "it does not say what it is").at(0))?;
        Ok(Self { path: path.to_owned(), input, length, opening, at: SECTOR as u64 })
    }

    /// Where the next frame is, in bytes.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Goes to where a frame starts.
    pub(super) fn go_to(&mut self, at: u64) -> Result<(), JournalError> {
        self.input.seek(SeekFrom::Start(at)).map_err(JournalError::io(&self.path))?;
        self.at = at;
        Ok(())
    }

    /// What comes next; `expected` is the number of the frame that should.
    pub(super) fn next(&mut self, expected: u64) -> Result<Found, JournalError> {
        let start = self.at;
        let Some(first) = self.sector()? else { return Ok(Found::End) };
        let whole = match sector::read(&first) {
            Sector::Zero => return Ok(Found::Zeros { begun: false }),
            Sector::Good { first: true, .. } => true,
            Sector::Good { .. } => return Err(self.damage("a frame starts in its middle", start, expected).into()),
            Sector::Bad => false,
        };
        // Also where it was changed: most of it may still say what is damaged.
        let head = Head::read(&first[SECTOR - ROOM..]).filter(|head| whole || head.sequence == expected);
        let Some(head) = head.filter(|head| self.has_room(start, head)) else {
            let what = if whole { "a frame is longer than its file" } else { "a changed sector" };
            return Err(self.damage(what, start, expected).with_rows(&[], false).into());
        };
        // What a segment says of a frame in its middle may be of another place.
        let number = if self.opening.kind == Kind::Segment { expected } else { head.sequence };
        self.frame(start, head, &first, (whole, number))
    }

    /// Reads on to the file's end, behind zeros at which the frame `expected` does not go on. Whether anything was there, that
    /// nobody was told of.
    pub(super) fn rest(&mut self, zeros_at: u64, expected: u64) -> Result<bool, JournalError> {
        let mut any = false;
        loop {
            let at = self.at;
            let Some(bytes) = self.sector()? else { return Ok(any) };
            match sector::read(&bytes) {
                Sector::Zero => {}
                Sector::Bad => return Err(self.damage("a changed sector behind the last frame", at, expected).into()),
                Sector::Good { first, .. } => {
                    any = true;
                    if !first {
                        continue;
                    }
                    let head = Head::read(&bytes[SECTOR - ROOM..]).filter(|head| head.fits(self.opening.sequence, self.length));
                    let Some(head) = head else {
                        return Err(self.damage("a sector behind the last frame that is not of this place", at, expected).into());
                    };
                    if head.synced >= expected {
                        let what = format!("zeros, where frame {} knows of frames that were on disk", head.sequence);
                        return Err(self.damage(&what, zeros_at, expected).of(expected, head.synced).with_rows(&[], false).into());
                    }
                }
            }
        }
    }

    /// Goes to the last sector with which a frame starts; answers that frame's number. `None` where the file has none.
    pub(super) fn last_frame(&mut self) -> Result<Option<u64>, JournalError> {
        let mut at = self.length / SECTOR as u64 * SECTOR as u64;
        if at != self.length {
            return Err(Damage::new(&self.path, "it ends within a sector").at(at).into());
        }
        while at > SECTOR as u64 {
            at -= SECTOR as u64;
            // Backwards a buffer would be filled anew for each of them.
            let mut bytes = [0; SECTOR];
            self.input.get_ref().read_exact_at(&mut bytes, at).map_err(JournalError::io(&self.path))?;
            match sector::read(&bytes) {
                Sector::Good { first: true, content, .. } => {
                    self.go_to(at)?;
                    return Ok(Head::read(content).map(|head| head.sequence));
                }
                Sector::Good { .. } => {}
                Sector::Zero | Sector::Bad => return Err(Damage::new(&self.path, "a changed sector").at(at).into()),
            }
        }
        Ok(None)
    }

    pub(super) fn damage(&self, what: &str, at: u64, sequence: u64) -> Damage {
        Damage::new(&self.path, what).at(at).of(sequence, sequence)
    }

    fn has_room(&self, start: u64, head: &Head) -> bool {
        head.frame_bytes().div_ceil(ROOM as u64).saturating_mul(SECTOR as u64) <= self.length.saturating_sub(start)
    }

    /// Reads the frame whose first sector is `first`, which is `whole` or damaged; `number` is that of the frame in what is said of damage.
    fn frame(&mut self, start: u64, head: Head, first: &[u8; SECTOR], (whole, number): (bool, u64)) -> Result<Found, JournalError> {
        let bytes = usize::try_from(head.frame_bytes()).unwrap_or(usize::MAX);
        let mut content = Vec::with_capacity(sectors(bytes) * ROOM);
        content.extend_from_slice(&first[SECTOR - ROOM..]);
        let mut damaged: Vec<Range<usize>> = if whole { vec![] } else { std::iter::once(0..ROOM).collect() };
        let mut torn = false;
        for place in 1..sectors(bytes) {
            let Some(bytes) = self.sector()? else { return Err(self.damage("the file ends within a frame", start, number).into()) };
            match sector::read(&bytes) {
                Sector::Zero => torn = true,
                Sector::Good { first: false, low, .. } if low == low_bits(head.sequence) => {}
                Sector::Good { .. } | Sector::Bad => damaged.push(place * ROOM..(place + 1) * ROOM),
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
            return Ok(Found::Zeros { begun: true });
        }
        let frame = content.get(HEAD..).and_then(|parts| Frame::of(head, parts));
        frame.map(|frame| Found::Frame(Box::new(frame))).ok_or_else(|| self.damage("a frame of no form", start, number).into())
    }

    fn sector(&mut self) -> Result<Option<[u8; SECTOR]>, JournalError> {
        let mut sector = [0; SECTOR];
        match self.input.read_exact(&mut sector) {
            Ok(()) => {
                self.at += SECTOR as u64;
                Ok(Some(sector))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(JournalError::io(&self.path)(error)),
        }
    }
}

/// The keys in damaged bytes of a frame; whether these are all.
fn keys_within(content: &[u8], head: &Head, damaged: &[Range<usize>]) -> (Vec<(u8, Vec<u8>)>, bool) {
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
