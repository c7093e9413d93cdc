//! Frames into segments.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use super::{blank::Blank, frame::Frame, link::Link, sector::SECTOR, walk::End};

/// How large the first segment is, in bytes; each is twice the one before, up to the largest.
const FIRST_SEGMENT: u64 = 1024 * 1024;

/// What a writer keeps to.
#[derive(Clone)]
pub(crate) struct WriterSettings {
    /// Bytes of a segment, at most, but for a frame that is longer.
    pub(crate) segment_bytes: u64,
    /// Asked before each sync.
    pub(crate) before_sync: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
}

/// The end of the journal.
pub(crate) struct Writer {
    store: PathBuf,
    settings: WriterSettings,
    segment: File,
    size: u64,
    at: u64,
    /// The last frame's number.
    sequence: u64,
    link: Link,
    /// The number of the last frame that is on disk.
    synced: u64,
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
    pub(crate) fn begin(store: &Path, settings: WriterSettings, sequence: u64, link: Link) -> io::Result<Self> {
        Blank::clear(store)?;
        let blank = Blank::make(store, FIRST_SEGMENT.min(settings.segment_bytes))?;
        let size = blank.size();
        let (segment, path) = blank.name(sequence + 1, link)?;
        let at = SECTOR as u64;
        Ok(Self::new(store, settings, segment, &End { sequence, link, segment: path, at, size, torn: false, synced: sequence, bytes: 0 }))
    }

    /// Goes on where a walk ended: what is behind is zeros.
    pub(crate) fn go_on(store: &Path, settings: WriterSettings, end: &End) -> io::Result<Self> {
        Blank::clear(store)?;
        let segment = OpenOptions::new().read(true).write(true).open(&end.segment)?;
        if end.torn {
            clear(&segment, end.at, end.size)?;
        }
        // What was read may not be on disk: a host that was killed had no time for it.
        segment.sync_all()?;
        Ok(Self::new(store, settings, segment, &End { synced: end.sequence, ..end.clone() }))
    }

    fn new(store: &Path, settings: WriterSettings, segment: File, end: &End) -> Self {
        Self {
            store: store.to_owned(),
            settings,
            segment,
            size: end.size,
            at: end.at,
            sequence: end.sequence,
            link: end.link,
            synced: end.synced,
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
    pub(crate) fn append(&mut self, money: Vec<u8>, rest: Vec<u8>) -> io::Result<()> {
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "a group of commits is longer than a frame");
        let frame = Frame::new(self.sequence + 1, self.synced, self.link, money, rest).ok_or_else(too_long)?;
        let bytes = frame.disk_bytes();
        if self.at + bytes > self.size {
            self.roll(bytes)?;
        }
        self.buffer.clear();
        frame.write(&mut self.buffer);
        self.segment.write_all_at(&self.buffer, self.at)?;
        self.buffer.shrink_to(SECTOR * 2_048);
        self.at += bytes;
        (self.sequence, self.link) = (frame.sequence(), frame.link());
        self.counts.bytes.fetch_add(bytes, Relaxed);
        self.counts.unsynced.store(self.sequence - self.synced, Relaxed);
        if self.at > self.size / 2 && self.next.is_none() {
            self.next = Some(Blank::begin(&self.store, (self.size * 2).min(self.settings.segment_bytes))?);
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

    /// Goes on in a new segment, with room for a frame of so many bytes. The one before is on disk first.
    fn roll(&mut self, frame_bytes: u64) -> io::Result<()> {
        self.sync()?;
        let least = Blank::least(frame_bytes);
        let made = match self.next.take() {
            Some(next) => next.join().map_err(|_| io::Error::other("the thread that makes segments stopped"))??,
            None => Blank::make(&self.store, (self.size * 2).clamp(least, self.settings.segment_bytes.max(least)))?,
        };
        let blank = if made.size() < least { Blank::make(&self.store, least)? } else { made };
        self.size = blank.size();
        (self.segment, _) = blank.name(self.sequence + 1, self.link)?;
        self.at = SECTOR as u64;
        Ok(())
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
