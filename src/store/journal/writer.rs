//! Writes frames into segments.

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

use super::{
    disk_space::DiskSpace,
    frame::Frame,
    hash_chain::ChainLink,
    sector::SECTOR,
    walk::JournalEnd,
    zeroed_file::{ZeroedFile, write_zeros},
};

/// Size of the first segment, in bytes. Each one is twice as large as the one before, up to the maximum.
const FIRST_SEGMENT: u64 = 1024 * 1024;

#[derive(Clone)]
pub(crate) struct WriterSettings {
    /// Maximum bytes of a segment, unless a single frame is longer.
    pub(crate) segment_bytes: u64,
    /// The disk space for segments.
    pub(crate) room: DiskSpace,
    /// Called before each sync. An error fails the sync.
    pub(crate) before_sync: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
}

/// Why a frame was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// It exceeds the maximum size of a frame. Nothing was written.
    TooLong,
    /// There is no segment for it and none could be created. Nothing was written.
    NoRoom(io::Error),
    /// It is unknown what is on disk.
    Failed(io::Error),
}

/// The end of the journal, to which frames are appended.
pub(crate) struct JournalWriter {
    settings: WriterSettings,
    segment: File,
    size: u64,
    at: u64,
    /// Number of the last frame.
    sequence: u64,
    link: ChainLink,
    /// Number of the last frame that is on disk.
    synced: u64,
    /// The next segment: created, or being created.
    ready: Option<ZeroedFile>,
    next: Option<JoinHandle<io::Result<ZeroedFile>>>,
    buffer: Vec<u8>,
    counts: Arc<WriterCounts>,
}

/// Statistics of the writer.
#[derive(Debug, Default)]
pub(crate) struct WriterCounts {
    /// Number of `fdatasync` calls for commits.
    pub(crate) syncs: AtomicU64,
    /// Bytes of frames written since the last checkpoint.
    pub(crate) bytes: AtomicU64,
    /// Number of frames written but not on disk yet.
    pub(crate) unsynced: AtomicU64,
}

impl JournalWriter {
    /// Begins a journal after `sequence`. `link` is the hash of all frames before.
    pub(crate) fn begin(settings: WriterSettings, sequence: u64, link: ChainLink) -> io::Result<Self> {
        ZeroedFile::clear(&settings.room.store)?;
        let blank = ZeroedFile::make(&settings.room, FIRST_SEGMENT.min(settings.segment_bytes))?;
        let size = blank.size();
        blank.open(sequence + 1, link)?;
        let (segment, path) = blank.name(sequence + 1)?;
        let at = SECTOR as u64;
        Ok(Self::new(settings, segment, &JournalEnd { sequence, link, segment: path, at, size, torn: false, synced: sequence, bytes: 0 }))
    }

    /// Continues where a walk ended. Anything after that point is overwritten with zeros.
    pub(crate) fn next_file(settings: WriterSettings, end: &JournalEnd) -> io::Result<Self> {
        ZeroedFile::clear(&settings.room.store)?;
        let segment = OpenOptions::new().read(true).write(true).open(&end.segment)?;
        if end.torn {
            write_zeros(&segment, end.at, end.size)?;
        }
        // Frames that were read may not be on disk: a host that was killed had no time to sync them.
        segment.sync_all()?;
        Ok(Self::new(settings, segment, &JournalEnd { synced: end.sequence, ..end.clone() }))
    }

    fn new(settings: WriterSettings, segment: File, end: &JournalEnd) -> Self {
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
            counts: Arc::new(WriterCounts { bytes: AtomicU64::new(end.bytes), ..WriterCounts::default() }),
        }
    }

    /// Returns the number of the last frame.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the hashes of all frames.
    pub(crate) fn link(&self) -> ChainLink {
        self.link
    }

    /// Returns the number of the last frame that is on disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    pub(crate) fn counts(&self) -> Arc<WriterCounts> {
        Arc::clone(&self.counts)
    }

    /// Writes a frame without syncing it.
    pub(crate) fn append(&mut self, money: Vec<u8>, rest: Vec<u8>) -> Result<(), WriteError> {
        let frame = Frame::new(self.sequence + 1, self.synced, self.link, money, rest).ok_or(WriteError::TooLong)?;
        let bytes = frame.disk_bytes();
        if self.at + bytes > self.size {
            self.roll(bytes)?;
        }
        self.buffer.clear();
        frame.write(&mut self.buffer);
        self.segment.write_all_at(&self.buffer, self.at).map_err(WriteError::Failed)?;
        self.buffer.shrink_to(SECTOR * 2_048);
        self.at += bytes;
        (self.sequence, self.link) = (frame.sequence(), frame.link());
        self.counts.bytes.fetch_add(bytes, Relaxed);
        self.counts.unsynced.store(self.sequence - self.synced, Relaxed);
        if self.at > self.size / 2 && self.next.is_none() && self.ready.is_none() {
            // If no thread can be started, the segment is created when it is needed.
            self.next = ZeroedFile::begin(&self.settings.room, self.next_bytes()).ok();
        }
        Ok(())
    }

    /// Syncs all frames to disk.
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

    /// Makes room for more frames after the disk was full.
    pub(crate) fn make_room(&mut self) -> io::Result<()> {
        self.settings.room.check(0)?;
        self.ready = Some(self.blank(0)?);
        Ok(())
    }

    /// Starts a new segment with room for a frame of `frame_bytes`. Syncs the previous one first.
    fn roll(&mut self, frame_bytes: u64) -> Result<(), WriteError> {
        self.sync().map_err(WriteError::Failed)?;
        let sequence = self.sequence + 1;
        let blank = self.blank(frame_bytes + SECTOR as u64).map_err(WriteError::NoRoom)?;
        blank.open(sequence, self.link).map_err(WriteError::NoRoom)?;
        let size = blank.size();
        // From here on the segment may have its final name, so nothing may be written to the previous one.
        let (segment, _) = blank.name(sequence).map_err(WriteError::Failed)?;
        (self.segment, self.size, self.at) = (segment, size, SECTOR as u64);
        Ok(())
    }

    /// Returns a segment of at least `least` bytes: the one created ahead, or a new one.
    fn blank(&mut self, least: u64) -> io::Result<ZeroedFile> {
        // If creating it ahead failed, there may be room by now.
        let ahead = self.ready.take().or_else(|| self.next.take().and_then(|next| next.join().ok()?.ok()));
        match ahead.filter(|blank| blank.size() >= least) {
            Some(blank) => Ok(blank),
            None => ZeroedFile::make(&self.settings.room, self.next_bytes().max(least)),
        }
    }

    /// Returns the size of the next segment, unless a frame needs more.
    fn next_bytes(&self) -> u64 {
        (self.size * 2).min(self.settings.segment_bytes)
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            // Otherwise the next process to open the folder could find the file half-written.
            drop(next.join());
        }
    }
}
