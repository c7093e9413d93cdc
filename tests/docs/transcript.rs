//! Comparison of a command's output with the output in a document.
//!
//! White space does not count, because output for people is aligned. `…` stands for any text. Values
//! that differ between runs are compared by kind: ids, times, durations, hashes, keys and addresses.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

/// Kinds of values that differ between runs. Earlier ones take precedence.
static KINDS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let kinds = [
        ("‹id›", r"(?-u:\b)[a-z]{2,5}_([0-9A-Za-z_-]{10,}|…)"),
        ("‹uuid›", r"(?-u:\b)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?-u:\b)"),
        ("‹hex›", r"sha256:[0-9a-f]+…?|(?-u:\b)0x[0-9a-fA-F]+…[0-9a-fA-F]+|(?-u:\b)0x[0-9a-fA-F]{8,}|(?-u:\b)[0-9a-f]{8,}(?-u:\b)"),
        ("‹key›", r"(?-u:\b)[A-Za-z0-9_-]{40,}"),
        (
            "‹time›",
            r"(?-u:\b)[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}[:-][0-9]{2}([:-][0-9]{2}(\.[0-9]+)?)?Z?|T…)?|(?-u:\b)[0-9]{2}:[0-9]{2}:[0-9]{2}(?-u:\b)",
        ),
        ("‹duration›", r"(?-u:\b)[0-9]+(\.[0-9]+)? (ms|µs|s)(?-u:\b)"),
        ("‹ms›", r#"[a-zA-Z]+Ms":[ ]*[0-9]+(\.[0-9]+)?"#),
    ];
    kinds.into_iter().map(|(name, pattern)| (name, Regex::new(pattern).expect("the pattern is valid"))).collect()
});

/// The values of a text in order, by kind. Only whole ones can be used in commands.
fn values(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    let mut rest = text.to_owned();
    for (name, pattern) in &KINDS[..4] {
        for value in pattern.find_iter(&rest) {
            // An id with another prefix is another kind.
            let kind = if *name == "‹id›" { value.as_str().split('_').next().unwrap_or_default() } else { name };
            let values = found.entry(kind.to_owned()).or_default();
            if !value.as_str().contains('…') && !values.iter().any(|known| known == value.as_str()) {
                values.push(value.as_str().to_owned());
            }
        }
        rest = pattern.replace_all(&rest, " ").into_owned();
    }
    found
}

/// Returns the text with kinds in place of values.
fn by_kind(text: &str) -> String {
    KINDS.iter().fold(text.to_owned(), |text, (name, pattern)| pattern.replace_all(&text, *name).into_owned())
}

/// Splits a text into words and marks, without white space.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |char: char| char.is_alphanumeric() || "_‹›".contains(char);
    let (mut tokens, mut rest) = (vec![], text);
    while let Some(first) = rest.chars().next() {
        let end = match is_word(first) {
            true => rest.find(|char| !is_word(char)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        tokens.extend((!first.is_whitespace()).then(|| &rest[..end]));
        rest = &rest[end..];
    }
    tokens
}

/// Returns whether the output is as in the document.
pub(crate) fn matches(documented: &str, output: &str) -> bool {
    let (documented, output) = (by_kind(documented), by_kind(output));
    let (expected, found) = (tokens(&documented), tokens(&output));
    let (mut at, mut here) = (0, 0);
    // The last gap, and the first token after what it covers.
    let mut gap = None;
    while here < found.len() {
        if expected.get(at) == Some(&"…") {
            (gap, at) = (Some((at, here)), at + 1);
        } else if expected.get(at) == Some(&found[here]) {
            (at, here) = (at + 1, here + 1);
        } else if let Some((position, covered)) = gap {
            (gap, at, here) = (Some((position, covered + 1)), position + 1, covered + 1);
        } else {
            return false;
        }
    }
    expected[at..].iter().all(|token| *token == "…")
}

/// Adds the value of this run for each value of the document.
pub(crate) fn learn(documented: &str, output: &str, known: &mut BTreeMap<String, String>) {
    let here = values(output);
    for (kind, documented) in values(documented) {
        for (old, new) in documented.into_iter().zip(here.get(&kind).into_iter().flatten()) {
            known.entry(old).or_insert_with(|| new.clone());
        }
    }
}

#[test]
fn output_with_other_ids_and_times_is_the_same() {
    let documented = "paid $0.001 (simulated)  rcpt_01M8MS40Y9AREZ4TMQD4P02JK9  0.0 s\n23:06:48  f8430f40\n";
    assert!(matches(documented, "paid $0.001 (simulated) rcpt_01AAAAAAAAAAAAAAAAAAAAAAAA 12.5 s\n01:00:00    aaaaaaaa"));
    assert!(!matches(documented, "paid $0.002 (simulated) rcpt_01AAAAAAAAAAAAAAAAAAAAAAAA 12.5 s\n01:00:00    aaaaaaaa"));
    assert!(!matches(documented, "paid $0.001 (simulated) pay 12.5 s\n01:00:00    aaaaaaaa"));
    assert!(matches("{\"a\":1,…,\"cpuMs\":2.5}", "{\n  \"a\": 1,\n  \"b\": [2],\n  \"cpuMs\": 11\n}"));
    assert!(matches("at 2026-11-29T….tar", "at 2026-01-02T03-04-05.678Z.tar"));
    assert!(matches("…\nlast\n", "first\nsecond\nlast\n") && matches("…\nlast\n", "last") && !matches("…\nlast\n", "last one"));
}

#[test]
fn values_of_the_document_are_replaced_by_those_of_the_run() {
    let mut known = BTreeMap::new();
    learn("0xc6C1554B65702040 rcpt_01M8MS40Y99 pmt_aaaaaaaaaa…", "0x1111111111111111 pmt_bbbbbbbbbb rcpt_02AAAAAAAA9", &mut known);
    assert_eq!(known.get("rcpt_01M8MS40Y99").map(String::as_str), Some("rcpt_02AAAAAAAA9"));
    assert_eq!(known.get("0xc6C1554B65702040").map(String::as_str), Some("0x1111111111111111"));
}
