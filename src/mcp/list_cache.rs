//! The pages of `tools/list` that are the same for everyone, as they were sent last.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::body::Bytes;

use super::revision::Era;

/// Bytes of pages that are kept; beyond that all of them are made again.
const MAX_BYTES: usize = 8 << 20;

/// Bytes of a page beside its result: its cursor and its place in the map.
const EACH: usize = 512;

/// How long a page is kept where nothing changes.
const FRESH: Duration = Duration::from_secs(1);

/// Pages of the catalogue as it was after so many changes.
#[derive(Debug, Default)]
pub(super) struct ListCache(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    /// The number of changes that they are made after.
    at: u64,
    bytes: usize,
    /// By era and cursor; the first page has none.
    pages: HashMap<(Era, Option<String>), (Bytes, Instant)>,
}

impl ListCache {
    /// The result with this page, if it is kept and the catalogue is as it was.
    pub(super) fn get(&self, at: u64, era: Era, cursor: Option<&str>) -> Option<Bytes> {
        let pages = self.pages();
        let (result, made) = pages.pages.get(&(era, cursor.map(str::to_owned))).filter(|_| pages.at == at)?;
        (made.elapsed() < FRESH).then(|| result.clone())
    }

    /// Keeps the result with this page, of the catalogue after `at` changes.
    pub(super) fn keep(&self, at: u64, era: Era, cursor: Option<&str>, result: &Bytes) {
        let mut pages = self.pages();
        if pages.at > at || result.len() > MAX_BYTES {
            return;
        }
        let key = (era, cursor.map(str::to_owned));
        let replaced = pages.pages.get(&key).map_or(0, |(before, _)| before.len() + EACH);
        let more = result.len() + EACH;
        if pages.at < at || pages.bytes - replaced + more > MAX_BYTES {
            *pages = Pages { at, ..Pages::default() };
        }
        let before = pages.pages.insert(key, (result.clone(), Instant::now()));
        pages.bytes = pages.bytes + more - before.map_or(0, |(before, _)| before.len() + EACH);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
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
    fn a_page_is_kept_until_the_catalogue_changes() {
        let cache = ListCache::default();
        cache.keep(1, Era::Modern, None, &page(3));
        assert_eq!(cache.get(1, Era::Modern, None), Some(page(3)));
        assert_eq!(cache.get(1, Era::Legacy, None), None);
        assert_eq!((cache.get(1, Era::Modern, Some("next")), cache.get(1, Era::Modern, Some(""))), (None, None));
        assert_eq!(cache.get(2, Era::Modern, None), None);
        cache.keep(2, Era::Legacy, None, &page(4));
        // One that was made before the change comes too late.
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
