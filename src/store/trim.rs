//! Trims a range: deletes its first rows until a given number is left. Several hosts can do so at once.

use super::{Batch, Direction, Durability, Store, StoreError, key::Key, range::Range, table::Table, value::Value, write::Check};

/// Number of rows deleted in one commit.
const SOME: usize = 500;

/// The result of trimming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimReport {
    /// Number of rows before.
    pub stored: u64,
    /// Number of rows deleted from the start.
    pub removed: u64,
}

impl<K: Key, V: Value> Table<K, V> {
    /// Deletes the first rows of a range until `keep` are left. The rows are counted unless their number is `known`.
    /// Returns `None` if somebody else deletes rows at the same time; the next call finds any excess. For rows without
    /// indexes that nobody changes.
    /// Rows deleted before an error stay deleted.
    pub async fn trim(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        keep: u64,
        known: Option<u64>,
    ) -> Result<Option<TrimReport>, StoreError> {
        debug_assert!(self.indexes.is_empty(), "{self:?} has indexes: they need the rows");
        let scan = async |some| store.scan(self.plan.space, range.bounds.clone(), some, Direction::Forward).await;
        // Read the first row before counting: anyone who deletes rows meanwhile deletes this one first, which shows in
        // the check.
        let mut first = scan(1).await?.pop();
        let stored = match known {
            Some(known) => known,
            None => self.count(store, range, usize::MAX).await? as u64,
        };
        let (excess, mut removed) = (stored.saturating_sub(keep), 0);
        while removed < excess {
            let some = usize::try_from(excess - removed).unwrap_or(SOME).min(SOME);
            let mut pairs = scan(some + 1).await?;
            let Some((key, value)) = first.take().filter(|first| pairs.first() == Some(first)) else { return Ok(None) };
            first = pairs.drain(some.min(pairs.len())..).next();
            let mut batch = Batch::new();
            batch.checks.push(Check::holds(self.plan.space, key, value));
            removed += pairs.len() as u64;
            pairs.into_iter().for_each(|(at, _)| _ = batch.write(self.plan, at, None));
            match batch.commit(store, Durability::Buffered).await {
                Ok(_) => {}
                Err(StoreError::Conflict) => return Ok(None),
                Err(error) => return Err(error),
            }
            if first.is_none() {
                break;
            }
        }
        Ok(Some(TrimReport { stored, removed }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{memory::MemoryStore, schema, test_wrappers::InterleavingStore};

    const ROWS: Table<String, String> = schema::RETIRED_SLUGS.holding();

    /// Keeps the last three rows.
    async fn trim(store: &(impl Store + ?Sized)) -> Option<TrimReport> {
        ROWS.trim(store, &ROWS.all(), 3, None).await.unwrap()
    }

    #[tokio::test]
    async fn one_of_two_concurrent_trims_reports_the_rows() {
        let memory = Arc::new(MemoryStore::new());
        for n in 10..20 {
            ROWS.put(&n.to_string(), &String::new()).commit(&*memory, Durability::Buffered).await.unwrap();
        }
        let other = Arc::clone(&memory);
        let meanwhile = async move { assert_eq!(trim(&*other).await, Some(TrimReport { stored: 10, removed: 7 })) };
        let store = InterleavingStore::before_commit(1, Arc::clone(&memory), meanwhile);
        assert_eq!(trim(&*store).await, None, "none of what it meant to take away was left");
        assert_eq!(ROWS.count(&*memory, &ROWS.all(), usize::MAX).await.unwrap(), 3);
    }
}
