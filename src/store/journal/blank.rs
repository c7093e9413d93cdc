//! Segments made before they are needed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use super::{
    sector::SECTOR,
    segment::{Kind, Opening},
};
use crate::base::folder;

/// What a segment is called until it is one.
const NEXT: &str = "next.tmp";

/// Bytes written at once.
const CHUNK: usize = 1024 * 1024;

/// A file of zeros, each of which was written: that no later write changes its length or its list of blocks.
#[derive(Debug)]
pub(crate) struct Blank {
    file: File,
    path: PathBuf,
    size: u64,
}

impl Blank {
    /// Makes one of `size` bytes, and has it on disk.
    pub(crate) fn make(store: &Path, size: u64) -> io::Result<Self> {
        let path = store.join(Kind::Segment.folder()).join(NEXT);
        let mut file = File::create(&path)?;
        let zeros = vec![0; CHUNK];
        let mut left = size;
        while left > 0 {
            let some = left.min(CHUNK as u64) as usize;
            file.write_all(&zeros[..some])?;
            left -= some as u64;
        }
        file.sync_all()?;
        Ok(Self { file, path, size })
    }

    /// Makes one on a thread of its own.
    pub(super) fn begin(store: &Path, size: u64) -> io::Result<JoinHandle<io::Result<Self>>> {
        let store = store.to_owned();
        std::thread::Builder::new().name("store-ahead".to_owned()).spawn(move || Self::make(&store, size))
    }

    /// Forgets one that was not used.
    pub(crate) fn clear(store: &Path) -> io::Result<()> {
        match fs::remove_file(store.join(Kind::Segment.folder()).join(NEXT)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Makes it a segment: its first sector and its name are on disk.
    pub(crate) fn name(self, sequence: u64, link: super::Link) -> io::Result<(File, PathBuf)> {
        let opening = Opening { kind: Kind::Segment, size: self.size, sequence, link };
        std::os::unix::fs::FileExt::write_all_at(&self.file, &opening.sector(), 0)?;
        self.file.sync_all()?;
        let path = self.path.with_file_name(Kind::Segment.file_name(sequence));
        fs::rename(&self.path, &path)?;
        folder::sync_entry(&path)?;
        Ok((self.file, path))
    }

    /// The least that a segment is.
    pub(super) fn least(frame_bytes: u64) -> u64 {
        frame_bytes + SECTOR as u64
    }
}
