//! Looks for a sample of the objects that rows name, to find out whether a host can read the objects of its store.

use std::io;

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

    /// Keeps the missing objects that an earlier report lists too. A row may have been replaced or deleted, with its object, just after it
    /// was sampled.
    #[must_use]
    pub fn confirmed_by(mut self, earlier: &Self) -> Self {
        self.missing.retain(|object| earlier.missing.contains(object));
        self
    }
}
