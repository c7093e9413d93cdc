//! Background tasks for search: read words after the start, and compact the index.

use std::{sync::Arc, time::Duration};

use tokio::task::spawn_blocking;
use tollhouse_store::{StoreError, maintain};

use super::{Catalog, entry::CARDS};

/// Endpoints per page.
const READ_AT_ONCE: usize = 2_500;

/// Interval for checking whether the index needs to be compacted.
const STORED_EVERY: Duration = Duration::from_secs(1);

impl Catalog {
    /// Starts reading the words of existing endpoints, and compacting the index periodically.
    pub fn store_index(self: &Arc<Self>) {
        maintain(self, STORED_EVERY, "indexing the words of endpoints", |catalog, _| async move { catalog.update_index().await });
    }

    async fn update_index(&self) -> Result<(), StoreError> {
        let all = self.all();
        if !all.is_searchable {
            self.load_index().await?;
        }
        if all.index().needs_compaction() {
            spawn_blocking(move || all.index_mut().compact()).await.map_err(broken)?;
        }
        Ok(())
    }

    /// Reads the words of all endpoints from before the start.
    pub(super) async fn load_index(&self) -> Result<(), StoreError> {
        let mut range = CARDS.all();
        while let Some(page) = CARDS.next(&*self.store, &mut range, READ_AT_ONCE).await? {
            let rows = page.into_iter().collect::<Result<Vec<_>, _>>()?;
            let all = self.all();
            let add = move || all.add_words(rows.iter().map(|row| (row.key.as_str(), row.value.text(&row.key))));
            spawn_blocking(add).await.map_err(broken)?;
        }
        let _one = self.showing.lock().await;
        self.rebuild_snapshot(|snapshot| snapshot.is_searchable = true);
        Ok(())
    }
}

fn broken(error: tokio::task::JoinError) -> StoreError {
    StoreError::Away(format!("the words of endpoints could not be read: {error}"))
}
