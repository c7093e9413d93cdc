//! Syntax highlighting: keywords, strings, numbers and comments, as elements with classes.

use std::{collections::HashSet, sync::LazyLock};

use tollhouse_base::lexer::{Kind, Token, tokens};

/// Keywords of JavaScript, TypeScript and JSON.
static KEYWORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "abstract as async await break case catch class const continue debugger declare default delete do else enum \
     export extends false finally for from function if implements import in instanceof interface let new null of \
     private public readonly return satisfies static super switch this throw true try type typeof undefined var \
     void while with yield"
        .split(' ')
        .collect()
});

/// A source with its highlighted tokens.
pub(super) struct Highlight<'s> {
    source: &'s str,
    /// In source order.
    marked: Vec<(Token, &'static str)>,
}

/// A piece of a source, with its class if it has one.
pub(super) type Piece<'s> = (Option<&'static str>, &'s str);

impl<'s> Highlight<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        let marked = tokens(source).into_iter().filter_map(|token| Some((token, class(&token, source)?)));
        Self { source, marked: marked.collect() }
    }

    /// Returns the number of highlighted tokens between two offsets.
    pub(super) fn marks(&self, start: usize, end: usize) -> usize {
        self.within(start, end).len()
    }

    /// Returns the pieces between two offsets.
    pub(super) fn pieces(&self, start: usize, end: usize) -> Vec<Piece<'s>> {
        let (mut pieces, mut at) = (vec![], start);
        let mut push = |class, from: usize, to: usize| {
            pieces.extend(self.source.get(from..to).filter(|text| !text.is_empty()).map(|text| (class, text)));
        };
        for (token, class) in self.within(start, end) {
            let (from, to) = (token.start.max(at), token.end.min(end));
            push(None, at, from);
            push(Some(*class), from, to);
            at = to;
        }
        push(None, at, end);
        pieces
    }

    fn within(&self, start: usize, end: usize) -> &[(Token, &'static str)] {
        let first = self.marked.partition_point(|(token, _)| token.end <= start);
        let behind = self.marked.partition_point(|(token, _)| token.start < end);
        self.marked.get(first..behind).unwrap_or_default()
    }
}

fn class(token: &Token, source: &str) -> Option<&'static str> {
    match token.kind {
        Kind::Word if KEYWORDS.contains(token.text(source)) => Some("k"),
        Kind::Str | Kind::Template | Kind::Regex => Some("s"),
        Kind::Comment => Some("c"),
        Kind::Number => Some("n"),
        Kind::Word | Kind::Punct => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(source: &str) -> Vec<Piece<'_>> {
        Highlight::new(source).pieces(0, source.len())
    }

    #[test]
    fn tokens_get_their_class() {
        assert_eq!(
            pieces("const a = 'x' + 1; // <b>"),
            [
                (Some("k"), "const"),
                (None, " a = "),
                (Some("s"), "'x'"),
                (None, " + "),
                (Some("n"), "1"),
                (None, "; "),
                (Some("c"), "// <b>"),
            ]
        );
        assert_eq!(pieces("{\"a\": true}"), [(None, "{"), (Some("s"), "\"a\""), (None, ": "), (Some("k"), "true"), (None, "}")]);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn token_over_several_lines_is_marked_on_each() {
        let source = "/* one\ntwo */ `a${b}c\nd`";
        let of = |line: &str| {
            let start = source.find(line).unwrap();
            Highlight::new(source).pieces(start, start + line.len())
        };
        assert_eq!(of("/* one"), [(Some("c"), "/* one")]);
        assert_eq!(of("two */ `a${b}c"), [(Some("c"), "two */"), (None, " `"), (Some("s"), "a"), (None, "${b}"), (Some("s"), "c")]);
        assert_eq!(of("d`"), [(Some("s"), "d"), (None, "`")]);
    }

    #[test]
    fn pieces_join_to_the_whole_source() {
        for odd in ["'", "`${", "/*", "\\u{", "a/b/c", "é'ü`\u{202e}${{}}`", "\0\r\n\"", "0x_é.", "\u{1f600}/\u{1f600}/g"] {
            for source in [odd.to_owned(), odd.repeat(50)] {
                assert_eq!(pieces(&source).into_iter().map(|(_, text)| text).collect::<String>(), source);
            }
        }
    }
}
