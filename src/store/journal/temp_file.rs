//! Files that get their final names once they are complete. An incomplete file is removed, so that failed writes do not
//! fill the disk.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use tollhouse_base::fsync_dir;

/// A file that has not got its final name yet.
#[derive(Debug)]
pub(super) struct TempFile {
    file: BufWriter<File>,
    path: PathBuf,
}

impl TempFile {
    /// Creates the temporary file for `path`, and its folder.
    pub(super) fn begin(path: PathBuf) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = BufWriter::new(File::create(name_of(&path))?);
        Ok(Self { file, path })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Syncs the file and gives it its final name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(name_of(&self.path), &self.path)?;
        fsync_dir::sync_entry(&self.path)?;
        // The folder itself may be new.
        self.path.parent().map_or(Ok(()), fsync_dir::sync_entry)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // A finished file no longer has this name. If removal fails, the next start removes it.
        _ = fs::remove_file(name_of(&self.path));
    }
}

/// Returns the name of a file while it is incomplete.
fn name_of(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}
