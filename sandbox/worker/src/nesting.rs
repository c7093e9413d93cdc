//! How deep a source is nested, without reading it as a parser does: those need stack for every level.
//!
//! Texts, templates, comments and regular expressions are passed over, these where what stands before leaves no doubt. So the
//! answer is a good guess: what it lets through and a parser cannot take, [`fatal`](crate::fatal) ends.

use std::mem;

use tollhouse_protocol::LoadError;

/// Levels of brackets, and of operators before a value, that a source may have. A parser needs some kilobytes of stack for each.
const LEVELS: usize = 500;

/// Line, from 1, on which the longest statement of a source begins: where the chain is, should it have one that no parser can
/// follow.
///
/// # Errors
///
/// Of a source that is nested deeper than a parser is to be asked to follow: where it becomes so.
pub(crate) fn check(source: &str) -> Result<u32, LoadError> {
    let scan = Scan::of(source);
    match scan.too_deep {
        Some(line) => {
            Err(LoadError { message: format!("the source is nested deeper than {LEVELS} levels"), line: Some(line), column: None })
        }
        None => Ok(scan.longest.1),
    }
}

#[derive(Debug)]
struct Scan {
    line: u32,
    /// Brackets that are open, and templates.
    open: Vec<u8>,
    /// Operators in a row.
    operators: usize,
    /// What stood before, white space and comments left out.
    before: u8,
    /// Byte and line at which the statement began, once it has.
    began: Option<(usize, u32)>,
    /// Bytes and first line of the longest.
    longest: (usize, u32),
    /// The line on which the levels became too many.
    too_deep: Option<u32>,
}

impl Scan {
    fn of(source: &str) -> Self {
        let mut scan = Self { line: 1, open: Vec::new(), operators: 0, before: b';', began: None, longest: (0, 1), too_deep: None };
        let bytes = source.as_bytes();
        let mut at = 0;
        while at < bytes.len() && scan.too_deep.is_none() {
            let passed = match scan.open.last() {
                Some(b'`') => scan.template(&bytes[at..]),
                _ => scan.code(&bytes[at..], at),
            };
            let next = bytes.len().min(at + passed);
            scan.line += bytes[at..next].iter().map(|byte| u32::from(*byte == b'\n')).sum::<u32>();
            at = next;
        }
        scan.end_statement(at);
        scan
    }

    /// Takes something off `rest`, which is code and begins at `at`: how many bytes.
    fn code(&mut self, rest: &[u8], at: usize) -> usize {
        match *rest {
            [b' ' | b'\t' | b'\r' | b'\n', ..] => return 1,
            [b'/', b'/', ..] => return length_until(rest, b"\n"),
            [b'/', b'*', ref comment @ ..] => return length_until(comment, b"*/") + 4,
            _ => {}
        }
        self.began.get_or_insert((at, self.line));
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
            b'}' => {
                self.close(b'{');
                self.end_statement(at);
            }
            b';' => self.end_statement(at),
            b'!' | b'~' | b'+' | b'-' => self.operate(),
            _ => self.operators = 0,
        }
        1
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
                self.open.pop();
                1
            }
            _ => 1,
        }
    }

    fn open(&mut self, bracket: u8) {
        self.open.push(bracket);
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
        let opened = self.open.iter().rposition(|open| *open == bracket || *open == b'`');
        if let Some(opened) = opened.filter(|opened| self.open[*opened] == bracket) {
            self.open.truncate(opened);
        }
    }

    fn end_statement(&mut self, at: usize) {
        self.operators = 0;
        if let Some((from, line)) = self.began.take()
            && at - from > self.longest.0
        {
            self.longest = (at - from, line);
        }
    }
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
