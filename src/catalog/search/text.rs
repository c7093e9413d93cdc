//! Indexed texts, and the weights of their words.

use std::collections::BTreeMap;

use super::stemming::Stemmer;

/// Maximum indexed words of a text. Further words are not found.
const MAX_WORDS: usize = 500;

/// Weight of an occurrence in each field, in [`UNIT`]s.
const SLUG: u16 = 3;
const TITLE: u16 = 4;
const TAG: u16 = 3;
const DESCRIPTION: u16 = 2;

/// The unit of weights, relative to the weight of an occurrence in a description.
pub(super) const UNIT: f32 = 0.5;

/// The fields of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    pub slug: &'a str,
    pub title: &'a str,
    pub tags: &'a [String],
    pub description: &'a str,
}

/// A text's position in an index, valid until the text is removed.
pub type Slot = u32;

/// The stems of a text.
#[derive(Debug)]
pub struct WeighedText {
    /// Each stem with the sum of the field weights of its occurrences.
    pub(super) stems: BTreeMap<String, u16>,
}

impl WeighedText {
    /// Converts a text to its stems.
    pub fn of(text: &Text<'_>) -> Self {
        let mut stems = BTreeMap::<_, u16>::new();
        let mut add = |stem, weight| {
            let sum = stems.entry(stem).or_default();
            *sum = sum.saturating_add(weight);
        };
        let stemmer = Stemmer::default();
        let tags = text.tags.iter().map(|tag| (tag.as_str(), TAG));
        // Compound names match in both spellings: `time-zone` is also found as `timezone`.
        for (field, weight) in [(text.slug, SLUG), (text.title, TITLE)].into_iter().chain(tags) {
            stemmer.stems(field).chain(stemmer.joined(field)).take(MAX_WORDS).for_each(|stem| add(stem, weight));
        }
        stemmer.stems(text.description).take(MAX_WORDS).for_each(|stem| add(stem, DESCRIPTION));
        Self { stems }
    }

    /// Returns the sum of the weights.
    pub(super) fn length(&self) -> u16 {
        self.stems.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}
