//! Storage for objects: a local folder, or an S3-compatible bucket.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
    str::FromStr,
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    memory::InMemory,
    path::Path,
    prefix::PrefixStore,
};
use tollhouse_base::{error_chain::full_message, fsync_dir};
use url::Url;

/// Number of retries if a bucket does not answer or reports a temporary error. It is small because a caller usually
/// waits and can handle the error.
const RETRIES: usize = 2;

/// Blobs by name.
#[async_trait]
pub trait Bucket: Send + Sync + 'static {
    /// Stores `content` under a name, atomically even if there is a crash.
    async fn put(&self, name: &str, content: Bytes) -> io::Result<()>;

    /// Returns the blob with this name, or `None` if there is none.
    async fn get(&self, name: &str) -> io::Result<Option<Bytes>>;

    /// Removes the blob with this name, if it exists.
    async fn delete(&self, name: &str) -> io::Result<()>;

    /// Returns whether there is a blob with this name.
    async fn has(&self, name: &str) -> io::Result<bool> {
        Ok(self.get(name).await?.is_some())
    }

    /// Returns whether every host that shares the store can access the blobs. A folder may be local to one machine.
    fn is_everywhere(&self) -> bool {
        false
    }
}

/// The location of a host's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketLocation {
    /// Files in this folder.
    Folder(PathBuf),
    /// A bucket. Region, endpoint and credentials come from the environment (`AWS_*`).
    S3 {
        /// The bucket's name.
        bucket: String,
        /// The prefix of all names, without leading or trailing slashes. Empty if the host uses the whole bucket.
        prefix: String,
    },
}

/// The reason that a location is invalid.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// It is not the address of a bucket.
    #[error("`{0}` is not the address of a bucket; write `s3://BUCKET` or `s3://BUCKET/PREFIX`")]
    Address(String),
    /// The endpoint of the bucket's server is malformed.
    #[error("`AWS_ENDPOINT` is `{0}`, which is not a URL; write `http://HOST:PORT` or `https://HOST`")]
    Endpoint(String),
    /// The server has no bucket with this name.
    #[error("the bucket does not exist; create it, or set a different bucket")]
    Missing,
    /// The folder cannot be created, or the environment's settings for the bucket are invalid.
    #[error("{0}")]
    Unusable(String),
    /// The server does not answer like a bucket.
    #[error("the bucket cannot be read: {0}")]
    Unreachable(io::Error),
}

impl FromStr for BucketLocation {
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

/// Objects in a location, stored as `<first two hex digits>/<name>`.
#[derive(Debug, Clone)]
pub struct ObjectLayout {
    blobs: Arc<dyn ObjectStore>,
    is_everywhere: bool,
}

impl ObjectLayout {
    /// Opens a location. Creates the folder if it does not exist.
    pub fn at(position: &BucketLocation) -> Result<Self, BucketError> {
        let unusable = |error: Error| BucketError::Unusable(error.to_string());
        match position {
            BucketLocation::Folder(folder) => {
                fsync_dir::make_private(folder).map_err(|error| BucketError::Unusable(format!("{}: {error}", folder.display())))?;
                let files = LocalFileSystem::new_with_prefix(folder).map_err(unusable)?.with_fsync(true);
                Ok(Self { blobs: Arc::new(files), is_everywhere: false })
            }
            BucketLocation::S3 { bucket, prefix } => {
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

    /// Opens a location without creating the folder. If it does not exist, there are no objects.
    pub fn at_if_there(position: &BucketLocation) -> Result<Self, BucketError> {
        match position {
            BucketLocation::Folder(folder) if !folder.is_dir() => Ok(Self::in_memory()),
            BucketLocation::Folder(_) | BucketLocation::S3 { .. } => Self::at(position),
        }
    }

    /// Returns objects in memory, which are lost when the value is dropped.
    pub fn in_memory() -> Self {
        Self { blobs: Arc::new(InMemory::new()), is_everywhere: false }
    }

    /// Counts the blobs, up to `max`.
    pub async fn count_up_to(&self, max: usize) -> io::Result<usize> {
        let (mut blobs, mut count) = (self.blobs.list(None).take(max), 0);
        while let Some(blob) = blobs.next().await {
            blob.map_err(io::Error::other)?;
            count += 1;
        }
        Ok(count)
    }

    /// Checks that the bucket exists and can be read, by requesting a blob that cannot exist.
    pub async fn check(&self) -> Result<(), BucketError> {
        let unreachable = |error| BucketError::Unreachable(io::Error::other(error));
        let nothing = path(&"0".repeat(NAME_LENGTH)).map_err(unreachable)?;
        match self.blobs.get(&nothing).await {
            Ok(_) => Ok(()),
            // S3 answers 404 for a missing bucket and for a missing blob. Only the body says which.
            Err(Error::NotFound { source, .. }) if full_message(&*source).contains(NO_BUCKET) => Err(BucketError::Missing),
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BucketError::Unreachable(io::Error::other(error))),
        }
    }
}

/// Rejects an endpoint that is not an HTTP URL with a host.
fn is_url(endpoint: &str) -> Result<(), BucketError> {
    let url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.map(drop).ok_or_else(|| BucketError::Endpoint(endpoint.to_owned()))
}

/// S3's error code for a missing bucket.
const NO_BUCKET: &str = "NoSuchBucket";

/// Number of hex digits in a name: 128 random bits.
const NAME_LENGTH: usize = 32;

/// Generates a random name.
pub(super) fn new_name() -> io::Result<String> {
    let mut random = [0; NAME_LENGTH / 2];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(hex::encode(random))
}

/// Returns the path of a blob. Only names generated by the host have one.
fn path(name: &str) -> io::Result<Path> {
    let made_here = name.len() == NAME_LENGTH && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if made_here { Ok(Path::from_iter([&name[..2], name])) } else { Err(ErrorKind::InvalidInput.into()) }
}

#[async_trait]
impl Bucket for ObjectLayout {
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

    async fn has(&self, name: &str) -> io::Result<bool> {
        match self.blobs.head(&path(name)?).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }
}
