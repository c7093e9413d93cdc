//! Runs a scan: applies each rule to each form of each field.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use tollhouse_tool::finding::{Finding, Severity};

use super::{
    check::{Candidate, entropy},
    code::{Code, Literal},
    decode,
    known::is_known,
    operator::{HASH_RULE, Operator},
    phrase::seed_phrase,
    report::{Findings, Report, redacted},
    rules::{Row, Rules, Scope},
    unicode,
};

/// The scanned parts of an upload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Upload<'a> {
    pub title: &'a str,
    pub description: &'a str,
    pub tags: &'a [String],
    /// The handler's source as uploaded, with its types.
    pub source: Option<&'a str>,
    /// The answer of a `static_json` endpoint.
    pub response: Option<&'a Value>,
    pub input_schema: Option<&'a Value>,
    /// Schema of results.
    pub output_schema: Option<&'a Value>,
    /// Whether another owner uploaded the same source or response first.
    pub hash_of_another: bool,
}

/// Maximum length of a base64 or hex literal without review, in characters.
const LARGE_LITERAL: usize = 8 << 10;
/// Maximum encoded share of the source, in percent.
const ENCODED_SHARE: usize = 60;
/// Number of encoded characters up to which the share is ignored.
const MIN_ENCODED: usize = 1 << 10;
/// Minimum length of a literal that counts as encoded.
const MIN_ENCODED_LITERAL: usize = 64;

/// Minimum length of a literal that rules apply to, in bytes.
const MIN_LITERAL_BYTES: usize = 4;

/// Maximum length of a reported pointer, in bytes, without escapes.
const POINTER_BYTES: usize = 512;

/// Placeholders for secrets in examples, in lowercase.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "xxxxx",
    "your",
    "placeholder",
    "redacted",
    "changeme",
    "change_me",
    "change-me",
    "insert",
    "dummy",
    "*****",
    ".....",
    "${",
    "<",
    "123456789",
    "abcdefgh",
];

/// Rules of this module that are not regular expressions.
#[cfg(test)]
pub(super) const RULES: &[&str] = &[
    "secret.seed-phrase",
    "encoded.large-literal",
    "encoded.share",
    "encoded.wasm",
    "unicode.bidi",
    "unicode.zero-width",
    "provenance.same-source",
];

/// The relation of a text to the source.
#[derive(Clone, Copy)]
enum Origin<'p> {
    /// The text is the source, with the same positions.
    Source(&'p Lines<'p>),
    /// The text was derived from the source at this position.
    At(&'p Lines<'p>, usize),
    Nowhere,
}

/// Start positions of lines.
struct Lines<'s> {
    source: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    fn new(source: &'s str) -> Self {
        let ends = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { source, starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Returns the line of a byte position, from 1.
    fn line(&self, at: usize) -> u32 {
        u32::try_from(self.starts.partition_point(|start| *start <= at)).unwrap_or(u32::MAX)
    }

    /// Returns the column of a byte position in characters, from 1.
    fn column(&self, line: u32, at: usize) -> u32 {
        let start = self.starts[line as usize - 1];
        let at = self.source.floor_char_boundary(at.clamp(start, self.source.len()));
        u32::try_from(self.source[start..at].chars().count() + 1).unwrap_or(u32::MAX)
    }
}

struct Scan<'r> {
    rules: &'r Rules,
    operator: &'r Operator,
    findings: Findings,
    /// Distinct values of counting rules, with the field of the first.
    counted: BTreeMap<&'r str, (String, HashSet<Vec<u8>>)>,
}

pub(super) fn run(rules: &Rules, operator: &Operator, upload: &Upload<'_>) -> Report {
    let mut scan = Scan { rules, operator, findings: Findings::default(), counted: BTreeMap::new() };
    scan.prose("/title", upload.title);
    scan.prose("/description", upload.description);
    for (index, tag) in upload.tags.iter().enumerate() {
        scan.prose(&format!("/tags/{index}"), tag);
    }
    if let Some(source) = upload.source {
        scan.source(source);
    }
    let documents =
        [("/handler/response", upload.response), ("/inputSchema", upload.input_schema), ("/outputSchema", upload.output_schema)];
    for (field, value) in documents {
        if let Some(value) = value {
            scan.document(field, value);
        }
    }
    if upload.hash_of_another {
        let field = if upload.source.is_some() { "/handler/source" } else { "/handler/response" };
        scan.report_row("provenance.same-source", field, "", 0, Origin::Nowhere);
    }
    scan.counts();
    scan.findings.report()
}

impl<'r> Scan<'r> {
    fn prose(&mut self, field: &str, text: &str) {
        self.patterns(field, text.as_bytes(), &[Scope::Everywhere, Scope::Prose], Origin::Nowhere, "");
        self.phrase(field, text.as_bytes(), Origin::Nowhere);
        self.terms(field, text, Origin::Nowhere);
        self.characters(field, text, Origin::Nowhere);
    }

