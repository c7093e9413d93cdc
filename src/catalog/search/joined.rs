//! One segment of several, and few of many.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    recent::Recent,
    segment::{Packer, Segment},
    text::Slot,
};

/// Texts that are recent, at most, before they become a segment.
pub(super) const RECENT: usize = 1_024;
/// Segments of about one size, at most, before they become one.
const ALIKE: usize = 8;

/// Segments of texts that come one after the other, few however many come: those that are of about one size become one on the way, so that
/// never more than a part of all is there twice.
#[derive(Default)]
pub struct Segments(Vec<Arc<Segment>>);

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|segment| segment.len())).finish()
    }
}

impl Segments {
    /// Puts in what comes next, and makes one of those that are alike.
    pub fn push(&mut self, segment: Segment) {
        self.0.push(Arc::new(segment));
        while let Some(segments) = alike(&self.0) {
            let one = joined(&segments, &Recent::default(), |_| true);
            leave_out(&mut self.0, &segments);
            self.0.push(Arc::new(one));
        }
    }

    pub(super) fn into_inner(self) -> Vec<Arc<Segment>> {
        self.0
    }
}

/// Those that are of about one size, once they are many.
pub(super) fn alike(segments: &[Arc<Segment>]) -> Option<Vec<Arc<Segment>>> {
    let mut sizes = BTreeMap::<_, Vec<_>>::new();
    for segment in segments {
        sizes.entry((segment.len() / RECENT).max(1).ilog(ALIKE)).or_default().push(Arc::clone(segment));
    }
    sizes.into_values().find(|segments| segments.len() >= ALIKE)
}

pub(super) fn leave_out(segments: &mut Vec<Arc<Segment>>, gone: &[Arc<Segment>]) {
    segments.retain(|segment| !gone.iter().any(|gone| Arc::ptr_eq(gone, segment)));
}

/// One segment of several, without the texts that `keep` does not take, and of what is recent.
pub(super) fn joined(segments: &[Arc<Segment>], recent: &Recent, mut keep: impl FnMut(Slot) -> bool) -> Segment {
    let mut packed = Packer::for_all_of(segments);
    // For each part the number that each of its texts has in the segment.
    let mut numbers = Vec::new();
    for segment in segments {
        let mut take = |(slot, length)| keep(slot).then(|| packed.text(slot, length));
        numbers.push(segment.texts().map(&mut take).collect::<Vec<_>>());
    }
    let recently: BTreeMap<_, _> = recent.slots().map(|slot| (slot, packed.text(slot, recent.length_of(slot)))).collect();
    let mut parts: Vec<_> = segments.iter().map(|segment| segment.stems().peekable()).collect();
    let mut last = recent.stems().peekable();
    let mut places = Vec::new();
    while let Some(stem) = parts.iter_mut().filter_map(|part| Some(part.peek()?.0)).chain(last.peek().map(|(stem, _)| *stem)).min() {
        places.clear();
        for (part, numbers) in parts.iter_mut().zip(&numbers) {
            let Some((_, here)) = part.next_if(|(next, _)| *next == stem) else { continue };
            places.extend(here.filter_map(|(number, weight)| Some((numbers[number]?, weight))));
        }
        if let Some((_, here)) = last.next_if(|(next, _)| *next == stem) {
            let begin = places.len();
            places.extend(here.iter().filter_map(|place| Some((*recently.get(&place.slot)?, place.weight))));
            places[begin..].sort_unstable();
        }
        if !places.is_empty() {
            packed.stem(stem, &places);
        }
    }
    packed.done()
}
