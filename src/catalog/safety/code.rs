//! Token-based analysis of a source: literals, comments, and the use of names.

use std::{borrow::Cow, collections::HashSet};

use tollhouse_base::lexer::{Kind, Token, cooked, tokens};

use super::unicode;

/// A tokenized source.
pub(super) struct Code<'s> {
    source: &'s str,
    all: Vec<Token>,
    /// All tokens except comments.
    pub(super) tokens: Vec<Token>,
    /// For each `(` in `tokens`, the index of its `)`.
    closes: Vec<usize>,
}

/// The value of a string, a template part, concatenated strings, or character codes.
pub(super) struct Literal<'s> {
    pub(super) start: usize,
    pub(super) text: Cow<'s, str>,
    /// Whether the text is in the source without escapes.
    pub(super) verbatim: bool,
}

/// Callback with a rule and the range of the violation.
type Found<'f> = dyn FnMut(&'static str, usize, usize) + 'f;

/// Maximum tokens between `export` and its `from`.
const EXPORT_TOKENS: usize = 64;

/// All rules of this module. The table has a row for each.
#[cfg(test)]
pub(super) const RULES: &[&str] = &[
    "code.eval",
    "code.function-constructor",
    "code.import",
    "code.require",
    "code.constructor-walk",
    "code.prototype",
    "code.built-name",
    "code.webassembly",
    "encoded.wasm",
    "unicode.homoglyph",
];

