//! A cache of `tools/list` pages that are the same for everyone.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::body::Bytes;

use super::revision::Era;

/// Maximum bytes of cached pages. Beyond that, the cache is cleared.
const MAX_BYTES: usize = 8 << 20;

/// Bytes of a page beyond its result: its cursor and its map entry.
const EACH: usize = 512;

/// How long a page is cached while nothing changes.
const FRESH: Duration = Duration::from_secs(1);

/// Pages of the catalog at one change count.
#[derive(Debug, Default)]
pub(super) struct ListCache(Mutex<CachedPages>);

#[derive(Debug, Default)]
struct CachedPages {
    /// The change count of the pages.
    at: u64,
    bytes: usize,
    /// By era and cursor. The first page has no cursor.
    pages: HashMap<(Era, Option<String>), (Bytes, Instant)>,
}

impl ListCache {
    /// Returns the cached result with this page if the catalog has not changed.
    pub(super) fn get(&self, at: u64, era: Era, cursor: Option<&str>) -> Option<Bytes> {
        let pages = self.pages();
        let (result, made) = pages.pages.get(&(era, cursor.map(str::to_owned))).filter(|_| pages.at == at)?;
        (made.elapsed() < FRESH).then(|| result.clone())
    }

    /// Caches the result with this page, for the change count `at`.
    pub(super) fn keep(&self, at: u64, era: Era, cursor: Option<&str>, result: &Bytes) {
        let mut pages = self.pages();
        if pages.at > at || result.len() > MAX_BYTES {
            return;
        }
        let key = (era, cursor.map(str::to_owned));
        let replaced = pages.pages.get(&key).map_or(0, |(before, _)| before.len() + EACH);
        let more = result.len() + EACH;
        if pages.at < at || pages.bytes - replaced + more > MAX_BYTES {
            *pages = CachedPages { at, ..CachedPages::default() };
        }
        let before = pages.pages.insert(key, (result.clone(), Instant::now()));
        pages.bytes = pages.bytes + more - before.map_or(0, |(before, _)| before.len() + EACH);
    }

    fn pages(&self) -> MutexGuard<'_, CachedPages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Bytes {
        Bytes::from(vec![b' '; bytes])
    }

    #[test]
    fn a_page_is_kept_until_the_catalog_changes() {
        let cache = ListCache::default();
        cache.keep(1, Era::Modern, None, &page(3));
        assert_eq!(cache.get(1, Era::Modern, None), Some(page(3)));
        assert_eq!(cache.get(1, Era::Legacy, None), None);
        assert_eq!((cache.get(1, Era::Modern, Some("next")), cache.get(1, Era::Modern, Some(""))), (None, None));
        assert_eq!(cache.get(2, Era::Modern, None), None);
        cache.keep(2, Era::Legacy, None, &page(4));
        // A page built before the change is too late.
        cache.keep(1, Era::Modern, None, &page(3));
        assert_eq!((cache.get(1, Era::Modern, None), cache.get(2, Era::Legacy, None)), (None, Some(page(4))));
    }

    #[test]
    fn pages_are_bounded_in_bytes() {
        let cache = ListCache::default();
        for number in 0..100 {
            cache.keep(1, Era::Modern, Some(&number.to_string()), &page(MAX_BYTES / 10));
            assert!(cache.pages().bytes <= MAX_BYTES && cache.pages().pages.len() <= 10);
        }
        cache.keep(1, Era::Modern, None, &page(MAX_BYTES + 1));
        assert_eq!(cache.get(1, Era::Modern, None), None);
        let before = cache.pages().bytes;
        cache.keep(1, Era::Modern, Some("99"), &page(MAX_BYTES / 10));
        assert_eq!(cache.pages().bytes, before, "the same page again is counted once");
    }
}
