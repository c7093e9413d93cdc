//! Merging of recent texts or several segments into one segment, without removed texts. The steps
//! are [`Index::due`], which decides, [`Merge::run`], which works without the index, and
//! [`Index::adopt`], which installs the result. Only one merge runs at a time.

use std::{fmt, sync::Arc};

use imbl::Vector;

use super::{
    Index, Item, Slot,
    recent::RecentIndex,
    segment::Segment,
    segments::{RECENT, alike, joined, leave_out},
};

/// Inputs of a merge.
pub struct Merge<T> {
    items: Vector<Option<T>>,
    recent: RecentIndex,
    segments: Vec<Arc<Segment>>,
    retired: Vector<Slot>,
    /// Whether it includes everything.
    whole: bool,
}

/// The result of a merge.
pub struct Merged {
    segment: Segment,
    /// Inputs of the merge.
    recent: RecentIndex,
    segments: Vec<Arc<Segment>>,
    retired: Vector<Slot>,
    whole: bool,
    /// Slots of texts that it leaves out. Nothing refers to them any more.
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
    /// Returns the merge that is needed now, if any: of recent texts if there are many, of
    /// everything if half of the texts in segments were removed, else of segments of similar size.
    #[must_use]
    pub fn due(&self) -> Option<Merge<T>> {
        let merge = |recent: &RecentIndex, segments| Merge {
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
        Some(merge(&RecentIndex::default(), alike(&self.segments)?))
    }

    /// Replaces the inputs of a merge with its result.
    pub fn adopt(&mut self, merged: Merged) {
        let Merged { segment, recent, segments, retired, whole, left_out } = merged;
        leave_out(&mut self.segments, &segments);
        if !segment.is_empty() {
            self.segments.push(Arc::new(segment));
        }
        // Texts that were removed from the recent ones meanwhile are in the segment.
        let dead = recent.slots().filter(|slot| !self.recent.remove(*slot)).count();
        self.dead = if whole { dead } else { (self.dead + dead).saturating_sub(left_out.len()) };
        let newly = self.retired.split_off(retired.len());
        self.retired = newly.into_iter().filter(|slot| !recent.has(*slot)).collect();
        self.free.extend(retired.into_iter().chain(left_out));
    }
}

impl<T: Item> Merge<T> {
    /// Runs the merge. Takes about a second for a million texts.
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
