//! Conversion of texts to stems, and of queries to possible stems.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use rust_stemmers::Algorithm;

/// Maximum length of a query, in characters.
pub(super) const MAX_QUERY: usize = 200;
/// Maximum words of a query that count.
const MAX_QUERY_WORDS: usize = 32;
/// Maximum length of a word, in characters. Longer ones are cut.
const MAX_WORD: usize = 40;
/// Maximum stems for an unfinished last word.
pub(super) const MAX_ENDINGS: usize = 8;
/// Minimum length of a word that may be unfinished, in characters.
const MIN_START: usize = 3;

/// Weight of a stem that is only possibly meant: a synonym, or a completion.
const OTHER_WORD: f32 = 0.4;
const OTHER_ENDING: f32 = 0.5;

/// Stop words, which belong to the wording of a query and not to its subject.
const STOP: &str = "a about after all also am an and any anybody anyone anything are as at be because been before being between both but by \
    can could d did do does doing done each every for from get give go gonna got had has have having he her here hers him his how i if in into \
    is it its just let like ll m make me mine my myself need needs no nor not of off on once one only onto or other our out over own please \
    put re s same seem she should so some somebody someone something stuff such t tell than that the their them then there these they thing \
    things this those through to tool tools too under until up us use used using ve very via want wants was way we well were what whatever when where \
    whether which while who whom whose why will with within without would you your yours";

/// Synonyms in requests for tools. There are only few, and none with other common meanings, because
/// a wrong one costs more than a missing one.
const SAME: &[&str] = &[
    "convert transform turn change conversion",
    "translate translation interpret",
    "summarize summarise summary shorten condense digest abstract tldr brief gist",
    "find search lookup locate discover retrieve fetch",
    "create generate generator build produce compose",
    "write draft compose",
    "remove delete strip erase drop",
    "check validate verify validator checker test confirm valid",
    "compare comparison diff difference versus",
    "calculate calculator compute computation estimate",
    "price cost fee rate quote expensive cheap",
    "picture image photo photograph pic",
    "email mail inbox",
    "company business firm corporation organization enterprise",
    "phone telephone mobile",
    "movie film cinema",
    "car vehicle auto automobile",
    "house home property apartment",
    "job career vacancy hiring employment",
    "doctor physician clinic",
    "medicine drug medication pill",
    "buy purchase shop order",
    "money cash currency",
    "stock share equity",
    "cryptocurrency crypto coin token",
    "tax vat duty",
    "pay payment salary wage",
    "weather forecast",
    "rain precipitation",
    "trip travel journey vacation holiday",
    "flight plane airline",
    "hotel accommodation lodging",
    "distance far",
    "route directions way",
    "place location address",
    "country nation",
    "word term vocabulary",
    "meaning definition define dictionary",
    "misspelling spelling typo spell spellcheck",
    "language lingo tongue",
    "random dice shuffle",
    "password passphrase",
    "encrypt cipher encryption",
    "hash checksum fingerprint",
    "file document",
    "table spreadsheet",
    "shrink compress reduce minify smaller",
    "enlarge upscale bigger",
    "merge combine join concatenate",
    "split divide separate cut",
    "extract pull scrape parse",
    "recognize detect identify recognition detection",
    "website site webpage page web",
    "link url",
    "speech voice spoken audio sound",
    "transcribe transcript transcription",
    "subtitle caption",
    "song music track",
    "recipe cook cooking meal dish",
    "food nutrition diet",
    "news headline article press",
    "sentiment mood tone opinion",
    "time clock hour",
    "date day calendar",
    "schedule plan appointment",
    "remind reminder notify alert notification",
    "chart graph plot",
    "error bug mistake fault",
    "code source program",
    "explain explanation understand clarify",
    "learn study teach lesson course",
    "child kid baby",
    "animal pet",
    "sick ill disease illness",
    "law legal",
    "contract agreement",
    "person people human",
    "name title",
    "old age",
    "big size large",
    "rank ranking top best",
    "review rating feedback",
    "fake fraud scam phishing",
    "safe secure security",
    "fast speed quick performance",
];

