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
    pub fn add(&mut self, remaining: &L, right: &R, id: I, weight: usize) {
        self.lefts.add(remaining, weight);
        self.rights.add(right, weight);
        self.change(remaining, right, |pile| {
            pile.weight += weight;
            pile.ids.insert(id);
        });
    }

    /// Removes an item that was added with the same arguments.
    pub fn remove(&mut self, remaining: &L, right: &R, id: &I, weight: usize) {
        self.lefts.take(remaining, weight);
        self.rights.take(right, weight);
        self.change(remaining, right, |pile| {
            pile.weight -= weight;
            pile.ids.remove(id);
        });
    }

    fn change(&mut self, remaining: &L, right: &R, change: impl FnOnce(&mut Pile<I>)) {
        let key = (remaining.clone(), right.clone());
        let pile = self.piles.entry(key.clone()).or_insert_with(|| Pile { weight: 0, ids: BTreeSet::new() });
        let before = pile.rank();
        change(pile);
        let after = pile.rank();
        if after.is_none() {
            self.piles.remove(&key);
        }
        rank(&mut self.of_left, remaining, before.as_ref(), after.clone());
        rank(&mut self.of_right, right, before.as_ref(), after);
    }

    /// Returns the oldest item of the largest user: in the heaviest pile of the left or right with the largest total
    /// weight.
    pub fn oldest_of_most(&self) -> Option<&I> {
        let ((remaining, of_left), (right, of_right)) = (self.lefts.largest()?, self.rights.largest()?);
        let ranks = if of_right >= of_left { self.of_right.get(right)? } else { self.of_left.get(remaining)? };
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
mod tests {
    use super::*;
    use crate::counted::Counted;

    /// Computes [`Piles::oldest_of_most`] by visiting all items.
    fn looked_up(things: &[(u8, u8, u32, usize)]) -> Option<u32> {
        let sum = |is_in: &dyn Fn(&(u8, u8, u32, usize)) -> bool| -> usize {
            things.iter().filter(|thing| is_in(thing)).map(|thing| thing.3).sum()
        };
        let max = |side: fn(&(u8, u8, u32, usize)) -> u8| {
            let sums = things.iter().map(|thing| (sum(&|other| side(other) == side(thing)), side(thing)));
            sums.max().unwrap_or((0_usize, 0))
        };
        let ((of_left, remaining), (of_right, right)) = (max(|thing| thing.0), max(|thing| thing.1));
        let is_in = |thing: &&(u8, u8, u32, usize)| if of_right >= of_left { thing.1 == right } else { thing.0 == remaining };
        let heaviest = things.iter().filter(is_in).map(|thing| {
            let pile = |other: &&(u8, u8, u32, usize)| (other.0, other.1) == (thing.0, thing.1);
            let weight: usize = things.iter().filter(pile).map(|thing| thing.3).sum();
            (weight, Reverse(things.iter().filter(pile).map(|thing| thing.2).min()))
        });
        heaviest.max().and_then(|(_, Reverse(oldest))| oldest)
    }

    #[test]
    fn the_oldest_of_anyone_who_has_most_is_found_in_random_histories() {
        for seed in 0..100 {
            let (mut random, mut piles, mut things) = (fastrand::Rng::with_seed(seed), Piles::default(), vec![]);
            for id in 0..200 {
                if random.u8(..3) > 0 {
                    let thing = (random.u8(..4), random.u8(..4), id, 1 + random.usize(..9));
                    piles.add(&thing.0, &thing.1, thing.2, thing.3);
                    things.push(thing);
                } else if let Some(oldest) = piles.oldest_of_most().copied() {
                    let (remaining, right, id, weight) = things.remove(things.iter().position(|thing| thing.2 == oldest).unwrap());
                    piles.remove(&remaining, &right, &id, weight);
                }
                assert_eq!(piles.oldest_of_most().copied(), looked_up(&things));
            }
            for (remaining, right, id, weight) in things {
                piles.remove(&remaining, &right, &id, weight);
            }
            assert!(piles.is_empty());
        }
    }

    #[test]
    fn what_goes_first_is_found_in_few_steps_among_many_things() {
        const THINGS: u32 = 100_000;
        let mut piles = Piles::default();
        // Each pile has one item, so there are as many owners and addresses as possible.
        for n in 0..THINGS {
            piles.add(&Counted(n), &Counted(n), Counted(n), 1);
        }
        let steps = Counted::steps(|| {
            for n in THINGS..2 * THINGS {
                piles.add(&Counted(n), &Counted(n), Counted(n), 1);
                let Counted(oldest) = *piles.oldest_of_most().unwrap();
                piles.remove(&Counted(oldest), &Counted(oldest), &Counted(oldest), 1);
            }
        });
        assert!(steps < u64::from(THINGS) * 400, "{steps} steps for {THINGS} things");
    }
}
