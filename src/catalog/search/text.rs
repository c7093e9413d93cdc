//! Texts, and what their words weigh.

use std::collections::BTreeMap;

use super::words::Stemmer;

/// Words of a text that are indexed: those behind them are not found.
const MAX_WORDS: usize = 500;

/// What a place of each field weighs, in [`UNIT`]s.
const SLUG: u16 = 3;
const TITLE: u16 = 4;
const TAG: u16 = 3;
const DESCRIPTION: u16 = 2;

/// What is counted when places are weighed, beside the weight of a place in a description.
pub(super) const UNIT: f32 = 0.5;

/// The fields of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// What it is called by.
    pub slug: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Its tags.
    pub tags: &'a [String],
    /// What it says of itself.
    pub description: &'a str,
}

/// A text's place in an index: its own until it is taken out.
pub type Slot = u32;

/// The stems of a text, with what the fields that they stand in weigh.
pub(super) fn weighed(text: &Text<'_>) -> BTreeMap<String, u16> {
    let mut stems = BTreeMap::<_, u16>::new();
    let mut add = |stem, weight| {
        let sum = stems.entry(stem).or_default();
        *sum = sum.saturating_add(weight);
    };
    let stemmer = Stemmer::default();
    let tags = text.tags.iter().map(|tag| (tag.as_str(), TAG));
    let fields = [(text.slug, SLUG), (text.title, TITLE)].into_iter().chain(tags);
    // Names are written together or apart: `time-zone` is found as `timezone` too.
    for (field, weight) in fields {
        stemmer.stems(field).chain(stemmer.joined(field)).take(MAX_WORDS).for_each(|stem| add(stem, weight));
    }
    stemmer.stems(text.description).take(MAX_WORDS).for_each(|stem| add(stem, DESCRIPTION));
    stems
}

/// What a text's stems weigh together: how long it is.
pub(super) fn length<'s>(weights: impl Iterator<Item = &'s u16>) -> u16 {
    weights.fold(0, |sum, weight| sum.saturating_add(*weight))
}
