//! Imports a copy: writes its pages into an empty store and verifies the result against the copy's totals.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;

use super::{
    Batch, CopyPage, Direction, Durability, KeyRange, RowSums, Space, Store, StoreError, Write, WrittenRow,
    schema::{DEPARTED, FILLED_BY},
};

/// Maximum number of rows in one commit.
const SOME: usize = 500;
/// Approximate maximum of bytes in one commit.
const SOME_BYTES: usize = 512 * 1024;
/// Number of concurrent commits.
const AT_ONCE: usize = 8;
/// How often a commit that was not confirmed is sent. Putting the same rows twice is harmless.
const TRIES: u32 = 5;
/// Capacity of the channel of pages.
const PAGES: usize = 4;
/// Number of keys read back at the same time.
const READ_BACK: usize = 32;

/// Why a store does not contain what was imported.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each error message describes its variant")]
pub enum FillError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("its rows differ from those copied: {0:?}")]
    Differs(Vec<Space>),
}

/// Returns whether a store has no rows, apart from the row that records who imports into it.
pub async fn is_empty(store: &dyn Store) -> Result<bool, StoreError> {
    for space in Space::ALL {
        let first = store.scan(space, KeyRange::all(), 2, Direction::Forward).await?;
        if first.iter().any(|(key, _)| !is_left_out(space, key)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deletes all rows, except the row that records who imports into the store.
/// Rows deleted before an error stay deleted.
pub async fn clear(store: &dyn Store) -> Result<(), StoreError> {
    for space in Space::ALL {
        let mut range = KeyRange { bytes: SOME_BYTES, ..KeyRange::all() };
        loop {
            let pairs = store.scan(space, range.clone(), SOME, Direction::Forward).await?;
            let Some((last, _)) = pairs.last() else { break };
            range = range.after(last);
            let removed = pairs.into_iter().filter(|(key, _)| !is_left_out(space, key)).map(|(key, _)| Write::delete(space, key));
            put(store, removed.collect()).await?;
        }
    }
    Ok(())
}

/// Imports the pages of a copy into a store.
pub struct Importer {
    store: Arc<dyn Store>,
    /// Rows of the copy that concern its own store only and are not imported.
    left_out: BTreeMap<(Space, Vec<u8>), Option<Vec<u8>>>,
}

impl Importer {
    /// Imports into `store`. Nobody else may write to it until [`Importer::settle`] returns.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, left_out: BTreeMap::new() }
    }

    /// Writes a page. Returns the number of rows written.
    pub async fn take(&mut self, page: CopyPage) -> Result<u64, StoreError> {
        match page {
            CopyPage::Rows(rows) => {
                let batches = batches(self.without_left_out(rows));
                let written: Vec<_> = stream::iter(batches).map(|batch| put(&*self.store, batch)).buffer_unordered(AT_ONCE).collect().await;
                written.into_iter().sum()
            }
            CopyPage::Changes(changes) => {
                let changes = self.without_left_out(changes);
                self.put_in_order(changes).await
            }
            CopyPage::End(_) => Ok(0),
        }
    }

    /// Writes changes that were committed meanwhile, and reads them back.
    pub async fn take_and_look(&mut self, changes: Vec<Write>) -> Result<u64, FillError> {
        let changes = self.without_left_out(changes);
        let last: BTreeMap<_, _> = changes.iter().map(|change| ((change.space, change.key.clone()), change.value.clone())).collect();
        let written = self.put_in_order(changes).await?;
        let store = &*self.store;
        let looks = last.into_iter().map(|((space, key), value)| async move {
            let there = store.get(space, &key).await?;
            Ok::<_, StoreError>((there != value).then_some(space))
        });
        let checked: Vec<_> = stream::iter(looks).buffer_unordered(READ_BACK).collect().await;
        let differing: Vec<Space> = checked.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        if differing.is_empty() { Ok(written) } else { Err(FillError::Differs(differing)) }
    }

    async fn put_in_order(&self, changes: Vec<Write>) -> Result<u64, StoreError> {
        let mut written = 0;
        for batch in batches(changes) {
            written += put(&*self.store, batch).await?;
        }
        Ok(written)
    }

    /// Makes all writes durable and verifies all rows against the copy's totals.
    pub async fn settle(&self, sums: &RowSums) -> Result<(), FillError> {
        self.store.apply(Batch::new(), Durability::Durable).await?;
        let mut sums = *sums;
        for ((space, key), value) in &self.left_out {
            if let Some(value) = value {
                sums.take(*space, key, value);
            }
        }
        let differing = sums_of(&*self.store).await?.differing(&sums);
        if differing.is_empty() { Ok(()) } else { Err(FillError::Differs(differing)) }
    }

    /// Returns the rows to write. Remembers the others.
    fn without_left_out(&mut self, rows: Vec<Write>) -> Vec<Write> {
        let (left_out, rows): (Vec<_>, _) = rows.into_iter().partition(|row| is_left_out(row.space, &row.key));
        self.left_out.extend(left_out.into_iter().map(|row| ((row.space, row.key), row.value)));
        rows
    }
}

/// Computes the totals of all rows except those of one store only, by reading each row.
async fn sums_of(store: &dyn Store) -> Result<RowSums, StoreError> {
    let (to, mut pages) = mpsc::channel(PAGES);
    // Sum up the rows that were read, not the totals that the store reports.
    let adding = async {
        let mut sums = RowSums::default();
        let mut ended = false;
        while let Some(page) = pages.recv().await {
            match page {
                CopyPage::Rows(rows) => {
                    for Write { space, key, value } in rows {
                        let value = value.filter(|_| !is_left_out(space, &key));
                        value.into_iter().for_each(|value| sums.add(space, &key, &value));
                    }
                }
                CopyPage::Changes(_) => {}
                CopyPage::End(_) => ended = true,
            }
        }
        ended.then_some(sums)
    };
    let (copied, sums) = tokio::join!(store.copy(to), adding);
    copied?;
    sums.ok_or_else(|| StoreError::Away("a copy without an end".to_owned()))
}

/// Returns whether a row concerns one store only: who imports into it, or where its contents have moved.
fn is_left_out(space: Space, key: &[u8]) -> bool {
    [DEPARTED.plan(), FILLED_BY.plan()].iter().any(|plan| plan.space == space && plan.prefix.as_bytes() == key)
}

/// Groups rows into commits.
fn batches(rows: Vec<Write>) -> Vec<Vec<Write>> {
    let (mut batches, mut bytes) = (vec![vec![]], 0);
    for row in rows {
        bytes += row.key.len() + row.value.as_ref().map_or(0, Vec::len);
        let last = batches.last_mut().expect("there is always one");
        last.push(row);
        if last.len() >= SOME || bytes >= SOME_BYTES {
            batches.push(vec![]);
            bytes = 0;
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Writes rows, replacing any that exist.
async fn put(store: &dyn Store, rows: Vec<Write>) -> Result<u64, StoreError> {
    let count = rows.len() as u64;
    let batch = Batch::of(vec![], rows);
    for _ in 1..TRIES {
        match store.apply(batch.clone(), Durability::Buffered).await {
            Ok(_) => return Ok(count),
            Err(StoreError::Unknown(_) | StoreError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    store.apply(batch, Durability::Buffered).await.map(|_| count)
}

/// Returns the rows of a page that have a value.
pub fn written(page: &CopyPage) -> impl Iterator<Item = WrittenRow> {
    let rows = match page {
        CopyPage::Rows(rows) | CopyPage::Changes(rows) => &rows[..],
        CopyPage::End(_) => &[],
    };
    rows.iter().filter_map(|row| Some(WrittenRow::new(row.space, row.key.clone(), row.value.clone()?)))
}
