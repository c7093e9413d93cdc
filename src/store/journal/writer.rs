//! Frames into segments.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use super::{blank::Blank, frame::Frame, link::Link, room::Room, sector::SECTOR, walk::End};

/// How large the first segment is, in bytes; each is twice the one before, up to the largest.
const FIRST_SEGMENT: u64 = 1024 * 1024;

/// What a writer keeps to.
#[derive(Clone)]
pub(crate) struct WriterSettings {
    /// Bytes of a segment, at most, but for a frame that is longer.
    pub(crate) segment_bytes: u64,
    /// Where segments are made.
    pub(crate) room: Room,
    /// Asked before each sync.
    pub(crate) before_sync: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
}

/// Why a frame was not written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// It is longer than a frame can be. Nothing was written.
    TooLong,
    /// There is no segment for it, and none could be made. Nothing was written.
    NoRoom(io::Error),
    /// Nobody can tell what the disk has.
    Failed(io::Error),
}

/// The end of the journal.
pub(crate) struct Writer {
    settings: WriterSettings,
    segment: File,
    size: u64,
    at: u64,
    /// The last frame's number.
    sequence: u64,
    link: Link,
    /// The number of the last frame that is on disk.
    synced: u64,
    /// The next segment: made, or being made.
    ready: Option<Blank>,
    next: Option<JoinHandle<io::Result<Blank>>>,
    buffer: Vec<u8>,
    counts: Arc<Counts>,
}

/// What others may know of it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// `fdatasync`s of commits.
    pub(crate) syncs: AtomicU64,
    /// Bytes of frames written since the last checkpoint.
    pub(crate) bytes: AtomicU64,
    /// Frames written that are not on disk yet.
    pub(crate) unsynced: AtomicU64,
}

impl Writer {
    /// Begins a journal behind `sequence`, where all before come to `link`.
    pub(crate) fn begin(settings: WriterSettings, sequence: u64, link: Link) -> io::Result<Self> {
        Blank::clear(&settings.room.store)?;
        let blank = Blank::make(&settings.room, FIRST_SEGMENT.min(settings.segment_bytes))?;
        let size = blank.size();
        blank.open(sequence + 1, link)?;
        let (segment, path) = blank.name(sequence + 1)?;
        let at = SECTOR as u64;
        Ok(Self::new(settings, segment, &End { sequence, link, segment: path, at, size, torn: false, synced: sequence, bytes: 0 }))
    }

    /// Goes on where a walk ended: what is behind is zeros.
    pub(crate) fn go_on(settings: WriterSettings, end: &End) -> io::Result<Self> {
        Blank::clear(&settings.room.store)?;
        let segment = OpenOptions::new().read(true).write(true).open(&end.segment)?;
        if end.torn {
            clear(&segment, end.at, end.size)?;
        }
        // What was read may not be on disk: a host that was killed had no time for it.
        segment.sync_all()?;
        Ok(Self::new(settings, segment, &End { synced: end.sequence, ..end.clone() }))
    }

    fn new(settings: WriterSettings, segment: File, end: &End) -> Self {
        Self {
            settings,
            segment,
            size: end.size,
            at: end.at,
            sequence: end.sequence,
            link: end.link,
            synced: end.synced,
            ready: None,
            next: None,
            buffer: Vec::new(),
            counts: Arc::new(Counts { bytes: AtomicU64::new(end.bytes), ..Counts::default() }),
        }
    }

    /// The last frame's number.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// What all frames come to.
    pub(crate) fn link(&self) -> Link {
        self.link
    }

    /// The number of the last frame that is on disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Writes a frame; it is not on disk yet.
    pub(crate) fn append(&mut self, money: Vec<u8>, rest: Vec<u8>) -> Result<(), NotWritten> {
        let frame = Frame::new(self.sequence + 1, self.synced, self.link, money, rest).ok_or(NotWritten::TooLong)?;
        let bytes = frame.disk_bytes();
        if self.at + bytes > self.size {
            self.roll(bytes)?;
        }
        self.buffer.clear();
        frame.write(&mut self.buffer);
        self.segment.write_all_at(&self.buffer, self.at).map_err(NotWritten::Failed)?;
        self.buffer.shrink_to(SECTOR * 2_048);
        self.at += bytes;
        (self.sequence, self.link) = (frame.sequence(), frame.link());
        self.counts.bytes.fetch_add(bytes, Relaxed);
        self.counts.unsynced.store(self.sequence - self.synced, Relaxed);
        if self.at > self.size / 2 && self.next.is_none() && self.ready.is_none() {
            // Where there is no thread for it, it is made once it is needed.
            self.next = Blank::begin(&self.settings.room, self.next_bytes()).ok();
        }
        Ok(())
    }

    /// Puts all frames on disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.synced == self.sequence {
            return Ok(());
        }
        (self.settings.before_sync)()?;
        self.segment.sync_data()?;
        self.counts.syncs.fetch_add(1, Relaxed);
        self.counts.unsynced.store(0, Relaxed);
        self.synced = self.sequence;
        Ok(())
    }

    /// Sees to it that there is room to go on, where there was none.
    pub(crate) fn make_room(&mut self) -> io::Result<()> {
        self.settings.room.check(0)?;
        self.ready = Some(self.blank(0)?);
        Ok(())
    }

    /// Goes on in a new segment, with room for a frame of so many bytes. The one before is on disk first.
    fn roll(&mut self, frame_bytes: u64) -> Result<(), NotWritten> {
        self.sync().map_err(NotWritten::Failed)?;
        let sequence = self.sequence + 1;
        let blank = self.blank(Blank::least(frame_bytes)).map_err(NotWritten::NoRoom)?;
        blank.open(sequence, self.link).map_err(NotWritten::NoRoom)?;
        let size = blank.size();
        // From here on the segment may have its name, and nothing may go into the one before.
        let (segment, _) = blank.name(sequence).map_err(NotWritten::Failed)?;
        (self.segment, self.size, self.at) = (segment, size, SECTOR as u64);
        Ok(())
    }

    /// A segment of at least so many bytes: the one that was made ahead, or one made now.
    fn blank(&mut self, least: u64) -> io::Result<Blank> {
        // Where making it ahead failed, there may be room by now.
        let ahead = self.ready.take().or_else(|| self.next.take().and_then(|next| next.join().ok()?.ok()));
        match ahead.filter(|blank| blank.size() >= least) {
            Some(blank) => Ok(blank),
            None => Blank::make(&self.settings.room, self.next_bytes().max(least)),
        }
    }

    /// How long the next segment is, if no frame is longer.
    fn next_bytes(&self) -> u64 {
        (self.size * 2).min(self.settings.segment_bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            // Whoever opens the folder next may find the file half made else, while it is being written.
            drop(next.join());
        }
    }
}

/// Puts zeros over the torn end of a write.
fn clear(segment: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; SECTOR * 128];
    let mut at = from;
    while at < to {
        let some = (to - at).min(zeros.len() as u64);
        segment.write_all_at(&zeros[..some as usize], at)?;
        at += some;
    }
    Ok(())
}
