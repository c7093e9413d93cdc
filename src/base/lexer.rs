//! Tokenizes JavaScript and TypeScript: strings, templates, comments, regex literals, words.
//!
//! Invalid source is not rejected: every text has tokens. If the lexer takes a division for a regex literal, or the
//! other way round, a detector can miss something or report too much. That is acceptable: rules over code only help
//! admins, and the sandbox stops what they look for anyway.

use std::borrow::Cow;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword, including escapes.
    Word,
    /// A string with its quotes.
    Str,
    /// A template's text without its quotes or `${`.
    Template,
    /// A line or block comment with its delimiters.
    Comment,
    /// A regex literal with its slashes and flags.
    Regex,
    /// A number literal.
    Number,
    /// One byte of punctuation.
    Punct,
}

/// A token of a source.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    /// The kind of token.
    pub kind: Kind,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset just after its last byte.
    pub end: usize,
}

impl Token {
    /// Returns the token's text. `source` must be the text that it was read from.
    #[must_use]
    pub fn text<'s>(&self, source: &'s str) -> &'s str {
        &source[self.start..self.end]
    }
}

/// The construct that an open bracket began. It decides whether a `/` after the closing bracket is a division.
#[derive(Clone, Copy)]
enum Open {
    /// `(` after `if`, `while`, `for` or `with`.
    Head,
    Paren,
    Block,
    Object,
    /// `${`: the template continues after the closing brace.
    Template,
}

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
    tokens: Vec<Token>,
    open: Vec<Open>,
    /// Whether a `/` at this position begins a regex.
    expression: bool,
    /// The last word, if only white space and comments followed it.
    word: &'s str,
}

/// Returns all tokens of `source`, in order.
#[must_use]
pub fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0, tokens: Vec::new(), open: Vec::new(), expression: true, word: "" };
    if source.starts_with("#!") {
        lexer.comment_to_line_end();
    }
    while lexer.at < source.len() {
        lexer.step();
    }
    lexer.tokens
}

/// Words after which an expression begins.
const BEFORE_EXPRESSION: &[&str] = &[
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "delete",
    "void",
    "throw",
    "new",
    "instanceof",
    "do",
    "else",
    "yield",
    "await",
    "extends",
    "default",
];

impl<'s> Lexer<'s> {
    fn step(&mut self) {
        let byte = self.bytes[self.at];
        let next = self.bytes.get(self.at + 1).copied();
        match byte {
            b'/' if next == Some(b'/') => self.comment_to_line_end(),
            b'/' if next == Some(b'*') => {
                let end = self.source[self.at + 2..].find("*/").map_or(self.source.len(), |length| self.at + 2 + length + 2);
                self.push(Kind::Comment, end);
            }
            b'/' if self.expression => self.regex(),
            b'"' | b'\'' => self.string(byte),
            b'`' => {
                self.at += 1;
                self.template();
            }
            b'0'..=b'9' => self.number(),
            b'.' if next.is_some_and(|digit| digit.is_ascii_digit()) => self.number(),
            _ if is_word(byte) => self.word_token(),
            _ if byte.is_ascii_whitespace() => self.at += 1,
            _ => self.punct(byte),
        }
    }

    fn push(&mut self, kind: Kind, end: usize) {
        self.tokens.push(Token { kind, start: self.at, end });
        self.at = end;
    }

    fn value(&mut self, kind: Kind, end: usize) {
        self.push(kind, end);
        self.expression = false;
        self.word = "";
    }

    fn comment_to_line_end(&mut self) {
        let end = line_end(self.bytes, self.at);
        self.push(Kind::Comment, end);
    }

    fn string(&mut self, quote: u8) {
        let mut end = self.at + 1;
        while end < self.bytes.len() {
            match self.bytes[end] {
                b'\\' => end += 2,
                b'\n' => break,
                byte => {
                    end += 1;
                    if byte == quote {
                        break;
                    }
                }
            }
        }
        self.value(Kind::Str, self.boundary(end));
    }

    /// Reads the text of a template up to its end or its next `${`.
    fn template(&mut self) {
        let mut end = self.at;
        while end < self.bytes.len() {
            match self.bytes[end] {
                b'\\' => end += 2,
                b'`' => {
                    self.value(Kind::Template, end);
                    self.at += 1;
                    return;
                }
                b'$' if self.bytes.get(end + 1) == Some(&b'{') => {
                    self.push(Kind::Template, end);
                    self.at += 2;
                    self.open.push(Open::Template);
                    self.expression = true;
                    self.word = "";
                    return;
                }
                _ => end += 1,
            }
        }
        self.value(Kind::Template, self.bytes.len());
    }

