//! Gaps of the archive: frames whose money was damaged before it was archived.
//!
//! A repair records each gap with the chains on both sides of it, so that everything around it can still be verified.

use std::{fmt, fs, path::Path};

use tollhouse_base::plural::plural_range;

use super::{
    damage::{JournalDamage, JournalError},
    hash_chain::{ChainLink, Hash},
    segment::{SegmentFile, SegmentHeader, SegmentKind},
    temp_file::TempFile,
};

/// Frames whose money the archive lacks. The rows are in the store, but cannot be compared with their first version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveGap {
    /// The first frame that can be affected.
    pub first: u64,
    /// The last frame that can be affected.
    pub last: u64,
    pub(super) before: Hash,
    pub(super) after: Hash,
}

impl ArchiveGap {
    /// Reads all recorded gaps.
    pub(super) fn all(store: &Path) -> Result<Vec<Self>, JournalError> {
        Self::files(store)?.iter().map(Self::read).collect()
    }

    /// Lists the files of the gaps.
    pub(super) fn files(store: &Path) -> Result<Vec<SegmentFile>, JournalError> {
        let folder = store.join(SegmentKind::Gap.folder());
        SegmentFile::all(store, SegmentKind::Gap).map_err(JournalError::io(&folder))
    }

    fn read(named: &SegmentFile) -> Result<Self, JournalError> {
        let bytes = fs::read(&named.path).map_err(JournalError::io(&named.path))?;
        let header = bytes.first_chunk().and_then(|sector| SegmentHeader::read(sector, SegmentKind::Gap));
        let header = header.filter(|header| header.sequence == named.sequence);
        let SegmentHeader { size: last, sequence: first, link, .. } =
            header.ok_or_else(|| JournalDamage::new(&named.path, "it is malformed").at(0))?;
        Ok(Self { first, last, before: link.chain, after: link.rest })
    }

    /// Records the gap.
    pub(super) fn write(&self, store: &Path) -> Result<(), JournalError> {
        let path = store.join(SegmentKind::Gap.folder()).join(SegmentKind::Gap.file_name(self.first));
        let link = ChainLink { chain: self.before, rest: self.after };
        let header = SegmentHeader { kind: SegmentKind::Gap, size: self.last, sequence: self.first, link };
        let mut file = TempFile::begin(path.clone()).map_err(JournalError::io(&path))?;
        file.write(&header.sector()).and_then(|()| file.finish()).map_err(JournalError::io(&path))
    }
}

impl fmt::Display for ArchiveGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plural_range("frame", self.first, self.last))
    }
}
