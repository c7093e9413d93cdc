//! A sample of the objects with files of tools, to find out whether a host can read them.

use std::collections::HashSet;

use tollhouse_base::boxed;
use tollhouse_objects::SampledObject;
use tollhouse_store::{Direction, Store, StoreError};

use super::files::FILES;

/// Maximum number of files from each end of the table, which is ordered by the age of their tools.
const SAMPLED: usize = 64;

/// Returns objects with files of the oldest and the newest tools that have any.
///
/// # Errors
///
/// The error of the store. Unreadable rows are left out.
#[boxed]
pub async fn sample_files(store: &dyn Store) -> Result<Vec<SampledObject>, StoreError> {
    let (mut sample, mut names) = (Vec::new(), HashSet::new());
    for end in [Direction::Forward, Direction::Backward] {
        for (key, entry) in FILES.readable(store, &FILES.all(), SAMPLED, end).await? {
            let Some(entry) = entry else { continue };
            let (name, _) = entry.object();
            if names.insert(name.to_owned()) {
                sample.push(SampledObject { name: name.to_owned(), what: format!("the file `{}` of {}", key.1, key.0.0) });
            }
        }
    }
    Ok(sample)
}
