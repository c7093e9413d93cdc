//! Segments made before they are needed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use tollhouse_base::folder;

use super::{
    link::Link,
    room::Room,
    sector::SECTOR,
    segment::{Kind, Opening},
};

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
    /// Makes one of `size` bytes, and has it on disk. Where that fails, nothing of it stays.
    pub(super) fn make(room: &Room, size: u64) -> io::Result<Self> {
        room.check(size)?;
        let path = path_in(&room.store);
        let filled = File::create(&path).and_then(|file| fill(file, size));
        match filled {
            Ok(file) => Ok(Self { file, path, size }),
            Err(error) => {
                // What counts is why it failed.
                _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Makes one on a thread of its own.
    pub(super) fn begin(room: &Room, size: u64) -> io::Result<JoinHandle<io::Result<Self>>> {
        let room = room.clone();
        std::thread::Builder::new().name("store-ahead".to_owned()).spawn(move || Self::make(&room, size))
    }

    /// Forgets one that was not used.
    pub(crate) fn clear(store: &Path) -> io::Result<()> {
        match fs::remove_file(path_in(store)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Has it say which frames come into it. It is none of the journal's segments yet.
    pub(super) fn open(&self, sequence: u64, link: Link) -> io::Result<()> {
        let opening = Opening { kind: Kind::Segment, size: self.size, sequence, link };
        self.file.write_all_at(&opening.sector(), 0)?;
        self.file.sync_all()
    }

    /// Makes it a segment: its name is on disk.
    pub(super) fn name(self, sequence: u64) -> io::Result<(File, PathBuf)> {
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

fn path_in(store: &Path) -> PathBuf {
    store.join(Kind::Segment.folder()).join(NEXT)
}

fn fill(mut file: File, size: u64) -> io::Result<File> {
    let zeros = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let some = left.min(CHUNK as u64) as usize;
        file.write_all(&zeros[..some])?;
        left -= some as u64;
    }
    file.sync_all()?;
    Ok(file)
}
