//! A sample of the objects with sources, to find out whether a host can read them. The work is the same however many tools there are.

use std::collections::HashSet;

use tollhouse_base::boxed;
use tollhouse_objects::SampledObject;
use tollhouse_store::{Store, StoreError};

use super::{
    Catalog, EndpointFilter, Order,
    entry::ENDPOINTS,
    seed_tools,
    source::{VERSIONS, VersionRow},
};

/// Maximum number of recent tools in a sample.
const RECENT: usize = 64;
/// Maximum number of versions in a sample, besides those of named tools. A version is named by a hash, so the first ones are a
/// random sample.
const VERSIONS_SAMPLED: usize = 128;
/// Versions per page. Small, because sources may be large.
const PAGE: usize = 16;

impl Catalog {
    /// Returns objects with the sources of the built-in tools, of the most recent tools, and of some other versions.
    pub async fn sample_sources(&self) -> Result<Vec<SampledObject>, StoreError> {
        let (all, filter) = (self.all(), EndpointFilter::default());
        let recent: Vec<_> = all.filtered(&filter, Some(Order::Newest), None).take(RECENT).map(|entry| entry.slug.to_string()).collect();
        sample_sources(&*self.store, recent).await
    }
}

/// Returns objects with the sources of the built-in tools, of these tools, and of some other versions.
///
/// # Errors
///
/// The error of the store. Unreadable rows are left out.
#[boxed]
pub async fn sample_sources(store: &dyn Store, tools: Vec<String>) -> Result<Vec<SampledObject>, StoreError> {
    let mut sample = Vec::new();
    let mut add = |row: &VersionRow, what: String| {
        sample.extend(row.object_name().map(|name| SampledObject { name: name.to_owned(), what }));
    };
    for slug in seed_tools::names().map(str::to_owned).chain(tools) {
        let found = ENDPOINTS.found(store, &slug).await?;
        let Some(Ok(endpoint)) = found.map(|found| ENDPOINTS.read(found)) else { continue };
        let found = VERSIONS.found(store, &endpoint.value.version).await?;
        let Some(Ok(version)) = found.map(|found| VERSIONS.read(found)) else { continue };
        add(&version.value, format!("the source of the tool `{slug}`"));
    }
    let (mut range, mut seen) = (VERSIONS.all(), 0);
    while seen < VERSIONS_SAMPLED
        && let Some(page) = VERSIONS.next(store, &mut range, PAGE).await?
    {
        seen += page.len();
        page.into_iter().flatten().for_each(|row| add(&row.value, format!("the source of version {}", row.key)));
    }
    let mut names = HashSet::new();
    sample.retain(|object: &SampledObject| names.insert(object.name.clone()));
    Ok(sample)
}
