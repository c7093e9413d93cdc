//! How deep a source is nested, without reading it as a parser does: those need stack for every level.
//!
//! Texts, templates, comments and regular expressions are passed over, these where what stands before leaves no doubt. So the
//! answer is a good guess: what it lets through and a parser cannot take, [`fatal`](crate::fatal) ends.

use std::mem;

use tollhouse_protocol::LoadError;

/// Levels of brackets, and of operators before a value, that a source may have. A parser needs some kilobytes of stack for each.
const LEVELS: usize = 500;

/// Line, from 1, on which the longest piece of a source begins: where the chain is, should it have one that no parser can follow.
///
/// # Errors
///
/// Of a source that is nested deeper than a parser is to be asked to follow: where it becomes so.
pub(crate) fn check(source: &str) -> Result<u32, LoadError> {
    let scan = Scan::of(source.as_bytes());
    match scan.too_deep {
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
    /// Brackets that are open, and templates.
    open: Vec<Open>,
    /// Operators in a row.
    operators: usize,
    /// What stood before, white space and comments left out.
    before: u8,
    /// The one that is under way.
    piece: Option<Piece>,
    longest: Piece,
    /// The line on which the levels became too many.
    too_deep: Option<u32>,
}

/// A bracket, and the piece that it stands in.
#[derive(Debug)]
struct Open {
    bracket: u8,
    within: Option<Piece>,
}

/// A statement, or what commas part: without what stands in its brackets.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// The line that it begins on.
    line: u32,
    /// Bytes, where a text is one.
    size: usize,
}

impl<'a> Scan<'a> {
    fn of(source: &'a [u8]) -> Self {
        let longest = Piece { line: 1, size: 0 };
        let mut scan = Self { source, line: 1, open: Vec::new(), operators: 0, before: b';', piece: None, longest, too_deep: None };
        let mut at = 0;
        while at < source.len() && scan.too_deep.is_none() {
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

    /// Takes something off what begins at `at`, which is code: how many bytes.
    fn code(&mut self, at: usize) -> usize {
        let rest = &self.source[at..];
        match *rest {
            [b' ' | b'\t' | b'\r' | b'\n', ..] => return 1,
            [b'/', b'/', ..] => return length_until(rest, b"\n"),
            [b'/', b'*', ref comment @ ..] => return length_until(comment, b"*/") + 4,
            _ => {}
        }
        if self.begins_another(at) {
            self.end_piece();
        }
        self.piece.get_or_insert(Piece { line: self.line, size: 0 }).size += 1;
        let before = mem::replace(&mut self.before, rest[0]);
        match rest[0] {
            b'/' if b"(,=:[!&|?{};+-*%<>~^".contains(&before) => return length_of_text(rest, b'/'),
            b'\\' => return 2,
            quote @ (b'"' | b'\'') => {
                self.operators = 0;
                return length_of_text(rest, quote);
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

    /// Whether what begins at `at` is of another piece than what stands before it: behind a comma or a semicolon, and where a
    /// statement may end without one.
    fn begins_another(&self, at: usize) -> bool {
        let (before, rest) = self.source.split_at(at);
        let text = before.trim_ascii_end();
        let may_end = match self.before {
            b';' | b',' => return true,
            b'}' => true,
            b')' | b']' | b'`' | b'"' | b'\'' => before[text.len()..].contains(&b'\n'),
            last => is_of_word(last) && before[text.len()..].contains(&b'\n') && !GO_ON.contains(&last_word(text)),
        };
        may_end && is_of_word(rest[0]) && !rest.starts_with(b"else")
    }

    /// As [`Scan::code`], in a template.
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
        self.judge();
    }

    fn operate(&mut self) {
        self.operators += 1;
        self.judge();
    }

    fn judge(&mut self) {
        if self.open.len() + self.operators > LEVELS {
            self.too_deep = Some(self.line);
        }
    }

    /// Closes the last such bracket, and whatever was opened in it; nothing when the template has none.
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

/// Words behind which a statement goes on, on the next line too.
const GO_ON: [&[u8]; 10] = [b"await", b"delete", b"do", b"else", b"in", b"instanceof", b"keyof", b"new", b"typeof", b"void"];

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn last_word(text: &[u8]) -> &[u8] {
    text.rsplit(|byte| !is_of_word(*byte)).next().unwrap_or_default()
}

/// Bytes of a text that ends with its quote, or before the end of its line. In the classes of a regular expression its quote is
/// a character as any other.
fn length_of_text(rest: &[u8], quote: u8) -> usize {
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

/// Bytes before `end`, or all of them.
fn length_until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len()).position(|window| window == end).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