    fn regex(&mut self) {
        let (mut end, mut class) = (self.at + 1, false);
        while end < self.bytes.len() {
            match self.bytes[end] {
                b'\\' => end += 1,
                b'[' => class = true,
                b']' => class = false,
                b'\n' => break,
                b'/' if !class => {
                    end += 1;
                    while end < self.bytes.len() && self.bytes[end].is_ascii_alphabetic() {
                        end += 1;
                    }
                    break;
                }
                _ => {}
            }
            end += 1;
        }
        self.value(Kind::Regex, self.boundary(end));
    }

    fn number(&mut self) {
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_')).count();
        self.value(Kind::Number, self.at + digits);
    }

    fn word_token(&mut self) {
        let mut end = self.at;
        while end < self.bytes.len() && (is_word(self.bytes[end]) || self.bytes[end].is_ascii_digit()) {
            // `\u{…}` in a name.
            if self.bytes[end] == b'\\' && self.source[end..].starts_with("\\u{") {
                end += self.bytes[end..].iter().take(12).position(|byte| *byte == b'}').unwrap_or(0);
            }
            end += 1;
        }
        let end = self.boundary(end);
        let word = &self.source[self.at..end];
        self.push(Kind::Word, end);
        self.expression = BEFORE_EXPRESSION.contains(&word);
        self.word = word;
    }

    fn punct(&mut self, byte: u8) {
        match byte {
            b'(' => self.open.push(if matches!(self.word, "if" | "while" | "for" | "with") { Open::Head } else { Open::Paren }),
            b'{' => {
                let block = !self.expression || matches!(self.word, "else" | "do") || self.after_end();
                self.open.push(if block { Open::Block } else { Open::Object });
            }
            _ => {}
        }
        let closed = if matches!(byte, b')' | b'}') { self.open.pop() } else { None };
        let width = self.source[self.at..].chars().next().map_or(1, char::len_utf8);
        self.push(Kind::Punct, self.at + width);
        self.word = "";
        self.expression = match byte {
            b')' => matches!(closed, Some(Open::Head)),
            b'}' => matches!(closed, Some(Open::Block)),
            b']' => false,
            _ => true,
        };
        if byte == b'}' && matches!(closed, Some(Open::Template)) {
            self.template();
        }
    }

    /// Returns whether a `{` here opens a block: at the start of a statement or after `=>`.
    fn after_end(&self) -> bool {
        let mut before = self.tokens.iter().rev().filter(|token| token.kind != Kind::Comment).map(|token| token.text(self.source));
        match before.next() {
            None | Some(";" | "{" | "}" | ")") => true,
            Some(">") => before.next() == Some("="),
            Some(_) => false,
        }
    }

    /// Returns `end` or the next character boundary after it.
    fn boundary(&self, end: usize) -> usize {
        self.source.ceil_char_boundary(end.min(self.source.len()))
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| from + length)
}

/// Returns whether a byte can begin a name. Every byte above ASCII counts as a letter.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'#' | b'@' | b'\\') || byte >= 0x80
}

/// Resolves the escapes in a name or in the inner text of a literal.
#[must_use]
pub fn cooked(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (char, length) = escape(&rest[at + 1..]);
        text.extend(char);
        rest = &rest[at + 1 + length..];
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Returns the character that an escape stands for, and how many bytes follow its backslash.
fn escape(rest: &str) -> (Option<char>, usize) {
    let Some(first) = rest.chars().next() else { return (None, 0) };
    let code = |from: usize, to: usize| rest.get(from..to).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match first {
        'n' => (Some('\n'), 1),
        'r' => (Some('\r'), 1),
        't' => (Some('\t'), 1),
        'b' => (Some('\u{8}'), 1),
        'f' => (Some('\u{c}'), 1),
        'v' => (Some('\u{b}'), 1),
        '\n' => (None, 1),
        '\r' => (None, if rest.as_bytes().get(1) == Some(&b'\n') { 2 } else { 1 }),
        'x' => code(1, 3).and_then(char::from_u32).map_or((Some('x'), 1), |char| (Some(char), 3)),
        'u' if rest.as_bytes().get(1) == Some(&b'{') => {
            let close = rest.as_bytes().iter().take(12).position(|byte| *byte == b'}');
            let char = close.and_then(|close| code(2, close)).and_then(char::from_u32);
            char.map_or((Some('u'), 1), |char| (Some(char), close.unwrap_or(0) + 1))
        }
        'u' => match code(1, 5) {
            Some(unit) => (Some(char::from_u32(unit).unwrap_or('\u{FFFD}')), 5),
            None => (Some('u'), 1),
        },
        '0'..='7' => {
            let digits = rest.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            (u32::from_str_radix(&rest[..digits], 8).ok().and_then(char::from_u32), digits)
        }
        other => (Some(other), other.len_utf8()),
    }
}
