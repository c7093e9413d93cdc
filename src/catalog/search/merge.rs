//! Making one segment of what is recent, or of several: what was taken out is left out. It is decided ([`Index::due`]), done without the
//! index ([`Merge::run`]), and taken in ([`Index::adopt`]); one at a time.

use std::{fmt, sync::Arc};

use imbl::Vector;

use super::{
    Index, Item, Slot,
    joined::{RECENT, alike, joined, leave_out},
    recent::Recent,
    segment::Segment,
};

/// What is to become one segment.
pub struct Merge<T> {
    items: Vector<Option<T>>,
    recent: Recent,
    segments: Vec<Arc<Segment>>,
    retired: Vector<Slot>,
    /// Whether nothing is left that is not in it.
    whole: bool,
}

/// The segment that has become of it.
pub struct Merged {
    segment: Segment,
    /// What it was made of.
    recent: Recent,
    segments: Vec<Arc<Segment>>,
    retired: Vector<Slot>,
    whole: bool,
    /// Slots of texts that it leaves out: nothing names them any more.
    left_out: Vec<Slot>,
}

impl<T> fmt::Debug for Merge<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge").field("recent", &self.recent.len()).field("segments", &self.segments.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged").field("texts", &self.segment.len()).field("left_out", &self.left_out.len()).finish_non_exhaustive()
    }
}

impl<T: Item> Index<T> {
    /// What is to become one segment now: what is recent once it is much, all of it once half of the texts in segments were taken out,
    /// else segments that are of about one size.
    #[must_use]
    pub fn due(&self) -> Option<Merge<T>> {
        let merge = |recent: &Recent, segments| Merge {
            items: self.items.clone(),
            recent: recent.clone(),
            segments,
            retired: self.retired.clone(),
            whole: false,
        };
        if self.dead > self.live / 2 + RECENT {
            return Some(Merge { whole: true, ..merge(&self.recent, self.segments.clone()) });
        }
        if self.recent.len() >= RECENT || self.retired.len() >= RECENT {
            return Some(merge(&self.recent, Vec::new()));
        }
        Some(merge(&Recent::default(), alike(&self.segments)?))
    }

    /// Puts a segment in place of what it was made of.
    pub fn adopt(&mut self, merged: Merged) {
        let Merged { segment, recent, segments, retired, whole, left_out } = merged;
        leave_out(&mut self.segments, &segments);
        if !segment.is_empty() {
            self.segments.push(Arc::new(segment));
        }
        // What was taken out meanwhile of what had been recent is in the segment.
        let dead = recent.slots().filter(|slot| !self.recent.remove(*slot)).count();
        self.dead = if whole { dead } else { (self.dead + dead).saturating_sub(left_out.len()) };
        let newly = self.retired.split_off(retired.len());
        self.retired = newly.into_iter().filter(|slot| !recent.has(*slot)).collect();
        self.free.extend(retired.into_iter().chain(left_out));
    }
}

impl<T: Item> Merge<T> {
    /// Makes the segment: about a second for a million texts.
    #[must_use]
    pub fn run(self) -> Merged {
        let Self { items, recent, segments, retired, whole } = self;
        let mut left_out = Vec::new();
        let segment = joined(&segments, &recent, |slot| {
            let is_there = items.get(slot as usize).is_some_and(Option::is_some);
            if !is_there {
                left_out.push(slot);
            }
            is_there
        });
        Merged { segment, recent, segments, retired, whole, left_out }
    }
}