/// For each stem, the stems of its synonyms.
static OTHERS: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let stemmer = Stemmer::default();
    let mut others = BTreeMap::<String, BTreeSet<String>>::new();
    for group in SAME {
        let group: BTreeSet<_> = group.split(' ').map(|word| stemmer.stem(word)).collect();
        for stem in &group {
            others.entry(stem.clone()).or_default().extend(group.iter().filter(|other| *other != stem).cloned());
        }
    }
    others
});

static STOPPED: LazyLock<BTreeSet<&str>> = LazyLock::new(|| STOP.split_ascii_whitespace().collect());

/// Stems English words. Words of other languages mostly stay unchanged.
pub(super) struct Stemmer(rust_stemmers::Stemmer);

impl Default for Stemmer {
    fn default() -> Self {
        Self(rust_stemmers::Stemmer::create(Algorithm::English))
    }
}

impl Stemmer {
    fn stem(&self, word: &str) -> String {
        self.0.stem(word).into_owned()
    }

    /// Iterates over the stems of a text in order, without stop words.
    pub(super) fn stems(&self, text: &str) -> impl Iterator<Item = String> {
        words(text).filter(|word| !STOPPED.contains(word.as_str())).map(|word| self.stem(&word))
    }

    /// Iterates over the stems of adjacent words joined to one.
    pub(super) fn joined(&self, text: &str) -> impl Iterator<Item = String> {
        let words: Vec<_> = words(text).collect();
        (1..words.len()).map(move |second| self.stem(&[words[second - 1].as_str(), words[second].as_str()].concat()))
    }
}

/// Iterates over the words of a text in lowercase.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word.chars().take(MAX_WORD).flat_map(char::to_lowercase).collect())
}

/// A search query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The stems of its words, without duplicates.
    stems: Vec<String>,
    /// Stems of adjacent words joined to one. They count if a text has them.
    joined: Vec<String>,
    /// The last word as typed, and its stem. It may be unfinished.
    last: Option<(String, String)>,
}

/// A query exceeds [`Query::MAX_CHARS`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the query must have at most {} characters", Query::MAX_CHARS)]
pub struct TooLong;

impl Query {
    /// Maximum length of a query, in characters.
    pub const MAX_CHARS: usize = MAX_QUERY;

    /// Parses a query. Words after the first 32 are ignored.
    pub fn parse(text: &str) -> Result<Self, TooLong> {
        if text.chars().nth(MAX_QUERY).is_some() {
            return Err(TooLong);
        }
        let stemmer = Stemmer::default();
        let mut stems = Vec::new();
        for stem in stemmer.stems(text).take(MAX_QUERY_WORDS) {
            if !stems.contains(&stem) {
                stems.push(stem);
            }
        }
        let joined = stemmer.joined(text).take(MAX_QUERY_WORDS).collect();
        let last = words(text).last().filter(|word| word.chars().count() >= MIN_START && !STOPPED.contains(word.as_str()));
        let last = last.map(|word| {
            let stem = stemmer.stem(&word);
            (word, stem)
        });
        Ok(Self { stems, joined, last })
    }

    /// Looks up each possible stem with `known`, and completions with `beginning`. Returns the
    /// results with their weights.
    pub(super) fn stems<'a, P: 'a, I: Iterator<Item = P>>(
        &'a self,
        known: impl Fn(&str) -> Option<P> + 'a,
        beginning: impl Fn(&'a str) -> I,
    ) -> impl Iterator<Item = (P, f32)> {
        let unfinished = self.last.iter().filter(|(_, stem)| known(stem).is_none());
        let endings: Vec<_> = unfinished.flat_map(|(word, _)| beginning(word)).map(|found| (found, OTHER_ENDING)).collect();
        let mut weights = BTreeMap::<&str, f32>::new();
        for stem in self.stems.iter().chain(&self.joined) {
            for other in OTHERS.get(stem).into_iter().flatten() {
                weights.insert(other, OTHER_WORD);
            }
        }
        weights.extend(self.stems.iter().chain(&self.joined).map(|stem| (stem.as_str(), 1.0)));
        let whole = weights.into_iter().filter_map(move |(stem, weight)| Some((known(stem)?, weight)));
        whole.chain(endings)
    }
}
