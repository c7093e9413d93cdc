//! Where objects are: a folder of the host's, or a bucket that speaks S3.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
    str::FromStr,
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    memory::InMemory,
    path::Path,
    prefix::PrefixStore,
};
use tollhouse_base::{causes::in_full, folder};
use url::Url;

/// How often a bucket is asked again that did not answer, or said that it cannot now: somebody waits for most of what is asked, and is told.
const RETRIES: usize = 2;

/// Blobs by their names.
#[async_trait]
pub trait Bucket: Send + Sync + 'static {
    /// Stores `content` under a name. All of it or nothing is there after a crash.
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()>;

    /// The blob of a name; `None` when there is none.
    async fn get(&self, name: &str) -> io::Result<Option<Bytes>>;

    /// Removes the blob of a name, whether it is there or not.
    async fn delete(&self, name: &str) -> io::Result<()>;

    /// Whether every host that has the store is sure to have the blobs: a folder may be one machine's.
    fn is_everywhere(&self) -> bool {
        false
    }
}

/// Where a host's objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Files of this folder.
    Folder(PathBuf),
    /// A bucket, and what the names in it begin with. Region, endpoint and credentials are those of the environment (`AWS_*`).
    S3 {
        /// Its name.
        bucket: String,
        /// Without slashes at its ends; empty where all of the bucket is the host's.
        prefix: String,
    },
}

/// What is wrong with a place.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// It is not the address of a bucket.
    #[error("`{0}` is not the address of a bucket: say `s3://BUCKET` or `s3://BUCKET/PREFIX`")]
    Address(String),
    /// Where the bucket's server is does not read.
    #[error("`AWS_ENDPOINT` is `{0}`, which is not a URL: say `http://HOST:PORT` or `https://HOST`")]
    Endpoint(String),
    /// Its server has no bucket of this name.
    #[error("the bucket does not exist: make it, or name another one")]
    Missing,
    /// The folder cannot be made, or what the environment says of the bucket cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// It does not answer as a bucket does.
    #[error("the bucket cannot be read: {0}")]
    Unreachable(io::Error),
}

impl FromStr for Place {
    type Err = BucketError;

    fn from_str(address: &str) -> Result<Self, BucketError> {
        let wrong = || BucketError::Address(address.to_owned());
        let (bucket, prefix) = address.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, ""))).ok_or_else(wrong)?;
        let named = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        let prefix = prefix.trim_matches('/');
        if !named(bucket) || !(prefix.is_empty() || prefix.split('/').all(named)) {
            return Err(wrong());
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

/// Objects as a place keeps them: `<first two hex digits>/<name>`.
#[derive(Debug, Clone)]
pub struct Kept {
    blobs: Arc<dyn ObjectStore>,
    is_everywhere: bool,
}

impl Kept {
    /// Takes a place up; the folder is made.
    ///
    /// # Errors
    ///
    /// [`BucketError::Unusable`].
    pub fn at(place: &Place) -> Result<Self, BucketError> {
        let unusable = |error: Error| BucketError::Unusable(error.to_string());
        match place {
            Place::Folder(folder) => {
                folder::make_private(folder).map_err(|error| BucketError::Unusable(format!("{}: {error}", folder.display())))?;
                let files = LocalFileSystem::new_with_prefix(folder).map_err(unusable)?.with_fsync(true);
                Ok(Self { blobs: Arc::new(files), is_everywhere: false })
            }
            Place::S3 { bucket, prefix } => {
                let retry = RetryConfig { max_retries: RETRIES, ..RetryConfig::default() };
                let bucket = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
                for key in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
                    bucket.get_config_value(&key).as_deref().map_or(Ok(()), is_url)?;
                }
                let bucket = bucket.build().map_err(unusable)?;
                Ok(Self { blobs: Arc::new(PrefixStore::new(bucket, prefix.as_str())), is_everywhere: true })
            }
        }
    }

    /// The same, and makes no folder: where none is there, nothing is in it.
    ///
    /// # Errors
    ///
    /// [`BucketError::Unusable`].
    pub fn at_if_there(place: &Place) -> Result<Self, BucketError> {
        match place {
            Place::Folder(folder) if !folder.is_dir() => Ok(Self::in_memory()),
            Place::Folder(_) | Place::S3 { .. } => Self::at(place),
        }
    }

    /// Objects in memory: nothing outlives the value.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { blobs: Arc::new(InMemory::new()), is_everywhere: false }
    }

    /// Whether there is a blob of this name.
    ///
    /// # Errors
    ///
    /// Those of the place.
    pub async fn has(&self, name: &str) -> io::Result<bool> {
        match self.blobs.head(&path(name)?).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Asks for what cannot be there: whether it is a bucket that this host may read.
    ///
    /// # Errors
    ///
    /// [`BucketError::Missing`] and [`BucketError::Unreachable`].
    pub async fn check(&self) -> Result<(), BucketError> {
        let unreachable = |error| BucketError::Unreachable(io::Error::other(error));
        let nothing = path(&"0".repeat(NAME_LENGTH)).map_err(unreachable)?;
        match self.blobs.get(&nothing).await {
            Ok(_) => Ok(()),
            // S3 answers 404 for either, and says in the body which of them.
            Err(Error::NotFound { source, .. }) if in_full(&*source).contains(NO_BUCKET) => Err(BucketError::Missing),
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BucketError::Unreachable(io::Error::other(error))),
        }
    }
}

/// Refuses an endpoint that is not the URL of a server.
fn is_url(endpoint: &str) -> Result<(), BucketError> {
    let url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.map(drop).ok_or_else(|| BucketError::Endpoint(endpoint.to_owned()))
}

/// What S3 calls it where a bucket is not there.
const NO_BUCKET: &str = "NoSuchBucket";

/// Hex digits of a name: 128 random bits.
const NAME_LENGTH: usize = 32;

/// A name that no other object has.
pub(super) fn new_name() -> io::Result<String> {
    let mut random = [0; NAME_LENGTH / 2];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(hex::encode(random))
}

/// Where a blob is. Only names as the host makes them have a place.
fn path(name: &str) -> io::Result<Path> {
    let made_here = name.len() == NAME_LENGTH && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if made_here { Ok(Path::from_iter([&name[..2], name])) } else { Err(ErrorKind::InvalidInput.into()) }
}

#[async_trait]
impl Bucket for Kept {
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()> {
        self.blobs.put(&path(name)?, content.into()).await.map(|_| ()).map_err(io::Error::other)
    }

    async fn get(&self, name: &str) -> io::Result<Option<Bytes>> {
        match self.blobs.get(&path(name)?).await {
            Ok(found) => found.bytes().await.map(Some).map_err(io::Error::other),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    async fn delete(&self, name: &str) -> io::Result<()> {
        match self.blobs.delete(&path(name)?).await {
            Err(error) if !matches!(error, Error::NotFound { .. }) => Err(io::Error::other(error)),
            _ => Ok(()),
        }
    }

    fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }
}
