//! Verifies that the tree's rows match its totals.
//!
//! A damaged row is noticed when it is read. A missing or outdated row shows only in the total of its space. Spaces
//! that the host cannot do without are verified before it starts, the others while it runs.

use std::ops::Bound;

use sled::Tree;

use super::{rows, values};
use crate::{
    LossImpact, Space, StoreError,
    journal::{SpaceTotal, SpaceTotals},
};

/// Maximum rows, and approximate maximum bytes, that are counted at once. The next commit waits for them.
const PAGE_ROWS: usize = 200;
const PAGE_BYTES: u64 = 512 * 1024;

/// Progress of counting a space.
#[derive(Debug, Default)]
pub(super) struct Recount {
    space: Option<Space>,
    /// The last key counted.
    position: Option<Vec<u8>>,
    found: SpaceTotal,
}

impl Recount {
    /// Includes changes to keys that have already been counted.
    pub(super) fn follow(&mut self, changes: &[values::KeyChange]) {
        let Some(space) = self.space else { return };
        for change in changes {
            if change.position.first() == Some(&(space as u8))
                && self.position.as_ref().is_some_and(|position| change.position <= *position)
            {
                self.found.change(change.before, change.after);
            }
        }
    }

    /// Begins to count a space.
    pub(super) fn start(&mut self, space: Space) {
        *self = Self { space: Some(space), ..Self::default() };
    }

    /// Counts the next rows. Returns the total once all are counted.
    pub(super) fn some(&mut self, tree: &Tree) -> Result<Option<SpaceTotal>, StoreError> {
        let Some(space) = self.space else { return Ok(Some(self.found)) };
        let start = self.position.clone().map_or_else(|| Bound::Included(vec![space as u8]), Bound::Excluded);
        let end = Bound::Excluded(vec![space as u8 + 1]);
        let (mut last, mut bytes) = (None, 0);
        for row in rows::range(tree, (start, end)).take(PAGE_ROWS) {
            let (position, head) = row.map_err(StoreError::away)?;
            let weight = values::size_change(tree, space as u8, &position[1..], &head)?;
            self.found.change(None, Some(weight));
            last = Some(position);
            bytes += weight.bytes;
            if bytes > PAGE_BYTES {
                break;
            }
        }
        match last {
            Some(last) => {
                self.position = Some(last.to_vec());
                Ok(None)
            }
            None => {
                self.space = None;
                Ok(Some(self.found))
            }
        }
    }
}

/// Chooses the spaces to verify before the start, and those to verify while the host runs. First come spaces with more
/// at stake than `Bulk`, smallest first, up to `bytes` bytes in all.
pub(super) fn in_turns(totals: &SpaceTotals, bytes: u64) -> (Vec<Space>, Vec<Space>) {
    let mut spaces: Vec<_> = totals.spaces().map(|(space, total)| (space.stake() == LossImpact::Bulk, total.bytes, space)).collect();
    spaces.sort_unstable();
    let mut sum = 0_u64;
    let (first, later): (Vec<_>, Vec<_>) = spaces.into_iter().partition(|(bulk, bytes_of_it, _)| {
        sum = sum.saturating_add(*bytes_of_it);
        !bulk && sum <= bytes
    });
    let names = |spaces: Vec<(bool, u64, Space)>| spaces.into_iter().map(|(_, _, space)| space).collect();
    (names(first), names(later))
}

/// Counts some spaces of a tree that nobody writes to. Returns those that are wrong.
pub(super) fn some(tree: &Tree, totals: &SpaceTotals, counted: &[Space]) -> Result<Vec<Space>, StoreError> {
    let mut wrong = Vec::new();
    for (space, stated) in totals.spaces().filter(|(space, _)| counted.contains(space)) {
        let mut recount = Recount::default();
        recount.start(space);
        let found = loop {
            if let Some(found) = recount.some(tree)? {
                break found;
            }
        };
        if found != stated {
            wrong.push(space);
        }
    }
    Ok(wrong)
}
