//! Joins segments, and keeps their number low.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    recent::RecentIndex,
    segment::{Packer, Segment},
    text::Slot,
};

/// Maximum recent texts before they become a segment.
pub(super) const RECENT: usize = 1_024;
/// Maximum segments of similar size before they are joined.
const ALIKE: usize = 8;

/// A small number of segments of successive texts. Segments of similar size are joined along the
/// way, so that only a part of all texts is ever in memory twice.
#[derive(Default)]
pub struct Segments(Vec<Arc<Segment>>);

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|segment| segment.len())).finish()
    }
}

impl Segments {
    /// Adds the next segment, and joins similar ones.
    pub fn push(&mut self, segment: Segment) {
        self.0.push(Arc::new(segment));
        while let Some(segments) = alike(&self.0) {
            let one = joined(&segments, &RecentIndex::default(), |_| true);
            leave_out(&mut self.0, &segments);
            self.0.push(Arc::new(one));
        }
    }

    pub(super) fn into_inner(self) -> Vec<Arc<Segment>> {
        self.0
    }
}

/// Returns segments of similar size, once there are many.
pub(super) fn alike(segments: &[Arc<Segment>]) -> Option<Vec<Arc<Segment>>> {
    let mut sizes = BTreeMap::<_, Vec<_>>::new();
    for segment in segments {
        sizes.entry((segment.len() / RECENT).max(1).ilog(ALIKE)).or_default().push(Arc::clone(segment));
    }
    sizes.into_values().find(|segments| segments.len() >= ALIKE)
}

pub(super) fn leave_out(segments: &mut Vec<Arc<Segment>>, removed: &[Arc<Segment>]) {
    segments.retain(|segment| !removed.iter().any(|removed| Arc::ptr_eq(removed, segment)));
}

/// Joins segments and recent texts into one segment, without texts that `keep` rejects.
pub(super) fn joined(segments: &[Arc<Segment>], recent: &RecentIndex, mut keep: impl FnMut(Slot) -> bool) -> Segment {
    let mut packed = Packer::for_all_of(segments);
    // For each segment, the number of each of its texts in the new segment.
    let mut numbers = Vec::new();
    for segment in segments {
        let mut take = |(slot, length)| keep(slot).then(|| packed.text(slot, length));
        numbers.push(segment.texts().map(&mut take).collect::<Vec<_>>());
    }
    let recently: BTreeMap<_, _> = recent.slots().map(|slot| (slot, packed.text(slot, recent.length_of(slot)))).collect();
    let mut parts: Vec<_> = segments.iter().map(|segment| segment.stems().peekable()).collect();
    let mut last = recent.stems().peekable();
    let mut positions = Vec::new();
    while let Some(stem) = parts.iter_mut().filter_map(|part| Some(part.peek()?.0)).chain(last.peek().map(|(stem, _)| *stem)).min() {
        positions.clear();
        for (part, numbers) in parts.iter_mut().zip(&numbers) {
            let Some((_, here)) = part.next_if(|(next, _)| *next == stem) else { continue };
            positions.extend(here.filter_map(|(number, weight)| Some((numbers[number]?, weight))));
        }
        if let Some((_, here)) = last.next_if(|(next, _)| *next == stem) {
            let begin = positions.len();
            positions.extend(here.iter().filter_map(|position| Some((*recently.get(&position.slot)?, position.weight))));
            positions[begin..].sort_unstable();
        }
        if !positions.is_empty() {
            packed.stem(stem, &positions);
        }
    }
    packed.done()
}
