//! Measures how deep a source is nested, without recursion: a parser needs stack for every level.
//!
//! Strings, templates, comments and regular expressions are skipped, the latter where the context
//! leaves no doubt. So the result is a good estimate. If it passes a source that a parser cannot
//! handle, the [crash handler](crate::crash_handler) ends the process.

use std::mem;

use tollhouse_protocol::LoadError;

/// Maximum levels of brackets, and of operators before a value. A parser needs some kilobytes of
/// stack for each.
const LEVELS: usize = 500;

/// Returns the line, from 1, on which the longest statement or list item of a source begins. If a
/// chain of operators is too long for the parser, it is there.
///
/// # Errors
///
/// The line at which a source is nested too deep for a parser.
pub(crate) fn check(source: &str) -> Result<u32, LoadError> {
    let scan = Scan::of(source.as_bytes());
    match scan.is_too_deep {
        Some(line) => {
            Err(LoadError { message: format!("the source is nested deeper than {LEVELS} levels"), line: Some(line), column: None })
        }
        None => Ok(scan.longest.line),
    }
}

#[derive(Debug)]
struct Scan<'a> {
    source: &'a [u8],
    line: u32,
    /// Open brackets and templates.
    open: Vec<Open>,
    /// Number of consecutive operators.
    operators: usize,
    /// The previous byte, without white space and comments.
    before: u8,
    /// The current piece.
    piece: Option<Piece>,
    longest: Piece,
    /// The line at which the nesting became too deep.
    is_too_deep: Option<u32>,
}

/// An open bracket, and the piece that contains it.
#[derive(Debug)]
struct Open {
    bracket: u8,
    within: Option<Piece>,
}

/// A statement, or a part of a comma-separated list, without the contents of its brackets.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// The line on which it begins.
    line: u32,
    /// Size in bytes. A string literal counts as one.
    size: usize,
}

impl<'a> Scan<'a> {
    fn of(source: &'a [u8]) -> Self {
        let empty = Piece { line: 1, size: 0 };
        let mut scan =
            Self { source, line: 1, open: Vec::new(), operators: 0, before: b';', piece: None, longest: empty, is_too_deep: None };
        let mut at = 0;
        while at < source.len() && scan.is_too_deep.is_none() {
            let passed = match scan.open.last() {
                Some(Open { bracket: b'`', .. }) => scan.template(&source[at..]),
                _ => scan.code(at),
            };
            let next = source.len().min(at + passed);
            scan.line += source[at..next].iter().map(|byte| u32::from(*byte == b'\n')).sum::<u32>();
            at = next;
        }
        scan.end_piece();
        while let Some(Open { within, .. }) = scan.open.pop() {
            scan.piece = within;
            scan.end_piece();
        }
        scan
    }

    /// Scans the code at `at`. Returns how many bytes it consumed.
    fn code(&mut self, at: usize) -> usize {
        let rest = &self.source[at..];
        match *rest {
            [b' ' | b'\t' | b'\r' | b'\n', ..] => return 1,
            [b'/', b'/', ..] => return length_until(rest, b"\n"),
            [b'/', b'*', ref comment @ ..] => return length_until(comment, b"*/") + 4,
            _ => {}
        }
        if self.begins_piece(at) {
            self.end_piece();
        }
        self.piece.get_or_insert(Piece { line: self.line, size: 0 }).size += 1;
        let before = mem::replace(&mut self.before, rest[0]);
        match rest[0] {
            b'/' if b"(,=:[!&|?{};+-*%<>~^".contains(&before) => return length_of_literal(rest, b'/'),
            b'\\' => return 2,
            quote @ (b'"' | b'\'') => {
                self.operators = 0;
                return length_of_literal(rest, quote);
            }
            bracket @ (b'(' | b'[' | b'{' | b'`') => self.open(bracket),
            b')' => self.close(b'('),
            b']' => self.close(b'['),
            b'}' => self.close(b'{'),
            b'!' | b'~' | b'+' | b'-' => self.operate(),
            _ => self.operators = 0,
        }
        1
    }

    /// Returns whether a new piece begins at `at`: after a comma or semicolon, or where a statement
    /// can end without one.
    fn begins_piece(&self, at: usize) -> bool {
        let (before, rest) = self.source.split_at(at);
        let text = before.trim_ascii_end();
        let may_end = match self.before {
            b';' | b',' => return true,
            b'}' => true,
            b')' | b']' | b'`' | b'"' | b'\'' => before[text.len()..].contains(&b'\n'),
            last => is_word_byte(last) && before[text.len()..].contains(&b'\n') && !CONTINUATIONS.contains(&last_word(text)),
        };
        may_end && is_word_byte(rest[0]) && !rest.starts_with(b"else")
    }

    /// Reads the next part of a template, as [`Scan::code`] does for code.
    fn template(&mut self, rest: &[u8]) -> usize {
        match rest {
            [b'\\', ..] => 2,
            [b'$', b'{', ..] => {
                self.open(b'{');
                2
            }
            [b'`', ..] => {
                self.close(b'`');
                1
            }
            _ => 1,
        }
    }

    fn open(&mut self, bracket: u8) {
        self.open.push(Open { bracket, within: self.piece.take() });
        self.check_depth();
    }

    fn operate(&mut self) {
        self.operators += 1;
        self.check_depth();
    }

    fn check_depth(&mut self) {
        if self.open.len() + self.operators > LEVELS {
            self.is_too_deep = Some(self.line);
        }
    }

    /// Closes the last such bracket, with everything opened in it. Does nothing if the template has
    /// none.
    fn close(&mut self, bracket: u8) {
        self.operators = 0;
        let opened = self.open.iter().rposition(|open| open.bracket == bracket || open.bracket == b'`');
        if let Some(opened) = opened.filter(|opened| self.open[*opened].bracket == bracket) {
            self.end_piece();
            self.piece = self.open.drain(opened..).next().and_then(|open| open.within);
        }
    }

    fn end_piece(&mut self) {
        self.longest = self.piece.take().filter(|piece| piece.size > self.longest.size).unwrap_or(self.longest);
    }
}

/// Words after which a statement continues, even on the next line.
const CONTINUATIONS: [&[u8]; 10] = [b"await", b"delete", b"do", b"else", b"in", b"instanceof", b"keyof", b"new", b"typeof", b"void"];

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn last_word(text: &[u8]) -> &[u8] {
    text.rsplit(|byte| !is_word_byte(*byte)).next().unwrap_or_default()
}

/// Returns the length of a string literal that ends with its quote or at the end of its line. In a
/// character class of a regular expression the quote does not end it.
fn length_of_literal(rest: &[u8], quote: u8) -> usize {
    let (mut at, mut is_class) = (1, false);
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            b'[' | b']' => is_class = quote == b'/' && *byte == b'[',
            byte if *byte == quote && !is_class => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Returns the number of bytes before `end`, or of all bytes.
fn length_until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len()).position(|window| window == end).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
