//! Files of frames: their names, and the header in their first sector.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Buf as _;

use super::{
    damage::JournalError,
    hash_chain::ChainLink,
    sector::{self, SECTOR, Sector},
};

/// The extension of a segment that could not be read when its money was to be archived.
pub(super) const DAMAGED: &str = "damaged";

/// The purpose of a file of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Segment,
    Checkpoint,
    Archive,
    /// A gap of the archive, which has no frames.
    Gap,
}

impl SegmentKind {
    fn mark(self) -> [u8; 8] {
        *match self {
            Self::Segment => b"thjrnl01",
            Self::Checkpoint => b"thckpt01",
            Self::Archive => b"tharch01",
            Self::Gap => b"tharcg01",
        }
    }

    /// Returns the subfolder of the store for such files, which is their extension too.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Segment => "journal",
            Self::Checkpoint => "checkpoint",
            Self::Archive | Self::Gap => "archive",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Segment | Self::Checkpoint | Self::Archive => self.folder(),
            Self::Gap => "gap",
        }
    }

    pub(super) fn file_name(self, first: u64) -> String {
        format!("{first:020}.{}", self.extension())
    }
}

/// The header of a file, in its first sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) kind: SegmentKind,
    /// Size of the file in bytes, or 0 if it grows. For a gap: number of its last frame.
    pub(super) size: u64,
    /// Number of the first frame. For a checkpoint: of the last frame before it.
    pub(super) sequence: u64,
    /// Hashes of all frames before. For a checkpoint: of those that it includes. For a gap: the chains before and after it.
    pub(super) link: ChainLink,
}

impl SegmentHeader {
    pub(super) fn sector(&self) -> Vec<u8> {
        let mut content = self.kind.mark().to_vec();
        content.extend_from_slice(&self.size.to_be_bytes());
        content.extend_from_slice(&self.sequence.to_be_bytes());
        content.extend_from_slice(&self.link.bytes());
        let mut out = Vec::with_capacity(SECTOR);
        sector::write(&content, self.sequence, &mut out);
        out
    }

    pub(super) fn read(bytes: &[u8; SECTOR], kind: SegmentKind) -> Option<Self> {
        let Sector::Good { first: true, content, .. } = sector::read(bytes) else { return None };
        let mut cut = content;
        (cut.split_off(..8)? == kind.mark()).then_some(())?;
        let opening =
            Self { kind, size: cut.try_get_u64().ok()?, sequence: cut.try_get_u64().ok()?, link: ChainLink::of_bytes(cut.first_chunk()?) };
        // After the highest number no other frame could follow.
        (opening.sequence < u64::MAX).then_some(opening)
    }
}

/// A file identified by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentFile {
    /// The number in its name: its first frame, or the last frame that a checkpoint includes.
    pub(crate) sequence: u64,
    pub(crate) path: PathBuf,
}

impl SegmentFile {
    /// Lists the files of a kind in a store's folder, in order. Returns none if the folder does not exist.
    pub(crate) fn all(store: &Path, kind: SegmentKind) -> io::Result<Vec<Self>> {
        Self::with_extension(&store.join(kind.folder()), kind.extension())
    }

    /// Lists the segments that could not be read when their money was to be archived, in order.
    pub(super) fn damaged(store: &Path) -> io::Result<Vec<Self>> {
        Self::with_extension(&store.join(SegmentKind::Segment.folder()), DAMAGED)
    }

    fn with_extension(folder: &Path, extension: &str) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let is_of_kind = path.extension().is_some_and(|found| found == extension);
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            found.extend(number.filter(|_| is_of_kind).map(|sequence| Self { sequence, path }));
        }
        found.sort_by_key(|named| named.sequence);
        Ok(found)
    }

    /// Lists the files like [`SegmentFile::all`]. Its error names the folder.
    pub(crate) fn list(store: &Path, kind: SegmentKind) -> Result<Vec<Self>, JournalError> {
        Self::all(store, kind).map_err(JournalError::io(&store.join(kind.folder())))
    }
}
