//! Files that get their names once they are whole. What is not finished goes: a full disk is not filled by what failed on it.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use tollhouse_base::folder;

/// A file on its way to its name.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Unfinished {
    /// Begins the file that will be at `path`, and makes the folder for it.
    pub(super) fn begin(path: PathBuf) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = BufWriter::new(File::create(name_of(&path))?);
        Ok(Self { file, path })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Has it on disk, under its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(name_of(&self.path), &self.path)?;
        folder::sync_entry(&self.path)?;
        // The folder itself may be new.
        self.path.parent().map_or(Ok(()), folder::sync_entry)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // One that is finished is no longer there; one that stays is removed at the next start.
        _ = fs::remove_file(name_of(&self.path));
    }
}

/// What a file is called until it is whole.
fn name_of(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}
