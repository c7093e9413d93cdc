//! A cache of documents, rebuilt after changes.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use serde_json::Value;
use tollhouse_api::DocsSearchResponse;
use tollhouse_base::lock::Lock;
use tollhouse_catalog::search::Query;

use super::{
    document::Document,
    library::{DocsIndex, Page, pages},
    schema_parts::described,
};
use crate::Operation;

/// The documents: the static ones from the operation table, and the latest of the others.
#[derive(Debug)]
pub struct Documents {
    /// The operations shown to agents.
    pub(super) for_agents: Vec<Operation>,
    /// All operations in OpenAPI, without host-specific data.
    pub(super) described: Value,
    /// All operations with host-specific data, built on first use.
    pub(super) whole: OnceLock<Document>,
    /// The documentation.
    pub(super) pages: Vec<Page>,
    /// The index of the documentation, built on first use.
    searchable: OnceLock<DocsIndex>,
    pub(super) openapi: CachedPage,
    pub(super) well_known: CachedPage,
    pub(super) llms: CachedPage,
}

impl Documents {
    /// Returns the documents of the host at `base_url` with these operations.
    #[must_use]
    pub fn new(rows: Vec<Operation>, base_url: &str) -> Self {
        let (described, pages) = (described(&rows), pages(&rows, base_url));
        let for_agents = rows.into_iter().filter(|row| row.for_agents).collect();
        let (openapi, well_known, llms) = (CachedPage::default(), CachedPage::default(), CachedPage::default());
        Self { for_agents, described, whole: OnceLock::new(), pages, searchable: OnceLock::new(), openapi, well_known, llms }
    }

    pub(super) fn page(&self, name: &str) -> Option<&Page> {
        self.pages.iter().find(|page| page.name == name)
    }

    /// Returns the sections that match a query.
    pub(super) fn search(&self, text: &str, query: &Query, base: &str) -> DocsSearchResponse {
        self.searchable.get_or_init(|| DocsIndex::new(&self.pages)).search(text, query, base)
    }
}

/// How long the host and its clients cache a page. It is limited because data from facilitators changes independently
/// of the catalog.
const CACHED_FOR: Duration = Duration::from_secs(60);

/// The first page of a document, with the catalog's change count and the time when it was built.
#[derive(Debug, Default)]
pub(super) struct CachedPage(Lock<Option<(u64, Instant, Document)>>);

impl CachedPage {
    /// Returns the first page for this change count. Builds it if the cached one is too old.
    pub(super) async fn first<E>(
        &self,
        changes: u64,
        now: Instant,
        make: impl Future<Output = Result<Document, E>>,
    ) -> Result<Document, E> {
        let last = || self.0.lock();
        let current = |built: u64, at: Instant| built == changes && now.saturating_duration_since(at) < CACHED_FOR;
        if let Some((.., document)) = last().as_ref().filter(|(built, at, _)| current(*built, *at)) {
            return Ok(document.clone());
        }
        let document = make.await?;
        *last() = Some((changes, now, document.clone()));
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn page_is_rebuilt_after_a_change_and_after_a_minute() {
        let (stored, now) = (CachedPage::default(), Instant::now());
        let build = async |changes, later: Duration, value: u64| {
            let make = async { Ok::<_, Infallible>(Document::json(&json!(value))) };
            stored.first(changes, now + later, make).await.unwrap().text().to_owned()
        };
        assert_eq!(build(1, Duration::ZERO, 1).await, "1");
        assert_eq!(build(1, CACHED_FOR - Duration::from_millis(1), 2).await, "1");
        assert_eq!(build(1, CACHED_FOR, 3).await, "3");
        assert_eq!(build(2, CACHED_FOR, 4).await, "4");
    }
}
