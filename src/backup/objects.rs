//! The contents of files: copied beside the dumps that name them, and given back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde::Serialize;
use tollhouse_objects::{Bucket, Kept, Place, digest};

use super::BackupError;

/// The content of a file, as the entry of the file names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// What it is got by: random, and never used for another content.
    pub name: String,
    /// SHA-256 of the content, in hex, where the entry has it.
    pub sha256: Option<String>,
}

/// What became of the contents that a dump names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Copied now.
    pub copied: usize,
    /// There already.
    pub there: usize,
    /// In a bucket, where they stay.
    pub left: usize,
    /// Where they are to be is nothing, or another content.
    pub missing: Vec<String>,
}

impl Named {
    fn fits(&self, content: &Bytes) -> bool {
        self.sha256.as_ref().is_none_or(|sha256| digest(content) == *sha256)
    }
}

/// Copies contents out of a host's folder, which are not yet in `files`. Those in a bucket stay there.
///
/// # Errors
///
/// A folder that cannot be read or written.
pub async fn bring(place: &Place, files: &Path, named: impl IntoIterator<Item = Named>) -> Result<Copied, BackupError> {
    let mut named = named.into_iter().peekable();
    if let Place::S3 { .. } = place {
        return Ok(Copied { left: named.count(), ..Copied::default() });
    }
    if named.peek().is_none() {
        return Ok(Copied::default());
    }
    copy(place, &Place::Folder(files.to_owned()), files, named).await
}

/// Gives contents back to where a host is to have them.
///
/// # Errors
///
/// A folder or bucket that cannot be read or written.
pub async fn give_back(files: &Path, place: &Place, named: impl IntoIterator<Item = Named>) -> Result<Copied, BackupError> {
    let mut named = named.into_iter().peekable();
    if named.peek().is_none() {
        return Ok(Copied::default());
    }
    if !files.is_dir()
        && let Place::S3 { .. } = place
    {
        // They were left in a bucket.
        return Ok(Copied { left: named.count(), ..Copied::default() });
    }
    copy(&Place::Folder(files.to_owned()), place, files, named).await
}

async fn copy(from: &Place, to: &Place, shown: &Path, named: impl Iterator<Item = Named>) -> Result<Copied, BackupError> {
    let refused = |error: tollhouse_objects::BucketError| BackupError::Io { path: shown.to_owned(), source: std::io::Error::other(error) };
    let (from, to) = (Kept::at_if_there(from).map_err(refused)?, Kept::at(to).map_err(refused)?);
    let mut copied = Copied::default();
    for one in named {
        let io = || BackupError::io(path_of(shown, &one.name));
        // A name is never used for another content: what is there is not copied again, unless it has been damaged since.
        if to.get(&one.name).await.map_err(io())?.is_some_and(|content| one.fits(&content)) {
            copied.there += 1;
            continue;
        }
        let Some(content) = from.get(&one.name).await.map_err(io())?.filter(|content| one.fits(content)) else {
            copied.missing.push(one.name);
            continue;
        };
        to.put(&one.name, content.clone()).await.map_err(io())?;
        if to.get(&one.name).await.map_err(io())?.as_ref() == Some(&content) {
            copied.copied += 1;
        } else {
            copied.missing.push(one.name);
        }
    }
    if copied.copied > 0 {
        fs::File::open(shown).and_then(|folder| folder.sync_all()).map_err(BackupError::io(shown))?;
    }
    Ok(copied)
}

/// As it is told.
fn path_of(shown: &Path, name: &str) -> PathBuf {
    shown.join(name)
}
