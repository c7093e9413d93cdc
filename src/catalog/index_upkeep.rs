//! Background tasks for search: read words after the start, and merge the index.

use std::{sync::Arc, time::Duration};

use tokio::task::spawn_blocking;
use tollhouse_store::{StoreError, maintain};

use super::{
    Catalog,
    entry::CARDS,
    search::{Segment, Segments},
};

/// Endpoints per page.
const READ_AT_ONCE: usize = 2_500;

/// Interval for checking whether the index needs a merge.
const STORED_EVERY: Duration = Duration::from_secs(1);

impl Catalog {
    /// Starts reading the words of existing endpoints, and merging the index periodically.
    pub fn store_index(self: &Arc<Self>) {
        maintain(self, STORED_EVERY, "words of endpoints", |catalog, _| async move { catalog.rebuild_index().await });
    }

    async fn rebuild_index(&self) -> Result<(), StoreError> {
        if !self.all().is_searchable() {
            self.load_index().await?;
        }
        while let Some(merge) = self.all().due() {
            let merged = spawn_blocking(move || merge.run()).await.map_err(broken)?;
            let _one = self.showing.lock().await;
            self.rebuild_snapshot(|snapshot| snapshot.adopt(merged));
        }
        Ok(())
    }

    /// Reads the words of all endpoints from before the start.
    pub(super) async fn load_index(&self) -> Result<(), StoreError> {
        let (mut range, mut words) = (CARDS.all(), Segments::default());
        while let Some(page) = CARDS.next(&*self.store, &mut range, READ_AT_ONCE).await? {
            let rows = page.into_iter().collect::<Result<Vec<_>, _>>()?;
            let all = self.all();
            let read = spawn_blocking(move || {
                // Endpoints that changed meanwhile already have their words.
                let texts = rows.iter().filter_map(|row| Some((all.wordless(&row.key)?, row.value.text(&row.key))));
                words.push(Segment::of(texts));
                words
            });
            words = read.await.map_err(broken)?;
        }
        let _one = self.showing.lock().await;
        self.rebuild_snapshot(|snapshot| snapshot.add_words(words));
        Ok(())
    }
}

fn broken(error: tokio::task::JoinError) -> StoreError {
    StoreError::Away(format!("the words of endpoints could not be read: {error}"))
}
