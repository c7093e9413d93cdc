//! Detection of wallets' seed phrases by their word list and checksum.

use std::ops::Range;

use bip39::{Language, Mnemonic};

/// Finds a wallet's seed phrase, and returns its range.
///
/// It consists of 12 to 24 consecutive words of the BIP-39 list, and few more, with a valid
/// checksum. Many more words are a word list, and so are words in alphabetical order.
pub(super) fn seed_phrase(text: &[u8]) -> Option<Range<usize>> {
    let mut run: Vec<(u16, usize, usize)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if !text[at].is_ascii_alphabetic() {
            at += 1;
            continue;
        }
        let end = at + text[at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let touches =
            |other: Option<&u8>| other.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'_' || *byte == b'$' || *byte >= 0x80);
        let whole = !touches(at.checked_sub(1).and_then(|before| text.get(before))) && !touches(text.get(end));
        let word = if whole { list_index(&text[at..end]) } else { None };
        if run.last().is_some_and(|(_, _, last)| !separates(&text[*last..at])) || word.is_none() {
            if let Some(found) = phrase_in(&run, text) {
                return Some(found);
            }
            run.clear();
        }
        run.extend(word.map(|index| (index, at, end)));
        at = end;
    }
    phrase_in(&run, text)
}

/// Maximum listed words beside a phrase in the text.
const STRAY_WORDS: usize = 3;
/// Maximum bytes between two words of a phrase.
const GAP: usize = 8;

fn separates(gap: &[u8]) -> bool {
    gap.len() <= GAP && gap.iter().all(|byte| byte.is_ascii_whitespace() || byte.is_ascii_digit() || b",\"'`.)+\\;-".contains(byte))
}

fn list_index(word: &[u8]) -> Option<u16> {
    if !(3..=8).contains(&word.len()) {
        return None;
    }
    let word = std::str::from_utf8(word).ok()?.to_ascii_lowercase();
    Language::English.word_list().binary_search(&word.as_str()).ok().and_then(|index| u16::try_from(index).ok())
}

fn phrase_in(run: &[(u16, usize, usize)], text: &[u8]) -> Option<Range<usize>> {
    let found = [24, 21, 18, 15, 12]
        .into_iter()
        .filter(|length| (*length..=*length + STRAY_WORDS).contains(&run.len()))
        .find_map(|length| run.windows(length).find(|window| is_phrase(window) && !is_list_of_names(window, text)))?;
    Some(found[0].1..found[found.len() - 1].2)
}

/// Returns whether many words are joined by a hyphen and others are not, as in a list of CSS properties.
fn is_list_of_names(words: &[(u16, usize, usize)], text: &[u8]) -> bool {
    let is_joined = |pair: &[(u16, usize, usize)]| text[pair[0].2..pair[1].1] == *b"-";
    let joined = words.windows(2).filter(|pair| is_joined(pair)).count();
    joined * 3 >= words.len() && joined + 1 < words.len()
}

fn is_phrase(words: &[(u16, usize, usize)]) -> bool {
    if words.windows(2).all(|pair| pair[0].0 <= pair[1].0) {
        return false;
    }
    let list = Language::English.word_list();
    let words: Vec<_> = words.iter().map(|(index, _, _)| list[usize::from(*index)]).collect();
    Mnemonic::parse_in_normalized(Language::English, &words.join(" ")).is_ok()
}
