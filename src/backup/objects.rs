//! Objects in backups: copied next to the dumps that name them, and restored.

use std::{fs, path::Path};

use bytes::Bytes;
use serde::Serialize;
use tollhouse_objects::{Bucket, BucketLocation, ObjectLayout, digest};

use super::BackupError;

/// An object, as a file's entry names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedObject {
    /// Its name: random, and never reused for other content.
    pub name: String,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

/// The result of copying the objects that a dump names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// Number of objects copied now.
    pub copied: usize,
    /// Number of objects that were already there.
    pub there: usize,
    /// Number of objects left in a bucket.
    #[serde(rename = "left")]
    pub remaining: usize,
    /// Objects that are missing or have other content.
    pub missing: Vec<String>,
}

impl NamedObject {
    fn fits(&self, content: &Bytes) -> bool {
        digest(content) == self.sha256
    }
}

/// Copies objects from a host's folder that are not yet in `files`. Objects in a bucket stay there.
pub async fn copy_in(
    position: &BucketLocation,
    files: &Path,
    named: impl IntoIterator<Item = NamedObject>,
) -> Result<CopyReport, BackupError> {
    let stay = matches!(position, BucketLocation::S3 { .. });
    copy(position, &BucketLocation::Folder(files.to_owned()), files, named, stay).await
}

/// Restores objects to a host's storage.
pub async fn copy_back(
    files: &Path,
    position: &BucketLocation,
    named: impl IntoIterator<Item = NamedObject>,
) -> Result<CopyReport, BackupError> {
    // Without a folder, the objects were left in the bucket.
    let stay = !files.is_dir() && matches!(position, BucketLocation::S3 { .. });
    copy(&BucketLocation::Folder(files.to_owned()), position, files, named, stay).await
}

async fn copy(
    from: &BucketLocation,
    to: &BucketLocation,
    shown: &Path,
    named: impl IntoIterator<Item = NamedObject>,
    stay: bool,
) -> Result<CopyReport, BackupError> {
    let mut named = named.into_iter().peekable();
    if stay || named.peek().is_none() {
        return Ok(CopyReport { remaining: named.count(), ..CopyReport::default() });
    }
    let refused = |error: tollhouse_objects::BucketError| BackupError::Io { path: shown.to_owned(), source: std::io::Error::other(error) };
    let (from, to) = (ObjectLayout::at_if_there(from).map_err(refused)?, ObjectLayout::at(to).map_err(refused)?);
    let mut copied = CopyReport::default();
    for one in named {
        let io = || BackupError::io(shown.join(&one.name));
        // A name is never reused for other content, so an existing object is copied again only if it is damaged.
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
