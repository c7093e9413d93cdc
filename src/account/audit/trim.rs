//! Trims the audit trail: removes the oldest entries of actors with more than an equal share.

use std::{collections::HashMap, hash::Hash};

use tollhouse_store::{Batch, Direction, Durability, StoreError};

use super::{
    Audit,
    entry::{AUDIT, Actor},
};

/// Number of entries examined at once.
const PAGE: usize = 1_000;

impl Audit {
    /// Removes entries beyond the limit. It reads all entries and is called rarely. It counts from the newest entry on,
    /// so that two hosts that trim at the same time remove the same entries.
    pub(super) async fn trim(&self) -> Result<(), StoreError> {
        let has = self.tally().await?;
        let mut stays: HashMap<_, _> =
            beyond(&has, self.settings.count).into_iter().map(|(who, more)| (who.clone(), has[who].saturating_sub(more))).collect();
        let mut range = AUDIT.all();
        while !stays.is_empty() {
            let entries = AUDIT.page(&*self.store, &range, PAGE, Direction::Backward).await?;
            let Some(last) = entries.last() else { break };
            range = range.before(&last.key);
            let (mut batch, mut removed) = (Batch::new(), 0);
            for entry in &entries {
                match stays.get_mut(&entry.value.action.actor) {
                    Some(0) => {
                        batch.sweep(&AUDIT, entry);
                        removed += 1;
                    }
                    Some(more) => *more -= 1,
                    None => {}
                }
            }
            if !batch.changes_nothing() {
                batch.commit(&*self.store, Durability::Buffered).await?;
                AUDIT.expired(removed);
            }
        }
        Ok(())
    }

    /// Counts the entries of each actor.
    async fn tally(&self) -> Result<HashMap<Actor, u64>, StoreError> {
        let (mut tally, mut range) = (HashMap::new(), AUDIT.all());
        while let Some(entries) = AUDIT.sound(&*self.store, &mut range, PAGE).await? {
            entries.into_iter().for_each(|entry| *tally.entry(entry.value.action.actor).or_default() += 1);
        }
        Ok(tally)
    }
}

/// Returns how much each actor exceeds its share of `max`. Shares are equal, and what some leave unused is divided
/// equally among the others.
fn beyond<'a, K: Eq + Hash>(has: &'a HashMap<K, u64>, max: u64) -> HashMap<&'a K, u64> {
    let mut counts: Vec<_> = has.values().copied().collect();
    counts.sort_unstable();
    let (mut remaining, mut others) = (max, counts.len() as u64);
    for count in counts {
        let part = remaining / others;
        if count > part {
            let more = |(who, count): (&'a K, &u64)| Some((who, count.checked_sub(part)?)).filter(|(_, more)| *more > 0);
            return has.iter().filter_map(more).collect();
        }
        (remaining, others) = (remaining - count, others - 1);
    }
    HashMap::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_after_unused_parts_are_divided() {
        let of = |has: &[(&'static str, u64)], max| {
            let has = has.iter().copied().collect();
            let mut beyond: Vec<_> = beyond(&has, max).into_iter().map(|(who, more)| (*who, more)).collect();
            beyond.sort_unstable();
            beyond
        };
        assert_eq!(of(&[], 10), []);
        assert_eq!(of(&[("a", 10)], 10), []);
        assert_eq!(of(&[("a", 13)], 10), [("a", 3)]);
        assert_eq!(of(&[("a", 2), ("b", 8)], 10), []);
        assert_eq!(of(&[("a", 2), ("b", 100)], 10), [("b", 92)]);
        assert_eq!(of(&[("a", 2), ("b", 6), ("c", 7)], 10), [("b", 2), ("c", 3)]);
        assert_eq!(of(&[("a", 5), ("b", 5), ("c", 5)], 10), [("a", 2), ("b", 2), ("c", 2)]);
        assert_eq!(of(&[("a", 1), ("b", 1)], 0), [("a", 1), ("b", 1)]);
    }
}
