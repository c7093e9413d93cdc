//! Looks for a sample of the objects that rows name, to find out whether a host can read the objects of its store.

use std::{future::Future, io};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::Bucket;

/// Maximum number of concurrent look-ups.
const LOOKUPS: usize = 16;

/// An object that a row names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledObject {
    /// Its name.
    pub name: String,
    /// Its content, in words, for operators.
    pub what: String,
}

/// The result of looking for a sample of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleReport {
    /// Number of objects in the sample.
    pub checked: usize,
    /// Those that are not there.
    pub missing: Vec<SampledObject>,
}

impl SampleReport {
    /// Looks for each object of a sample in a bucket. Stops at the first error, because the others would fail too.
    ///
    /// # Errors
    ///
    /// The bucket cannot be read.
    pub async fn of(bucket: &dyn Bucket, sample: Vec<SampledObject>) -> io::Result<Self> {
        let checked = sample.len();
        let look_up = move |object: SampledObject| async move {
            let is_there = bucket.has(&object.name).await?;
            Ok::<_, io::Error>(if is_there { None } else { Some(object) })
        };
        let found: Vec<_> = stream::iter(sample).map(look_up).buffered(LOOKUPS).try_collect().await?;
        Ok(Self { checked, missing: found.into_iter().flatten().collect() })
    }

    /// Looks a second time if objects are missing, and reports those that are missing both times. A row may have been replaced or
    /// deleted, with its object, just after it was sampled.
    ///
    /// # Errors
    ///
    /// Those of `look`.
    pub async fn confirmed<Look: Future<Output = io::Result<Self>>>(look: impl Fn() -> Look) -> io::Result<Self> {
        let first = look().await?;
        if first.missing.is_empty() {
            return Ok(first);
        }
        let mut second = look().await?;
        second.missing.retain(|object| first.missing.contains(object));
        Ok(second)
    }
}
