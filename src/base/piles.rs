//! Items that each belong to two sides, such as the owner of a tool and the address of its caller. Finds the item to
//! drop first.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use super::amounts::Amounts;

/// Items with weights, each of a `left` and a `right`. Ids sort by time.
///
/// Every operation takes time logarithmic in the number of items.
#[derive(Debug)]
pub struct Piles<L, R, I> {
    lefts: Amounts<L>,
    rights: Amounts<R>,
    piles: HashMap<(L, R), Pile<I>>,
    /// The piles of each side, heaviest last.
    of_left: HashMap<L, BTreeSet<Rank<I>>>,
    of_right: HashMap<R, BTreeSet<Rank<I>>>,
}

/// The items with the same left and right.
#[derive(Debug)]
struct Pile<I> {
    weight: usize,
    ids: BTreeSet<I>,
}

/// A pile's weight and its oldest item, which makes ranks unique. Among piles of equal weight, the one with the oldest
/// item is last.
type Rank<I> = (usize, Reverse<I>);

impl<L, R, I> Default for Piles<L, R, I> {
    fn default() -> Self {
        Self {
            lefts: Amounts::default(),
            rights: Amounts::default(),
            piles: HashMap::new(),
            of_left: HashMap::new(),
            of_right: HashMap::new(),
        }
    }
}

impl<I: Clone + Ord> Pile<I> {
    fn rank(&self) -> Option<Rank<I>> {
        Some((self.weight, Reverse(self.ids.first()?.clone())))
    }
}

impl<L: Clone + Hash + Ord, R: Clone + Hash + Ord, I: Clone + Ord> Piles<L, R, I> {
    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.piles.is_empty() && self.lefts.is_empty() && self.rights.is_empty() && self.of_left.is_empty() && self.of_right.is_empty()
    }

    /// Adds an item that is not present yet. Its weight must be at least 1.
    pub fn add(&mut self, left: &L, right: &R, id: I, weight: usize) {
        self.lefts.add(left, weight);
        self.rights.add(right, weight);
        self.change(left, right, |pile| {
            pile.weight += weight;
            pile.ids.insert(id);
        });
    }

    /// Removes an item that was added with the same arguments.
    pub fn remove(&mut self, left: &L, right: &R, id: &I, weight: usize) {
        self.lefts.take(left, weight);
        self.rights.take(right, weight);
        self.change(left, right, |pile| {
            pile.weight -= weight;
            pile.ids.remove(id);
        });
    }

    fn change(&mut self, left: &L, right: &R, change: impl FnOnce(&mut Pile<I>)) {
        let key = (left.clone(), right.clone());
        let pile = self.piles.entry(key.clone()).or_insert_with(|| Pile { weight: 0, ids: BTreeSet::new() });
        let before = pile.rank();
        change(pile);
        let after = pile.rank();
        if after.is_none() {
            self.piles.remove(&key);
        }
        rank(&mut self.of_left, left, before.as_ref(), after.clone());
        rank(&mut self.of_right, right, before.as_ref(), after);
    }

    /// Returns the oldest item of the largest user: in the heaviest pile of the left or right with the largest total
    /// weight.
    pub fn oldest_of_most(&self) -> Option<&I> {
        let ((left, of_left), (right, of_right)) = (self.lefts.largest()?, self.rights.largest()?);
        let ranks = if of_right >= of_left { self.of_right.get(right)? } else { self.of_left.get(left)? };
        ranks.last().map(|(_, Reverse(oldest))| oldest)
    }
}

/// Moves a pile of `key` to its new position among the others.
fn rank<K: Clone + Hash + Eq, I: Ord>(of: &mut HashMap<K, BTreeSet<Rank<I>>>, key: &K, before: Option<&Rank<I>>, after: Option<Rank<I>>) {
    let ranks = of.entry(key.clone()).or_default();
    if let Some(before) = before {
        ranks.remove(before);
    }
    ranks.extend(after);
    if ranks.is_empty() {
        of.remove(key);
    }
}

#[cfg(test)]
mod tests;
