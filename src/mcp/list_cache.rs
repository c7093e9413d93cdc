//! A cache of `tools/list` pages that are the same for everyone.

use std::time::Duration;

use axum::body::Bytes;
use moka::sync::Cache;

use super::revision::Era;

/// Maximum bytes of cached pages.
const MAX_BYTES: u64 = 8 << 20;

/// Bytes of a page beyond its result: its cursor and its map entry.
const OVERHEAD_BYTES: usize = 512;

/// How long a page is cached while nothing changes.
const FRESH: Duration = Duration::from_secs(1);

/// The change count of the catalog, the era and the cursor. The first page has no cursor.
type PageKey = (u64, Era, Option<String>);

/// The serialized results.
#[derive(Debug)]
pub(super) struct ListCache(Cache<PageKey, Bytes>);

impl Default for ListCache {
    fn default() -> Self {
        let bytes = |_: &PageKey, result: &Bytes| u32::try_from(result.len() + OVERHEAD_BYTES).unwrap_or(u32::MAX);
        Self(Cache::builder().weigher(bytes).max_capacity(MAX_BYTES).time_to_live(FRESH).build())
    }
}

impl ListCache {
    /// Returns the cached result with this page, for the change count `at`.
    pub(super) fn get(&self, at: u64, era: Era, cursor: Option<&str>) -> Option<Bytes> {
        self.0.get(&(at, era, cursor.map(str::to_owned)))
    }

    pub(super) fn insert(&self, at: u64, era: Era, cursor: Option<&str>, result: Bytes) {
        self.0.insert((at, era, cursor.map(str::to_owned)), result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Bytes {
        Bytes::from(vec![b' '; bytes])
    }

    #[test]
    fn a_page_is_cached_until_the_catalog_changes() {
        let cache = ListCache::default();
        cache.insert(1, Era::Modern, None, page(3));
        assert_eq!(cache.get(1, Era::Modern, None), Some(page(3)));
        assert_eq!(cache.get(1, Era::Legacy, None), None);
        assert_eq!((cache.get(1, Era::Modern, Some("next")), cache.get(1, Era::Modern, Some(""))), (None, None));
        assert_eq!(cache.get(2, Era::Modern, None), None);
    }

    #[test]
    fn pages_are_bounded_in_bytes() {
        let cache = ListCache::default();
        for number in 0..100 {
            cache.insert(1, Era::Modern, Some(&number.to_string()), page(MAX_BYTES as usize / 10));
            cache.0.run_pending_tasks();
            assert!(cache.0.weighted_size() <= MAX_BYTES && cache.0.entry_count() <= 10);
        }
        cache.insert(1, Era::Modern, None, page(MAX_BYTES as usize + 1));
        cache.0.run_pending_tasks();
        assert_eq!(cache.get(1, Era::Modern, None), None);
    }
}