impl<'s> Code<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        let all = tokens(source);
        let tokens: Vec<_> = all.iter().copied().filter(|token| token.kind != Kind::Comment).collect();
        let (mut open, mut closes) = (Vec::new(), vec![usize::MAX; tokens.len()]);
        for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Punct) {
            match token.text(source) {
                "(" => open.push(index),
                ")" => {
                    if let Some(opened) = open.pop() {
                        closes[opened] = index;
                    }
                }
                _ => {}
            }
        }
        Self { source, all, tokens, closes }
    }

    /// Returns the comments. Comments separated only by white space are joined.
    pub(super) fn comments(&self) -> Vec<(usize, &'s str)> {
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        for comment in self.all.iter().filter(|token| token.kind == Kind::Comment) {
            match blocks.last_mut() {
                Some((_, end)) if self.source[*end..comment.start].trim().is_empty() => *end = comment.end,
                _ => blocks.push((comment.start, comment.end)),
            }
        }
        blocks.into_iter().map(|(start, end)| (start, &self.source[start..end])).collect()
    }

    /// Returns the source with comments replaced by spaces, of the same length.
    pub(super) fn without_comments(&self) -> Vec<u8> {
        let mut bytes = self.source.as_bytes().to_vec();
        for comment in self.all.iter().filter(|token| token.kind == Kind::Comment) {
            bytes[comment.start..comment.end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        bytes
    }

    pub(super) fn literals(&self) -> Vec<Literal<'s>> {
        let mut literals = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let token = self.tokens[at];
            match token.kind {
                Kind::Template => {
                    let raw = token.text(self.source);
                    let text = cooked(raw);
                    literals.push(Literal { start: token.start, verbatim: !raw.contains('\\'), text });
                }
                Kind::Str => {
                    let (text, last) = self.sum(at);
                    // Parts are also reported separately, because a known hash may match a part.
                    let single = last == at;
                    for part in (at..=last).step_by(2) {
                        let raw = inner(self.tokens[part].text(self.source));
                        literals.push(Literal { start: self.tokens[part].start, verbatim: !raw.contains('\\'), text: cooked(raw) });
                    }
                    if !single {
                        literals.push(Literal { start: token.start, verbatim: false, text: Cow::Owned(text) });
                    }
                    at = last;
                }
                Kind::Word if matches!(token.text(self.source), "fromCharCode" | "fromCodePoint") => {
                    if let Some(text) = self.characters(at + 1) {
                        literals.push(Literal { start: token.start, verbatim: false, text: Cow::Owned(text) });
                    }
                }
                Kind::Word | Kind::Comment | Kind::Regex | Kind::Number | Kind::Punct => {}
            }
            at += 1;
        }
        literals
    }

    /// Returns the concatenated strings that start at token `at`, and the last token.
    fn sum(&self, at: usize) -> (String, usize) {
        let (mut text, mut last) = (String::new(), at);
        loop {
            text.push_str(&cooked(inner(self.tokens[last].text(self.source))));
            let more = self.is(last + 1, "+") && self.tokens.get(last + 2).is_some_and(|token| token.kind == Kind::Str);
            if !more {
                return (text, last);
            }
            last += 2;
        }
    }

    /// Returns the text of `(72, 0x69, …)` at token `at`.
    fn characters(&self, at: usize) -> Option<String> {
        if !self.is(at, "(") {
            return None;
        }
        let mut text = String::new();
        for pair in self.tokens[at + 1..].chunks(2) {
            if pair[0].kind != Kind::Number {
                break;
            }
            text.push(char::from_u32(number(pair[0].text(self.source))?)?);
            if pair.get(1).is_none_or(|comma| comma.text(self.source) != ",") {
                break;
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// Finds code that the sandbox would refuse, and names with look-alike letters.
    pub(super) fn detect(&self, found: &mut Found<'_>) {
        for at in 0..self.tokens.len() {
            match self.tokens[at].kind {
                Kind::Word => self.word(at, found),
                Kind::Str => self.string(at, found),
                Kind::Number => self.magic_numbers(at, found),
                Kind::Template | Kind::Comment | Kind::Regex | Kind::Punct => {}
            }
        }
        self.look_alikes(found);
    }

    fn word(&self, at: usize, found: &mut Found<'_>) {
        let mut report = |rule| found(rule, self.tokens[at].start, self.tokens[at].end);
        let member = self.is_member(at);
        let global = !member || self.is_member_of_global(at);
        match &*cooked(self.text(at)) {
            "eval" if global && self.is_reference(at) => report("code.eval"),
            "setTimeout" | "setInterval" if global && self.is(at + 1, "(") && self.kind(at + 2) == Some(Kind::Str) => report("code.eval"),
            "Function" if global && self.makes_function(at) => report("code.function-constructor"),
            "import" if !member && self.imports(at) => report("code.import"),
            "from" if self.kind(at + 1) == Some(Kind::Str) && self.exports_from(at) => report("code.import"),
            "require" if !member && self.is_call(at) => report("code.require"),
            "constructor" if member && self.walks(at + 1, at) => report("code.constructor-walk"),
            "__proto__" if member || self.is(at + 1, ":") => report("code.prototype"),
            "WebAssembly" if global && (self.is(at + 1, ".") || self.is(at + 1, "[")) => report("code.webassembly"),
            _ => {}
        }
    }

    /// Detects `x["constructor"]` and similar, also if the string is concatenated.
    fn string(&self, at: usize, found: &mut Found<'_>) {
        let (start, end) = (self.tokens[at].start, self.tokens[at].end);
        if self.is_before(at, "+") {
            return;
        }
        let (text, last) = self.sum(at);
        let names_member = self.is_before(at, "[") && self.is(last + 1, "]") && at >= 2 && self.ends_value(at - 2);
        let names_field = (self.is_before(at, "{") || self.is_before(at, ",")) && self.is(last + 1, ":");
        if last > at && names_member && matches!(&*text, "constructor" | "__proto__" | "prototype" | "eval" | "Function" | "require") {
            return found("code.built-name", start, self.tokens[last].end);
        }
        let of_global = is_global(self.before(at, 2));
        match &*text {
            "constructor" if names_member && self.walks(last + 2, at - 1) => found("code.constructor-walk", start, end),
            "__proto__" if names_member || names_field => found("code.prototype", start, end),
            "eval" if names_member && of_global => found("code.eval", start, end),
            "Function" if names_member && of_global => found("code.function-constructor", start, end),
            _ if text.starts_with("\0asm") => found("encoded.wasm", start, end),
            _ => {}
        }
    }

    /// Detects the first bytes of a WebAssembly module in an array.
    fn magic_numbers(&self, at: usize, found: &mut Found<'_>) {
        let numbers = (at..at + 7).step_by(2).map(|at| self.tokens.get(at).and_then(|token| number(token.text(self.source))));
        if self.is_before(at, "[") && numbers.eq([Some(0), Some(0x61), Some(0x73), Some(0x6d)]) {
            found("encoded.wasm", self.tokens[at].start, self.tokens[at].end);
        }
    }

    fn look_alikes(&self, found: &mut Found<'_>) {
        let words = || self.tokens.iter().filter(|token| token.kind == Kind::Word);
        let mut strange = words().filter(|token| token.text(self.source).bytes().any(|byte| !byte.is_ascii() || byte == b'\\')).peekable();
        if strange.peek().is_none() {
            return;
        }
        let plain: HashSet<&str> = words().map(|token| token.text(self.source)).filter(|text| text.is_ascii()).collect();
        for token in strange {
            let name = cooked(token.text(self.source));
            // A table of letters, for example of those with diacritics: a field of one letter deceives nobody.
            if name.chars().count() == 1 && self.is_field(token.start) {
                continue;
            }
            if let Some(seems) = unicode::looks_like(&name)
                && (unicode::has_latin(&name) || plain.contains(&*seems))
            {
                found("unicode.homoglyph", token.start, token.end);
            }
        }
    }

    /// Returns whether the token that begins at a byte is the name of a field in an object literal.
    fn is_field(&self, start: usize) -> bool {
        let at = self.tokens.partition_point(|token| token.start < start);
        (self.is_before(at, "{") || self.is_before(at, ",")) && self.is(at + 1, ":")
    }

    /// Returns whether `eval` is used as a value, and not as the name of a field, method or
    /// parameter.
    fn is_reference(&self, at: usize) -> bool {
        let called = self.is(at + 1, "(") && !self.is_definition(at);
        let taken = (self.is_before(at, "=") || self.is_before(at, ",") || self.is_before(at, "("))
            && !self.is(at + 1, ":")
            && !self.is(at + 1, "=");
        called || self.is(at + 1, "?") && self.is(at + 2, ".") || (taken && !self.is(at + 1, "("))
    }

    /// Detects `Function(…)`, `new Function`, or `Function` as a value. Types and
    /// `instanceof Function` are fine.
    fn makes_function(&self, at: usize) -> bool {
        let made = self.is_before(at, "new") || (self.is(at + 1, "(") && !self.is_definition(at));
        let compared = self.is_before(at, "=") && matches!(self.before(at, 2), "=" | "!");
        let given = ((self.is_before(at, "=") && !compared) || self.is_before(at, "(") || self.is_before(at, ","))
            && (self.is(at + 1, ";") || self.is(at + 1, ",") || self.is(at + 1, ")"));
        made || given
    }

    /// Detects `import …` of a module and `import(…)`, but not `import.meta`, types, or names.
    fn imports(&self, at: usize) -> bool {
        match self.kind(at + 1) {
            Some(Kind::Str) => true,
            // `import type from "x"` imports a default export named type.
            Some(Kind::Word) => self.text(at + 1) != "type" || self.is(at + 2, "from") || self.is(at + 2, ","),
            Some(Kind::Punct) => matches!(self.text(at + 1), "{" | "*") || self.is_call(at),
            _ => false,
        }
    }

    /// Detects `export … from "…"`.
    fn exports_from(&self, at: usize) -> bool {
        let head = at.saturating_sub(EXPORT_TOKENS);
        let begins = self.tokens[head..at].iter().rposition(|token| matches!(token.text(self.source), "export" | "import" | ";"));
        begins.is_some_and(|begins| self.text(head + begins) == "export" && !self.is(head + begins + 1, "type"))
            && (self.is_before(at, "}") || self.is_before(at, "*") || self.before(at, 2) == "as")
    }

    /// Detects `….constructor` followed by another `constructor` or a call, which creates a
    /// function.
    fn walks(&self, next: usize, at: usize) -> bool {
        let of_this = matches!(self.before(at, 2), "this" | "super");
        let again = self.is(next, ".") && self.is(next + 1, "constructor");
        let again_by_name = self.is(next, "[") && self.kind(next + 1) == Some(Kind::Str) && self.sum(next + 1).0 == "constructor";
        again || again_by_name || (self.is(next, "(") && !of_this)
    }

    fn is_call(&self, at: usize) -> bool {
        self.is(at + 1, "(") && !self.is_definition(at)
    }

    /// Returns whether `name(…) {` defines a method or function.
    fn is_definition(&self, at: usize) -> bool {
        self.is_before(at, "function")
            || (self.is_body_after(at + 1) && !self.is_before(at, "=") && !self.is_before(at, "(") && !self.is_before(at, "return"))
    }

    /// Returns whether a `{` follows the parentheses that open at `open`.
    pub(super) fn is_body_after(&self, open: usize) -> bool {
        let close = self.closes.get(open).and_then(|close| close.checked_add(1));
        close.is_some_and(|after| self.is(after, "{"))
    }

    fn is_member(&self, at: usize) -> bool {
        // `...name` is not a member access.
        self.is_before(at, ".") && self.before(at, 2) != "."
    }

    fn is_member_of_global(&self, at: usize) -> bool {
        self.is_before(at, ".") && is_global(self.before(at, 2))
    }

    /// Returns whether a `[` after this token is a member access.
    fn ends_value(&self, at: usize) -> bool {
        match self.tokens[at].kind {
            Kind::Word => !matches!(
                self.text(at),
                "return" | "typeof" | "case" | "in" | "of" | "new" | "void" | "delete" | "throw" | "yield" | "await"
            ),
            Kind::Str | Kind::Template | Kind::Regex | Kind::Number => true,
            Kind::Punct => matches!(self.text(at), ")" | "]" | "}" | "."),
            Kind::Comment => false,
        }
    }

    pub(super) fn kind(&self, at: usize) -> Option<Kind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    /// Returns the line of a token, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.source[..self.tokens[at].start].matches('\n').count() + 1
    }

    /// Returns the text of a token, which is empty after the last one.
    pub(super) fn text(&self, at: usize) -> &'s str {
        self.tokens.get(at).map_or("", |token| token.text(self.source))
    }

    pub(super) fn is(&self, at: usize, text: &str) -> bool {
        self.text(at) == text
    }

    /// Returns the text of the token `back` before this one.
    pub(super) fn before(&self, at: usize, back: usize) -> &'s str {
        at.checked_sub(back).map_or("", |at| self.text(at))
    }

    fn is_before(&self, at: usize, text: &str) -> bool {
        self.before(at, 1) == text
    }
}

/// Returns whether a name is one of the global object.
fn is_global(name: &str) -> bool {
    matches!(name, "globalThis" | "window" | "self" | "global")
}

/// Returns a string without its quotes.
fn inner(string: &str) -> &str {
    let quote = string.chars().next().unwrap_or_default();
    let body = &string[quote.len_utf8().min(string.len())..];
    body.strip_suffix(quote).unwrap_or(body)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
