//! A line of a comparison, cut to the shown part, with marks where it differs from its counterpart.

use std::time::Instant;

use similar::DiffOp;
use tollhouse_base::diff;

use crate::parts::text::shown_bytes;

/// Maximum shown characters of a piece.
const MAX_CHARS: usize = 400;
/// Shown characters beside a mark, if an unchanged piece is longer.
const CONTEXT: usize = 80;
/// Approximate size of a piece without its text, in bytes.
const PIECE_BYTES: usize = 26;

/// Maximum additional bytes of an escaped character.
const ESCAPE_BYTES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Unchanged, or not compared.
    Same(&'a str),
    /// Missing in the other line.
    Marked(&'a str),
    /// Number of omitted characters.
    Left(usize),
}

impl Piece<'_> {
    /// Returns the approximate size of its markup.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Same(text) | Self::Marked(text) => {
                PIECE_BYTES + shown_bytes(text) + ESCAPE_BYTES * text.matches(['&', '<', '>', '"']).count()
            }
            Self::Left(_) => 2 * PIECE_BYTES,
        }
    }
}

/// Returns a line without a counterpart.
pub(super) fn alone(line: &str) -> Vec<Piece<'_>> {
    head(line, MAX_CHARS, Piece::Same)
}

/// Returns two lines that correspond to each other.
pub(super) fn pair<'a>(old: &'a str, new: &'a str, deadline: Instant) -> (Vec<Piece<'a>>, Vec<Piece<'a>>) {
    let begin = common(old.chars().zip(new.chars()));
    let (begin_of_old, rest_of_old) = old.split_at(begin);
    let rest_of_new = &new[begin..];
    let end = common(rest_of_old.chars().rev().zip(rest_of_new.chars().rev()));
    let (old_middle, end_of_both) = rest_of_old.split_at(rest_of_old.len() - end);
    let new_middle = &rest_of_new[..rest_of_new.len() - end];
    let (mut before, mut after, same) = middles(old_middle, new_middle, deadline);
    // Marks are useless if the lines have almost nothing in common.
    if (begin + end + same) * 3 < old.len().max(new.len()) {
        return (alone(old), alone(new));
    }
    for pieces in [&mut before, &mut after] {
        pieces.splice(0..0, tail(begin_of_old));
        pieces.extend(head(end_of_both, CONTEXT, Piece::Same));
    }
    (before, after)
}

/// Returns the length of a common prefix, in bytes.
fn common(pairs: impl Iterator<Item = (char, char)>) -> usize {
    pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

/// Returns the pieces between common prefix and suffix, compared by words if they are short, and
/// the number of equal bytes.
fn middles<'a>(old: &'a str, new: &'a str, deadline: Instant) -> (Vec<Piece<'a>>, Vec<Piece<'a>>, usize) {
    let is_long = |text: &str| text.chars().nth(MAX_CHARS).is_some();
    if is_long(old) || is_long(new) || Instant::now() > deadline {
        return (head(old, MAX_CHARS, Piece::Marked), head(new, MAX_CHARS, Piece::Marked), 0);
    }
    let (olds, news) = (tokens(old), tokens(new));
    let (mut before, mut after, mut same) = (Pieces::new(old), Pieces::new(new), 0);
    for op in diff::operations(&olds, &news, Some(deadline)) {
        let (removed, come) = (bytes(&olds[op.old_range()]), bytes(&news[op.new_range()]));
        let kind = if let DiffOp::Equal { .. } = op { Piece::Same } else { Piece::Marked };
        if let DiffOp::Equal { .. } = op {
            same += removed;
        }
        before.push(removed, kind);
        after.push(come, kind);
    }
    (before.pieces, after.pieces, same)
}

/// A text that is consumed from its start.
struct Pieces<'a> {
    rest: &'a str,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Pieces<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, pieces: vec![] }
    }

    fn push(&mut self, bytes: usize, kind: fn(&'a str) -> Piece<'a>) {
        let (piece, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        if !piece.is_empty() {
            self.pieces.push(kind(piece));
        }
    }
}

fn bytes(tokens: &[&str]) -> usize {
    tokens.iter().map(|token| token.len()).sum()
}

/// Splits into words, runs of white space, and single other characters.
fn tokens(text: &str) -> Vec<&str> {
    let kind = |char: char| match char {
        _ if char.is_alphanumeric() || char == '_' => Some(true),
        _ if char.is_whitespace() => Some(false),
        _ => None,
    };
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let of_other_kind = |char| kind(char) != kind(first);
        let end = if kind(first).is_some() { rest.find(of_other_kind).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// Returns the first characters of a text, and the number of omitted ones after them.
fn head<'a>(text: &'a str, chars: usize, kind: fn(&'a str) -> Piece<'a>) -> Vec<Piece<'a>> {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let remaining = text[end..].chars().count();
    let shown = (end > 0).then(|| kind(&text[..end]));
    shown.into_iter().chain((remaining > 0).then_some(Piece::Left(remaining))).collect()
}

/// Returns the last characters of a text, and the number of omitted ones before them.
fn tail(text: &str) -> Vec<Piece<'_>> {
    let begin = text.char_indices().rev().nth(CONTEXT - 1).map_or(0, |(at, _)| at);
    let remaining = text[..begin].chars().count();
    let shown = (begin < text.len()).then(|| Piece::Same(&text[begin..]));
    (remaining > 0).then_some(Piece::Left(remaining)).into_iter().chain(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        Piece::{Left, Marked, Same},
        *,
    };

    fn paired<'a>(old: &'a str, new: &'a str) -> (Vec<Piece<'a>>, Vec<Piece<'a>>) {
        pair(old, new, Instant::now() + Duration::from_secs(9))
    }

    #[test]
    fn differing_words_are_marked() {
        let (before, after) = paired("const a = one(two, 3);", "const a = uno(two, 4);");
        assert_eq!(before, [Same("const a = "), Marked("one"), Same("(two, "), Marked("3"), Same(");")]);
        assert_eq!(after, [Same("const a = "), Marked("uno"), Same("(two, "), Marked("4"), Same(");")]);
        assert_eq!(paired("ab", "a").0, [Same("a"), Marked("b")]);
        assert_eq!(paired("ab", "a").1, [Same("a")]);
        assert_eq!(paired("áé", "áí"), (vec![Same("á"), Marked("é")], vec![Same("á"), Marked("í")]));
        assert_eq!(paired("all of it", "1 + 2"), (vec![Same("all of it")], vec![Same("1 + 2")]), "hardly anything is the same");
    }

    #[test]
    fn long_lines_are_cut_around_differences() {
        let (same, old, new) = ("é".repeat(1_000), "x".repeat(500), "y".repeat(300));
        let (before, after) = (format!("{same}{old}{same}"), format!("{same}{new}{same}"));
        let alongside = &same[..2 * CONTEXT];
        let (before, after) = paired(&before, &after);
        assert_eq!(before, [Left(920), Same(alongside), Marked(&old[..400]), Left(100), Same(alongside), Left(920)]);
        assert_eq!(after, [Left(920), Same(alongside), Marked(&new), Same(alongside), Left(920)]);
        assert_eq!(alone(&old), [Same(&old[..400]), Left(100)]);
    }

    #[test]
    fn text_is_split_into_tokens() {
        assert_eq!(tokens("a_1  +=\t(é)"), ["a_1", "  ", "+", "=", "\t", "(", "é", ")"]);
        assert_eq!(tokens(""), [""; 0]);
    }
}
