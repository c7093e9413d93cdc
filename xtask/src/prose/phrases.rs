//! Phrases that a rule forbids, as patterns of words.
//!
//! A pattern is a list of words. `a|b` matches either word, `#` a number of one or two digits. At the end, `!a|b`
//! requires that none of these words follows, and `$` that the clause ends. Matching ignores case and does not cross
//! punctuation.

use std::{collections::HashMap, sync::LazyLock};

use super::{passage::Word, rule::Rule};

/// A pattern, and the text to write instead.
type Phrase = (&'static str, &'static str);

/// The words of our style guide, in the senses in which it excludes them.
const WORDS: &[Phrase] = &[
    ("stands|stand|stood|standing in !for", "is in, is defined in, contains"),
    ("anew", "again"),
    ("of late $", "recently"),
    ("take|takes|took|taken|taking back", "cancel, revoke, withdraw"),
    ("take|takes|took|taken|taking it|them|this back", "cancel, revoke, withdraw"),
    ("is|are|was|were|be|been away !from", "unavailable, down"),
    ("to be had", "available"),
    ("by itself|himself|themselves", "automatically, on its own"),
    ("its|their|a|this|each|every most $", "limit, maximum"),
    ("its|a|this|each|every most of|is|was|that|per|for", "limit, maximum"),
    ("let|lets|letting go|loose", "remove, release, drop"),
    ("let|lets|letting it|them|this go", "remove, release, drop"),
    ("mend|mends|mended|mending", "fix"),
    ("json member|members", "field"),
    ("member|members of the|a|an|its body|object|json|request|answer|response|challenge|payload|input|manifest", "field"),
    ("the|a|an|its|each|every|other|both|all|two|host's|one|any face|faces", "interface, front end"),
    ("door|doors", "interface, front end"),
    ("end|ends|ended with #", "ends with exit code N"),
    ("is|are the most milliseconds|seconds|bytes|characters|calls|requests|rows|files", "the maximum number of"),
    ("a|an|the|one|each|every|this|builder's packet|packets", "payout"),
];

/// Phrases for information that somebody gets.
const TOLD: &[Phrase] = &[("is|are|was|were|be|been|being|gets told", "gets, sees, receives"), ("tells", "reports, explains, shows")];

/// British spellings.
const SPELLINGS: &[Phrase] = &[
    ("cancelled", "canceled"),
    ("cancelling", "canceling"),
    ("behaviour", "behavior"),
    ("behaviours", "behaviors"),
    ("colour", "color"),
    ("colours", "colors"),
    ("coloured", "colored"),
    ("favour|favours|favoured|favourite", "favor, favorite"),
    ("honour|honours|honoured", "honor"),
    ("neighbour|neighbours|neighbouring", "neighbor"),
    ("labelled|labelling", "labeled, labeling"),
    ("signalled|signalling", "signaled, signaling"),
    ("modelled|modelling", "modeled, modeling"),
    ("travelled|travelling|traveller", "traveled, traveling"),
    ("licence|licences", "license"),
    ("defence|offence", "defense, offense"),
    ("catalogue|catalogues", "catalog"),
    ("centre|centres|centred", "center"),
    ("grey", "gray"),
    ("analyse|analyses|analysed|analysing", "analyze"),
    ("fulfil|fulfils|fulfilment", "fulfill"),
    ("judgement|artefact|artefacts", "judgment, artifact"),
    ("any more $", "anymore, or: no longer"),
    ("whilst|amongst|learnt|spelt", "while, among, learned, spelled"),
];

/// Verbs that people read as a permission and as a guess. Comments can have them.
const MAY: &[Phrase] = &[("may", "can, is allowed to, or: is possibly")];

/// All phrases by their first words, in lower case.
static PHRASES: LazyLock<HashMap<&'static str, Vec<(Rule, Phrase)>>> = LazyLock::new(|| {
    let mut phrases = HashMap::<_, Vec<_>>::new();
    for (rule, rows) in [(Rule::Word, WORDS), (Rule::Told, TOLD), (Rule::Spelling, SPELLINGS), (Rule::May, MAY)] {
        for row in rows {
            for first in row.0.split(' ').next().unwrap_or_default().split('|') {
                phrases.entry(first).or_default().push((rule, *row));
            }
        }
    }
    phrases
});

/// Returns the first phrase of each rule that the words begin with: the rule, the number of words, and the text to write
/// instead.
pub(super) fn find(words: &[Word<'_>]) -> Vec<(Rule, usize, &'static str)> {
    let first = words.first().map(|word| word.text.to_lowercase()).unwrap_or_default();
    let mut found: Vec<(Rule, usize, &'static str)> = Vec::new();
    for (rule, (pattern, instead)) in PHRASES.get(first.as_str()).into_iter().flatten() {
        if let Some(count) = matched(pattern, words).filter(|_| found.iter().all(|(other, ..)| other != rule)) {
            found.push((*rule, count, instead));
        }
    }
    found
}

/// Returns the number of words that the pattern matches at the start of `words`.
fn matched(pattern: &str, words: &[Word<'_>]) -> Option<usize> {
    let mut count = 0;
    for part in pattern.split(' ') {
        let next = words.get(count).filter(|word| count == 0 || !word.is_first);
        let is_any = |names: &str, word: &Word<'_>| names.split('|').any(|name| name.eq_ignore_ascii_case(word.text));
        let fits = match part {
            "$" => {
                if next.is_some() {
                    return None;
                }
                continue;
            }
            "#" => next.is_some_and(|word| word.text.len() <= 2 && word.text.bytes().all(|byte| byte.is_ascii_digit())),
            _ => match part.strip_prefix('!') {
                Some(names) => {
                    if next.is_some_and(|word| is_any(names, word)) {
                        return None;
                    }
                    continue;
                }
                None => next.is_some_and(|word| is_any(part, word)),
            },
        };
        if !fits {
            return None;
        }
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::{super::passage::words, *};

    fn finds(pattern: &str, text: &str) -> bool {
        let words = words(text);
        (0..words.len()).any(|at| matched(pattern, &words[at..]).is_some())
    }

    #[test]
    fn patterns_match_words_and_not_parts_of_them() {
        assert!(finds("a|b c", "say A c"));
        assert!(!finds("a|b c", "say a cat"));
        assert!(!finds("a|b c", "say a, c"));
    }

    #[test]
    fn lookaheads_and_numbers_match() {
        assert!(finds("stands in !for", "it stands in the table"));
        assert!(finds("stands in !for", "where it stands in"));
        assert!(!finds("stands in !for", "it stands in for a value"));
        assert!(finds("of late $", "was called of late, and more"));
        assert!(!finds("of late $", "a number of late answers"));
        assert!(finds("ends with #", "the command ends with 3"));
        assert!(!finds("ends with #", "the command ends with exit code 3"));
        assert!(!finds("ends with #", "the call ends with 502"));
    }
}