    fn source(&mut self, source: &str) {
        const FIELD: &str = "/handler/source";
        let lines = Lines::new(source);
        let (position, code) = (Origin::Source(&lines), Code::new(source));
        self.hash(FIELD, source.as_bytes(), Origin::Nowhere);
        self.patterns(FIELD, source.as_bytes(), &[Scope::Everywhere], position, "");
        self.patterns(FIELD, &code.without_comments(), &[Scope::Code], position, "");
        self.phrase(FIELD, source.as_bytes(), position);
        self.characters(FIELD, source, position);
        let comments = code.comments();
        let all = comments.iter().map(|(_, text)| text.to_ascii_lowercase()).collect::<Vec<_>>().join("\n");
        for (start, text) in comments {
            self.patterns(FIELD, text.as_bytes(), &[Scope::Comments], Origin::At(&lines, start), &all);
        }
        code.detect(&mut |rule, start, end| self.report_row(rule, FIELD, &source[start..end], start, position));
        let mut encoded = 0;
        for literal in code.literals() {
            encoded += self.literal(FIELD, &literal, &lines);
        }
        if encoded >= MIN_ENCODED && encoded * 100 > source.len() * ENCODED_SHARE {
            self.report_row("encoded.share", FIELD, "", 0, Origin::Nowhere);
        }
    }

    /// Scans a literal. Returns how many of its characters are base64 or hex.
    fn literal(&mut self, field: &str, literal: &Literal<'_>, lines: &Lines<'_>) -> usize {
        let (text, position) = (&*literal.text, Origin::At(lines, literal.start));
        if text.len() < MIN_LITERAL_BYTES {
            self.hash(field, text.as_bytes(), position);
            return 0;
        }
        if literal.verbatim {
            self.patterns(field, text.as_bytes(), &[Scope::Strings], position, "");
        } else {
            self.patterns(field, text.as_bytes(), &[Scope::Everywhere, Scope::Strings, Scope::Code], position, "");
            self.phrase(field, text.as_bytes(), position);
        }
        self.terms(field, text, position);
        self.value(field, text, position)
    }

    /// Checks a string's hash and its decoded content. Returns how many characters are base64 or
    /// hex.
    fn value(&mut self, field: &str, text: &str, position: Origin<'_>) -> usize {
        self.hash(field, text.as_bytes(), position);
        if let Some(decoded) = decode::percent(text) {
            self.decoded(field, &decoded, position);
        }
        let Some(bytes) = decode::block(text) else { return 0 };
        if text.len() > LARGE_LITERAL && !is_known(text) {
            self.report_row("encoded.large-literal", field, text, 0, position);
        }
        if bytes.starts_with(b"\0asm") {
            self.report_row("encoded.wasm", field, text, 0, position);
        }
        self.hash(field, &bytes, position);
        if let Some(decoded) = decode::as_text(bytes) {
            self.decoded(field, &decoded, position);
        }
        if text.len() >= MIN_ENCODED_LITERAL { text.len() } else { 0 }
    }

    fn decoded(&mut self, field: &str, text: &str, position: Origin<'_>) {
        // Positions in decoded text are not positions in the source.
        let position = match position {
            Origin::Source(lines) => Origin::At(lines, 0),
            other => other,
        };
        self.patterns(field, text.as_bytes(), &[Scope::Everywhere, Scope::Strings, Scope::Code], position, "");
        self.phrase(field, text.as_bytes(), position);
        self.terms(field, text, position);
    }

