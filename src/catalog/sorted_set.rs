//! A persistent sorted set: clones are cheap, the cost of a change hardly depends on its size, and
//! items have little memory overhead.
//!
//! Callers pass the order: a function that compares an item with the requested position.

use std::{cmp::Ordering, sync::Arc};

use imbl::Vector;

/// Maximum items per piece. A change copies the piece. With its two counters, a piece of pointers
/// takes 512 bytes, and one of items twice as large 1,008, which fits size classes of the
/// allocator.
const PIECE: usize = 62;

/// Items in order, without duplicates, in nonempty pieces.
#[derive(Clone)]
pub(super) struct SortedSet<T> {
    pieces: Vector<Arc<[T]>>,
    len: usize,
}

impl<T> Default for SortedSet<T> {
    fn default() -> Self {
        Self { pieces: Vector::new(), len: 0 }
    }
}

/// Collects sorted items without duplicates. All pieces are full.
impl<T> FromIterator<T> for SortedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let (mut sorted, mut items) = (Self::default(), items.into_iter());
        loop {
            let piece: Arc<[T]> = items.by_ref().take(PIECE).collect();
            if piece.is_empty() {
                return sorted;
            }
            sorted.len += piece.len();
            sorted.pieces.push_back(piece);
        }
    }
}

impl<T: Clone> SortedSet<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, order: impl Fn(&T) -> Ordering) -> Option<&T> {
        let (piece, position) = self.find(order);
        Some(&self.pieces.get(piece)?[position.ok()?])
    }

    /// Inserts an item, or replaces an equal one.
    pub(super) fn insert(&mut self, item: T, order: impl Fn(&T) -> Ordering) {
        match self.find(order) {
            (piece, Ok(position)) => self.set(piece, |all| all[position] = item),
            (piece, Err(position)) => {
                self.len += 1;
                // Items after all others extend the last piece.
                let (piece, position) = match self.pieces.last() {
                    None => return self.pieces.push_back(Arc::new([item])),
                    Some(last) if piece == self.pieces.len() => (piece - 1, last.len()),
                    Some(_) => (piece, position),
                };
                self.set(piece, |all| all.insert(position, item));
            }
        }
    }

    pub(super) fn remove(&mut self, order: impl Fn(&T) -> Ordering) {
        let (piece, Ok(position)) = self.find(order) else { return };
        self.len -= 1;
        self.set(piece, |all| _ = all.remove(position));
    }

    pub(super) fn iter(&self) -> Items<'_, T> {
        self.from(0, 0)
    }

    /// Iterates over the items after a position, whether or not there is an item at it.
    pub(super) fn after(&self, order: impl Fn(&T) -> Ordering) -> Items<'_, T> {
        let (piece, position) = self.find(order);
        self.from(piece, position.map_or_else(|position| position, |position| position + 1))
    }

    fn from(&self, piece: usize, position: usize) -> Items<'_, T> {
        let first = self.pieces.get(piece).map_or(&[][..], |first| &first[position..]);
        Items { piece: first.iter(), pieces: &self.pieces, next: piece + 1 }
    }

    /// Returns the first piece whose last item is not before the position, and the place within it.
    fn find(&self, order: impl Fn(&T) -> Ordering) -> (usize, Result<usize, usize>) {
        let (Ok(piece) | Err(piece)) = self.pieces.binary_search_by(|piece| piece.last().map_or(Ordering::Less, &order));
        (piece, self.pieces.get(piece).map_or(Err(0), |piece| piece.binary_search_by(order)))
    }

    /// Changes a piece. Splits it if it becomes too long, removes it if it becomes empty, and joins
    /// it with short neighbors.
    fn set(&mut self, mut piece: usize, change: impl FnOnce(&mut Vec<T>)) {
        let mut all = self.pieces[piece].to_vec();
        change(&mut all);
        if let Some(next) = self.pieces.get(piece + 1)
            && all.len() + next.len() <= PIECE / 2
        {
            all.extend_from_slice(next);
            self.pieces.remove(piece + 1);
        }
        if let Some(before) = piece.checked_sub(1).map(|before| &self.pieces[before])
            && before.len() + all.len() <= PIECE / 2
        {
            all = [before, &all[..]].concat();
            self.pieces.remove(piece);
            piece -= 1;
        }
        match all.len() {
            0 => _ = self.pieces.remove(piece),
            1..=PIECE => _ = self.pieces.set(piece, all.into()),
            // Items that arrive in order fill each piece completely.
            _ if piece + 1 == self.pieces.len() => {
                let last = all.split_off(PIECE);
                self.pieces.set(piece, all.into());
                self.pieces.push_back(last.into());
            }
            len => {
                let second = all.split_off(len / 2);
                self.pieces.set(piece, all.into());
                self.pieces.insert(piece + 1, second.into());
            }
        }
    }
}

/// Iterator over items from a position.
pub(super) struct Items<'s, T> {
    piece: std::slice::Iter<'s, T>,
    pieces: &'s Vector<Arc<[T]>>,
    next: usize,
}

impl<'s, T> Iterator for Items<'s, T> {
    type Item = &'s T;

    fn next(&mut self) -> Option<&'s T> {
        loop {
            if let Some(item) = self.piece.next() {
                return Some(item);
            }
            self.piece = self.pieces.get(self.next)?.iter();
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Compares with a standard set after the same operations.
    fn agree(sorted: &SortedSet<u32>, set: &BTreeSet<u32>) {
        assert!(sorted.iter().eq(set));
        assert_eq!(sorted.len(), set.len());
        assert!(sorted.pieces.iter().all(|piece| (1..=PIECE).contains(&piece.len())));
    }

    #[test]
    fn sorted_set_agrees_with_the_standard_set() {
        let mut random = fastrand::Rng::with_seed(7);
        for many in [0, 1, PIECE as u32 - 1, PIECE as u32, PIECE as u32 + 1, 1_000] {
            let mut set: BTreeSet<u32> = (0..many).map(|n| n * 3).collect();
            let mut sorted: SortedSet<u32> = set.iter().copied().collect();
            agree(&sorted, &set);
            for turn in 0..4_000 {
                let (before, held) = (sorted.clone(), set.clone());
                let n = random.u32(..3_500);
                // First mostly insertions, then mostly removals.
                if random.u32(..4) < if turn < 2_000 { 3 } else { 1 } {
                    set.insert(n);
                    sorted.insert(n, |other| other.cmp(&n));
                } else {
                    set.remove(&n);
                    sorted.remove(|other| other.cmp(&n));
                }
                assert_eq!(sorted.get(|other| other.cmp(&n)).is_some(), set.contains(&n));
                if turn % 100 == 0 {
                    agree(&sorted, &set);
                    agree(&before, &held);
                    let n = random.u32(..3_600);
                    assert!(sorted.after(|other| other.cmp(&n)).eq(set.range(n + 1..)));
                }
            }
        }
    }

    #[test]
    fn pieces_are_full_after_sorted_inserts_and_few_after_removals() {
        let mut sorted: SortedSet<usize> = (0..100 * PIECE).collect();
        assert_eq!(sorted.pieces.len(), 100);
        (100 * PIECE..200 * PIECE).for_each(|n| sorted.insert(n, |other| other.cmp(&n)));
        assert_eq!(sorted.pieces.len(), 200);
        (0..200 * PIECE).filter(|n| n % PIECE != 0).for_each(|n| sorted.remove(|other| other.cmp(&n)));
        assert_eq!(sorted.len(), 200);
        assert!(sorted.pieces.len() <= 13, "{}", sorted.pieces.len());
    }
}
