//! Where the content of files is kept: a trait, a local folder, and memory.
//!
//! The crate `object_store` was weighed: its local backend alone brings some thirty crates, names
//! files by the caller's paths and does not fsync. Five functions over `tokio::fs` do what is needed;
//! a bucket goes behind the same trait.

use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{fs, io::AsyncWriteExt as _};

/// Blobs by a name that the host makes up.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Stores `content` under a new name and gives the name. All of it or nothing is there after a crash.
    async fn put(&self, content: Bytes) -> io::Result<String>;

    /// The blob called `name`; `None` when there is none.
    async fn get(&self, name: &str) -> io::Result<Option<Bytes>>;

    /// Removes the blob called `name`, whether it is there or not.
    async fn delete(&self, name: &str) -> io::Result<()>;
}

/// Blobs as files of one folder: `<root>/<first two hex digits>/<name>`.
#[derive(Debug)]
pub struct FolderObjects {
    root: PathBuf,
}

impl FolderObjects {
    /// Uses `root`, which is made when the first blob comes.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where a blob is. Only names as [`Objects::put`] makes them have a place.
    fn place(&self, name: &str) -> io::Result<PathBuf> {
        let made_here = name.len() == NAME_LENGTH && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if made_here { Ok(self.root.join(&name[..2]).join(name)) } else { Err(ErrorKind::InvalidInput.into()) }
    }
}

/// Hex digits of a name: 128 random bits.
const NAME_LENGTH: usize = 32;

fn new_name() -> io::Result<String> {
    let mut random = [0; NAME_LENGTH / 2];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(hex::encode(random))
}

/// Blobs in memory: nothing outlives the value.
#[derive(Debug, Default)]
pub(super) struct MemoryObjects(Mutex<HashMap<String, Bytes>>);

impl MemoryObjects {
    fn blobs(&self) -> MutexGuard<'_, HashMap<String, Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Objects for MemoryObjects {
    async fn put(&self, content: Bytes) -> io::Result<String> {
        let name = new_name()?;
        self.blobs().insert(name.clone(), content);
        Ok(name)
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        Ok(self.blobs().get(name).cloned())
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        self.blobs().remove(name);
        Ok(())
    }
}

#[async_trait]
impl Objects for FolderObjects {
    async fn put(&self, content: Bytes) -> io::Result<String> {
        let name = new_name()?;
        let place = self.place(&name)?;
        let folder = place.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).await?;
        let unfinished = Unfinished(place.with_extension("part"));
        write_synced(&unfinished.0, &content).await?;
        fs::rename(&unfinished.0, &place).await?;
        Ok(name)
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        match fs::read(self.place(name)?).await {
            Ok(content) => Ok(Some(content.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.place(name)?).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

async fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path).await?;
    file.write_all(content).await?;
    file.sync_data().await
}

/// A file that goes away unless it was renamed: its write can fail, or be cut short with the call.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blobs_come_back_until_they_are_deleted() {
        let root = tempfile::tempdir().unwrap();
        come_back_until_deleted(&FolderObjects::new(root.path().join("objects"))).await;
        come_back_until_deleted(&MemoryObjects::default()).await;
    }

    async fn come_back_until_deleted(objects: &dyn Objects) {
        let name = objects.put(Bytes::from_static(b"hello")).await.unwrap();
        let other = objects.put(Bytes::from_static(b"hello")).await.unwrap();
        assert_ne!(name, other);
        assert_eq!(objects.get(&name).await.unwrap().unwrap(), "hello");
        objects.delete(&name).await.unwrap();
        objects.delete(&name).await.unwrap();
        assert_eq!(objects.get(&name).await.unwrap(), None);
        assert_eq!(objects.get(&other).await.unwrap().unwrap(), "hello");
    }

    #[tokio::test]
    async fn a_blob_that_cannot_be_reached_is_not_told_as_absent() {
        let root = tempfile::tempdir().unwrap();
        let objects = FolderObjects::new(root.path());
        let name = objects.put(Bytes::from_static(b"hello")).await.unwrap();
        let place = objects.place(&name).unwrap();
        std::fs::remove_file(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        assert_eq!(objects.get(&name).await.unwrap_err().kind(), ErrorKind::IsADirectory);
        assert!(objects.delete(&name).await.is_err());
    }

    #[test]
    fn a_write_that_is_cut_short_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let part = root.path().join("blob.part");
        std::fs::write(&part, "half a bl").unwrap();
        drop(Unfinished(part.clone()));
        assert!(!part.exists());
    }

    #[tokio::test]
    async fn names_not_made_here_have_no_place() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("secret"), "x").unwrap();
        let objects = FolderObjects::new(root.path().join("objects"));
        for name in ["../secret", "/etc/passwd", "", "ab", "ABCDEF00000000000000000000000000", "0000000000000000000000000000/../"] {
            assert_eq!(objects.get(name).await.unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
    }
}
