//! Filling: an empty store takes the pages of a copy, and is held against what they are said to come to.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;

use super::{
    Batch, Direction, Durability, KeyRange, Page, Space, Store, StoreError, Sums, Write, Written,
    schema::{DEPARTED, FILLED_BY},
};

/// Rows of one commit, at most.
const SOME: usize = 500;
/// Bytes of one, about.
const SOME_BYTES: usize = 512 * 1024;
/// Commits under way at once.
const AT_ONCE: usize = 8;
/// How often a commit that was not confirmed is sent: to put the same twice is to put it once.
const TRIES: u32 = 5;
/// Pages on their way.
const PAGES: usize = 4;
/// Keys read back at once.
const READ_BACK: usize = 32;

/// Why a store does not hold what it was filled with.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum FillError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it does not hold what was copied: rows of {0:?} differ")]
    Differs(Vec<Space>),
}

/// Whether a store has no row, but for what says who fills it.
///
/// # Errors
///
/// The store's.
pub async fn is_empty(store: &dyn Store) -> Result<bool, StoreError> {
    for space in Space::ALL {
        let first = store.scan(space, KeyRange::all(), 2, Direction::Forward).await?;
        if first.iter().any(|(key, _)| !is_left_out(space, key)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes every row away, but for what says who fills the store.
///
/// # Errors
///
/// The store's; what was taken away until then stays so.
pub async fn clear(store: &dyn Store) -> Result<(), StoreError> {
    for space in Space::ALL {
        let mut range = KeyRange { bytes: SOME_BYTES, ..KeyRange::all() };
        loop {
            let pairs = store.scan(space, range.clone(), SOME, Direction::Forward).await?;
            let Some((last, _)) = pairs.last() else { break };
            range = range.after(last);
            let gone = pairs.into_iter().filter(|(key, _)| !is_left_out(space, key)).map(|(key, _)| Write::delete(space, key));
            put(store, gone.collect()).await?;
        }
    }
    Ok(())
}

/// A store that takes the pages of a copy.
pub struct Filler {
    store: Arc<dyn Store>,
    /// What the copy has of rows that are of one store alone.
    left_out: BTreeMap<(Space, Vec<u8>), Option<Vec<u8>>>,
}

impl Filler {
    /// Nobody else writes to `store` until it is settled.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, left_out: BTreeMap::new() }
    }

    /// Writes a page; answers how many rows that were.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn take(&mut self, page: Page) -> Result<u64, StoreError> {
        match page {
            Page::Rows(rows) => {
                let batches = batches(self.without_left_out(rows));
                let written: Vec<_> = stream::iter(batches).map(|batch| put(&*self.store, batch)).buffer_unordered(AT_ONCE).collect().await;
                written.into_iter().sum()
            }
            Page::Changes(changes) => {
                let mut written = 0;
                for batch in batches(self.without_left_out(changes)) {
                    written += put(&*self.store, batch).await?;
                }
                Ok(written)
            }
            Page::End(_) => Ok(0),
        }
    }

    /// Writes what commits did, and reads back what was written.
    ///
    /// # Errors
    ///
    /// The store's; rows that are not there as they were written.
    pub async fn take_and_look(&mut self, changes: Vec<Write>) -> Result<u64, FillError> {
        let changes = self.without_left_out(changes);
        let last: BTreeMap<_, _> = changes.iter().map(|change| ((change.space, change.key.clone()), change.value.clone())).collect();
        let mut written = 0;
        for batch in batches(changes) {
            written += put(&*self.store, batch).await?;
        }
        let store = &*self.store;
        let looks = last.into_iter().map(|((space, key), value)| async move {
            let there = store.get(space, &key).await?;
            Ok::<_, StoreError>((there != value).then_some(space))
        });
        let looked: Vec<_> = stream::iter(looks).buffer_unordered(READ_BACK).collect().await;
        let differing: Vec<Space> = looked.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        if differing.is_empty() { Ok(written) } else { Err(FillError::Differs(differing)) }
    }

    /// Has all that was written be on disk, and holds every row against what the copy is said to come to.
    ///
    /// # Errors
    ///
    /// The store's; a store that holds something else.
    pub async fn settle(&self, said: &Sums) -> Result<(), FillError> {
        self.store.apply(Batch::new(), Durability::Durable).await?;
        let mut said = *said;
        for ((space, key), value) in &self.left_out {
            if let Some(value) = value {
                said.take(*space, key, value);
            }
        }
        let differing = sums_of(&*self.store).await?.differing(&said);
        if differing.is_empty() { Ok(()) } else { Err(FillError::Differs(differing)) }
    }

    /// The rows that are to be written. The others are remembered as they are.
    fn without_left_out(&mut self, rows: Vec<Write>) -> Vec<Write> {
        let (left_out, rows): (Vec<_>, _) = rows.into_iter().partition(|row| is_left_out(row.space, &row.key));
        self.left_out.extend(left_out.into_iter().map(|row| ((row.space, row.key), row.value)));
        rows
    }
}

/// What all rows come to, but for those that are of one store alone. Read one by one.
async fn sums_of(store: &dyn Store) -> Result<Sums, StoreError> {
    let (to, mut pages) = mpsc::channel(PAGES);
    // As they are read, not as they are said to be.
    let adding = async {
        let mut sums = Sums::default();
        let mut ended = false;
        while let Some(page) = pages.recv().await {
            match page {
                Page::Rows(rows) => {
                    for Write { space, key, value } in rows {
                        let value = value.filter(|_| !is_left_out(space, &key));
                        value.into_iter().for_each(|value| sums.add(space, &key, &value));
                    }
                }
                Page::Changes(_) => {}
                Page::End(_) => ended = true,
            }
        }
        ended.then_some(sums)
    };
    let (copied, sums) = tokio::join!(store.copy(to), adding);
    copied?;
    sums.ok_or_else(|| StoreError::Away("a copy without an end".to_owned()))
}

/// What says who fills a store, and where one has gone, is of that store alone.
fn is_left_out(space: Space, key: &[u8]) -> bool {
    [DEPARTED.plan(), FILLED_BY.plan()].iter().any(|plan| plan.space == space && plan.prefix.as_bytes() == key)
}

/// Rows as they go together.
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

/// Writes rows, whatever is there.
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

/// The rows of a page that are there, or were.
pub fn written(page: &Page) -> impl Iterator<Item = Written> {
    let rows = match page {
        Page::Rows(rows) | Page::Changes(rows) => &rows[..],
        Page::End(_) => &[],
    };
    rows.iter().filter_map(|row| Some(Written::new(row.space, row.key.clone(), row.value.clone()?)))
}
