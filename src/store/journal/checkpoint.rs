//! Checkpoints: all rows, so that no earlier frame is needed.
//!
//! A checkpoint is read from the tree while others write to it. Some rows are as they were when the walk began, others
//! as they were when it ended. That is correct, because a frame contains the values after it, and all frames after the
//! checkpoint's own number are applied to it. A checkpoint is consistent from the number at which the walk ended.
//!
//! Its last frame has no rows. It contains the totals at the checkpoint's own number and those of its rows.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    damage::{JournalDamage, JournalError},
    frame::Frame,
    hash_chain::ChainLink,
    part::{FramePart, RowPart},
    reader::{FrameAt, FrameReader},
    segment::{SegmentFile, SegmentHeader, SegmentKind},
    temp_file::TempFile,
    total::{RowWeight, SpaceTotals},
};

/// Approximate bytes of rows in a frame.
const FRAME_BYTES: usize = 256 * 1024;

/// A checkpoint that is being written.
#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    file: TempFile,
    frames: u64,
    link: ChainLink,
    rows: Vec<RowPart>,
    row_bytes: usize,
    totals: SpaceTotals,
    buffer: Vec<u8>,
}

impl CheckpointWriter {
    /// Begins a checkpoint of all frames up to `sequence`, whose hash is `link`.
    pub(crate) fn begin(store: &Path, sequence: u64, link: ChainLink) -> io::Result<Self> {
        let path = store.join(SegmentKind::Checkpoint.folder()).join(SegmentKind::Checkpoint.file_name(sequence));
        let mut file = TempFile::begin(path)?;
        file.write(&SegmentHeader { kind: SegmentKind::Checkpoint, size: 0, sequence, link }.sector())?;
        let (link, totals) = (ChainLink::default(), SpaceTotals::default());
        Ok(Self { file, frames: 0, link, rows: vec![], row_bytes: 0, totals, buffer: Vec::new() })
    }

    /// Adds a row of a space, or of other data that the tree keeps.
    pub(crate) fn add(&mut self, space: u8, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        self.totals.change(space, None, Some(RowWeight::of_row(space, &key, &value)));
        self.row_bytes += key.len() + value.len();
        self.rows.push(RowPart { space, key, value: Some(value) });
        if self.row_bytes < FRAME_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Completes the checkpoint, syncs it and gives it its name. `until` is the number at which the walk ended, and all
    /// frames up to it must be on disk. `totals` are those at the number at which it began.
    pub(crate) fn finish(mut self, until: u64, totals: &SpaceTotals) -> io::Result<()> {
        self.flush()?;
        let [then, within] = [totals, &self.totals].map(|totals| FramePart { totals: totals.listed(), ..FramePart::default() });
        self.frame(until, &then, &within)?;
        self.file.finish()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.row_bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        self.frame(0, &FramePart::default(), &FramePart { rows, ..FramePart::default() })
    }

    fn frame(&mut self, synced: u64, then: &FramePart, within: &FramePart) -> io::Result<()> {
        let frame = Frame::new(self.frames + 1, synced, self.link, then.bytes(), within.bytes());
        let frame = frame.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "a row is longer than a frame"))?;
        (self.frames, self.link) = (frame.sequence(), frame.link());
        self.buffer.clear();
        frame.write(&mut self.buffer);
        self.file.write(&self.buffer)
    }
}

/// A part of a checkpoint.
#[derive(Debug)]
pub(crate) enum CheckpointItem {
    Rows(Vec<RowPart>),
    End {
        /// The number from which the checkpoint is consistent.
        until: u64,
        /// The totals at the checkpoint's own number.
        totals: Box<SpaceTotals>,
    },
}

/// A checkpoint that is being read.
#[derive(Debug)]
pub(crate) struct CheckpointReader {
    path: PathBuf,
    reader: FrameReader,
    /// The number of the last frame that it includes.
    pub(crate) sequence: u64,
    pub(crate) link: ChainLink,
    frames: u64,
    frames_link: ChainLink,
    found: SpaceTotals,
}

impl CheckpointReader {
    /// Opens the newest checkpoint, if there is one.
    pub(crate) fn newest(store: &Path) -> Result<Option<Self>, JournalError> {
        SegmentFile::list(store, SegmentKind::Checkpoint)?.pop().map(|newest| Self::open(&newest)).transpose()
    }

    pub(crate) fn open(named: &SegmentFile) -> Result<Self, JournalError> {
        let reader = FrameReader::open(&named.path, SegmentKind::Checkpoint)?;
        let (sequence, link) = (reader.opening.sequence, reader.opening.link);
        if sequence != named.sequence {
            return Err(JournalDamage::new(&named.path, format!("it belongs to frame {sequence}")).at(0).into());
        }
        let (path, frames_link, found) = (named.path.clone(), ChainLink::default(), SpaceTotals::default());
        Ok(Self { path, reader, sequence, link, frames: 0, frames_link, found })
    }

    /// Returns the next part of the checkpoint.
    pub(crate) fn next(&mut self) -> Result<CheckpointItem, JournalError> {
        let (then, part, until) = self.part()?;
        for RowPart { space, key, value } in &part.rows {
            let weight = value.as_ref().map(|value| RowWeight::of_row(*space, key, value));
            self.found.change(*space, None, weight);
        }
        if !part.rows.is_empty() {
            return Ok(CheckpointItem::Rows(part.rows));
        }
        let [totals, within] = [then, part].map(|part| SpaceTotals::from(part.totals));
        if within != self.found {
            return Err(self.damage("its rows do not match the totals at its end").into());
        }
        Ok(CheckpointItem::End { until, totals: Box::new(totals) })
    }

    fn part(&mut self) -> Result<(FramePart, FramePart, u64), JournalError> {
        let (expected, at) = (self.frames + 1, self.reader.at());
        let FrameAt::Frame(frame) = self.reader.next(expected)? else { return Err(self.damage("it ends too early").at(at).into()) };
        if frame.head.sequence != expected || frame.head.link != self.frames_link {
            return Err(self.damage("a part does not follow from those before it").at(at).into());
        }
        (self.frames, self.frames_link) = (expected, frame.link());
        let [then, part] = frame.parts().ok_or_else(|| self.damage("a part of no form").at(at))?;
        Ok((then, part, frame.head.synced))
    }

    fn damage(&self, what: &str) -> JournalDamage {
        JournalDamage::new(&self.path, what)
    }
}