    fn document(&mut self, field: &str, value: &Value) {
        // Also as a single text, because the name and the value of a secret are separate strings.
        let text = value.to_string();
        self.patterns(field, text.as_bytes(), &[Scope::Everywhere], Origin::Nowhere, "");
        self.phrase(field, text.as_bytes(), Origin::Nowhere);
        self.hash(field, text.as_bytes(), Origin::Nowhere);
        let mut open = vec![(field.to_owned(), value)];
        while let Some((pointer, value)) = open.pop() {
            match value {
                Value::String(text) => self.string(&pointer, text),
                Value::Array(items) => {
                    open.extend(items.iter().enumerate().map(|(index, item)| (member(&pointer, &index.to_string()), item)))
                }
                Value::Object(members) => {
                    for (name, item) in members {
                        self.terms(&pointer, name, Origin::Nowhere);
                        open.push((member(&pointer, name), item));
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }

    fn string(&mut self, pointer: &str, text: &str) {
        if text.len() < MIN_LITERAL_BYTES {
            return self.hash(pointer, text.as_bytes(), Origin::Nowhere);
        }
        self.patterns(pointer, text.as_bytes(), &[Scope::Strings, Scope::Code], Origin::Nowhere, "");
        self.terms(pointer, text, Origin::Nowhere);
        self.value(pointer, text, Origin::Nowhere);
    }

    /// Applies the rows with a regex for one of `scopes`. `context` is searched for a row's
    /// `unless`.
    fn patterns(&mut self, field: &str, text: &[u8], scopes: &[Scope], position: Origin<'_>, context: &str) {
        let rules = self.rules;
        for row in rules.candidates(text, scopes) {
            let Some(regex) = row.regex() else { continue };
            if self.findings.enough(&row.id, field) || row.unless.iter().any(|word| context.contains(word.as_str())) {
                continue;
            }
            for captures in regex.captures_iter(text) {
                let Some(whole) = captures.get(0) else { continue };
                let value = captures.get(1).unwrap_or(whole);
                let candidate = Candidate { text, begins: whole.start(), start: value.start(), end: value.end() };
                if !is_genuine(row, candidate) {
                    continue;
                }
                if row.review_above.is_some() {
                    let (_, values) = self.counted.entry(&row.id).or_insert_with(|| (field.to_owned(), HashSet::new()));
                    values.insert(distinct(candidate.value()));
                    continue;
                }
                let value = String::from_utf8_lossy(candidate.value()).into_owned();
                self.report(&row.id, row.severity, field, &value, candidate.start, position);
                if self.findings.enough(&row.id, field) {
                    break;
                }
            }
        }
    }

    fn phrase(&mut self, field: &str, text: &[u8], position: Origin<'_>) {
        if let Some(found) = seed_phrase(text) {
            let words = String::from_utf8_lossy(&text[found.clone()]).into_owned();
            self.report_row("secret.seed-phrase", field, &words, found.start, position);
        }
    }

    fn terms(&mut self, field: &str, text: &str, position: Origin<'_>) {
        for (rule, found) in self.operator.terms(text) {
            let term = text.get(found.clone()).unwrap_or_default();
            self.report(&rule.id, rule.severity, field, term, found.start, position);
        }
    }

    fn characters(&mut self, field: &str, text: &str, position: Origin<'_>) {
        if let Some((at, _)) = text.char_indices().find(|(_, char)| unicode::is_bidi_control(*char)) {
            self.report_row("unicode.bidi", field, "", at, position);
        }
        if let Some(at) = unicode::hidden(text) {
            self.report_row("unicode.zero-width", field, "", at, position);
        }
    }

    fn hash(&mut self, field: &str, bytes: &[u8], position: Origin<'_>) {
        if self.operator.has_hash(bytes) {
            self.report(HASH_RULE, Severity::Block, field, "", 0, position);
        }
    }

    fn counts(&mut self) {
        let rules = self.rules;
        for (id, (field, values)) in std::mem::take(&mut self.counted) {
            let row = rules.row(id);
            let above = |limit: Option<usize>| limit.is_some_and(|limit| values.len() > limit);
            if above(row.block_above) {
                self.report(id, Severity::Block, &field, "", 0, Origin::Nowhere);
            } else if above(row.review_above) {
                self.report(id, row.severity, &field, "", 0, Origin::Nowhere);
            }
        }
    }

    fn report_row(&mut self, rule: &str, field: &str, value: &str, at: usize, position: Origin<'_>) {
        self.report(rule, self.rules.row(rule).severity, field, value, at, position);
    }

    fn report(&mut self, rule: &str, severity: Severity, field: &str, value: &str, at: usize, position: Origin<'_>) {
        let position = match position {
            Origin::Source(lines) => Some((lines, lines.line(at), at)),
            Origin::At(lines, start) => Some((lines, lines.line(start), start)),
            Origin::Nowhere => None,
        };
        let line = position.map(|(_, line, _)| line);
        if self.findings.enough(rule, field) || self.findings.has(rule, field, line) {
            return;
        }
        self.findings.push(Finding {
            rule: rule.to_owned(),
            severity,
            field: field.to_owned(),
            line,
            column: position.map(|(lines, line, at)| lines.column(line, at)),
            excerpt: (!value.is_empty()).then(|| redacted(value)),
        });
    }
}

/// Returns the pointer of a member, or of its parent if that would be too long.
fn member(pointer: &str, name: &str) -> String {
    if pointer.len() + name.len() > POINTER_BYTES {
        return pointer.to_owned();
    }
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns whether a match is genuine: entropy and structure are right, and it is not a
/// placeholder.
fn is_genuine(row: &Row, candidate: Candidate<'_>) -> bool {
    let value = candidate.value();
    if row.entropy.is_some_and(|least| entropy(value) < least) || row.check.is_some_and(|check| !check.passes(candidate)) {
        return false;
    }
    let lower = String::from_utf8_lossy(value).to_ascii_lowercase();
    let placeholder = row.family == "secrets" && PLACEHOLDERS.iter().any(|word| lower.contains(word));
    !placeholder && !row.allow.iter().any(|word| lower.contains(word.as_str()))
}

/// Normalizes a counted value for comparison.
fn distinct(value: &[u8]) -> Vec<u8> {
    value.iter().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'.')).map(u8::to_ascii_lowercase).collect()
}
