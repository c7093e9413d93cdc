//! Segments that are created before they are needed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use tollhouse_base::fsync_dir;

use super::{
    disk_space::DiskSpace,
    hash_chain::ChainLink,
    segment::{SegmentHeader, SegmentKind},
};

/// The file name of a segment that is not in use yet.
const NEXT: &str = "next.tmp";

/// Number of bytes written at a time.
const CHUNK: usize = 1024 * 1024;

/// A file completely filled with written zeros, so that later writes change neither its length nor its block list.
#[derive(Debug)]
pub(crate) struct ZeroedFile {
    file: File,
    path: PathBuf,
    size: u64,
}

impl ZeroedFile {
    /// Creates a file of `size` bytes and syncs it. On failure the file is removed.
    pub(super) fn make(room: &DiskSpace, size: u64) -> io::Result<Self> {
        room.check(size)?;
        let path = path_in(&room.store);
        let filled = File::create(&path).and_then(|file| {
            write_zeros(&file, 0, size)?;
            file.sync_all()?;
            Ok(file)
        });
        // Report the first error, not one from removing the file.
        let file = filled.inspect_err(|_| _ = fs::remove_file(&path))?;
        Ok(Self { file, path, size })
    }

    /// Creates a file on a separate thread.
    pub(super) fn begin(room: &DiskSpace, size: u64) -> io::Result<JoinHandle<io::Result<Self>>> {
        let room = room.clone();
        std::thread::Builder::new().name("store-ahead".to_owned()).spawn(move || Self::make(&room, size))
    }

    /// Removes a prepared file that was never used.
    pub(crate) fn clear(store: &Path) -> io::Result<()> {
        match fs::remove_file(path_in(store)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Writes the file's header for the frames to come. It is not part of the journal yet.
    pub(super) fn open(&self, sequence: u64, link: ChainLink) -> io::Result<()> {
        let opening = SegmentHeader { kind: SegmentKind::Segment, size: self.size, sequence, link };
        self.file.write_all_at(&opening.sector(), 0)?;
        self.file.sync_all()
    }

    /// Makes the file a segment of the journal by renaming it, and syncs the name.
    pub(super) fn name(self, sequence: u64) -> io::Result<(File, PathBuf)> {
        let path = self.path.with_file_name(SegmentKind::Segment.file_name(sequence));
        fs::rename(&self.path, &path)?;
        fsync_dir::sync_entry(&path)?;
        Ok((self.file, path))
    }
}

fn path_in(store: &Path) -> PathBuf {
    store.join(SegmentKind::Segment.folder()).join(NEXT)
}

/// Overwrites the bytes of a file from `from` to `to` with zeros.
pub(super) fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK];
    for at in (from..to).step_by(CHUNK) {
        file.write_all_at(&zeros[..(to - at).min(CHUNK as u64) as usize], at)?;
    }
    Ok(())
}
