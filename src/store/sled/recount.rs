//! Verifies that the tree's rows match its totals.
//!
//! A damaged row is noticed when it is read. A missing or outdated row shows only in the total of its space. Spaces
//! that the host cannot do without are verified before it starts, the others while it runs.

use std::ops::Bound;

use sled::Tree;

use super::{away::away, rows, values};
use crate::{
    Space, Stake, StoreError,
    journal::{Total, Totals},
};

/// Maximum rows, and approximate maximum bytes, that are counted at once. The next commit waits for them.
const SOME: usize = 200;
const SOME_BYTES: u64 = 512 * 1024;

/// Progress of counting a space.
#[derive(Debug, Default)]
pub(super) struct Recount {
    space: Option<Space>,
    /// The last key counted.
    place: Option<Vec<u8>>,
    found: Total,
}

impl Recount {
    /// Includes changes to keys that have already been counted.
    pub(super) fn follow(&mut self, changes: &[values::Change]) {
        let Some(space) = self.space else { return };
        for change in changes {
            if change.place.first() == Some(&(space as u8)) && self.place.as_ref().is_some_and(|place| change.place <= *place) {
                self.found.change(change.before, change.after);
            }
        }
    }

    /// Begins to count a space.
    pub(super) fn start(&mut self, space: Space) {
        *self = Self { space: Some(space), ..Self::default() };
    }

    /// Counts the next rows. Returns the total once all are counted.
    pub(super) fn some(&mut self, tree: &Tree) -> Result<Option<Total>, StoreError> {
        let Some(space) = self.space else { return Ok(Some(self.found)) };
        let start = self.place.clone().map_or_else(|| Bound::Included(vec![space as u8]), Bound::Excluded);
        let end = Bound::Excluded(vec![space as u8 + 1]);
        let (mut last, mut bytes) = (None, 0);
        for row in rows::range(tree, (start, end)).take(SOME) {
            let (place, head) = row.map_err(away)?;
            let weight = values::weigh(tree, space as u8, &place[1..], &head)?;
            self.found.change(None, Some(weight));
            last = Some(place);
            bytes += weight.bytes;
            if bytes > SOME_BYTES {
                break;
            }
        }
        match last {
            Some(last) => {
                self.place = Some(last.to_vec());
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
pub(super) fn in_turns(totals: &Totals, bytes: u64) -> (Vec<Space>, Vec<Space>) {
    let mut spaces: Vec<_> = totals.spaces().map(|(space, total)| (space.stake() == Stake::Bulk, total.bytes, space)).collect();
    spaces.sort_unstable();
    let mut sum = 0_u64;
    let (first, later): (Vec<_>, Vec<_>) = spaces.into_iter().partition(|(bulk, bytes_of_it, _)| {
        sum = sum.saturating_add(*bytes_of_it);
        !bulk && sum <= bytes
    });
    let names = |spaces: Vec<(bool, u64, Space)>| spaces.into_iter().map(|(_, _, space)| space).collect();
    (names(first), names(later))
}

/// Counts all spaces of a tree that nobody writes to. Returns those that are wrong.
pub(super) fn all(tree: &Tree, totals: &Totals) -> Result<Vec<Space>, StoreError> {
    some(tree, totals, &Space::ALL)
}

/// Counts some spaces of a tree that nobody writes to. Returns those that are wrong.
pub(super) fn some(tree: &Tree, totals: &Totals, counted: &[Space]) -> Result<Vec<Space>, StoreError> {
    let mut wrong = Vec::new();
    for (space, said) in totals.spaces().filter(|(space, _)| counted.contains(space)) {
        let mut recount = Recount::default();
        recount.start(space);
        let found = loop {
            if let Some(found) = recount.some(tree)? {
                break found;
            }
        };
        if found != said {
            wrong.push(space);
        }
    }
    Ok(wrong)
}
