//! Finds prose in Rust: comments, doc comments, help of commands, messages of errors, and other texts in strings.

use std::{ops::Range, str::FromStr};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, extra};

use super::{
    comments::{self, Lines},
    html, literal,
    passage::{Area, Passage},
    rules::{self, Finding},
};
use crate::Failure;

/// Macros that write a log line.
const LOGS: &[&str] = &["trace", "debug", "info", "warn", "error"];

/// Prose of a file, and the findings that need more than the prose.
#[derive(Debug, Default)]
pub(super) struct Prose {
    pub(super) passages: Vec<Passage>,
    pub(super) findings: Vec<Finding>,
}

/// Returns the prose of a file.
///
/// # Errors
///
/// The file is not Rust.
pub(super) fn read(file: &str, source: &str) -> Result<Prose, Failure> {
    let tokens = TokenStream::from_str(source).map_err(|reason| format!("{file}: {reason}"))?;
    let help = if file.starts_with("src/config/") { Area::SettingHelp } else { Area::Help };
    let mut reader = Reader { source, lines: Lines::new(source), comments: Vec::new(), end: 0, help, prose: Prose::default() };
    reader.walk(tokens, Scope { strings: area(file), has_help: false, in_flags: false }, None);
    reader.token(source.len()..source.len());
    extra::invalidate_current_thread_spans();
    reader.prose.passages.extend(comments::passages(source, &reader.comments, &reader.lines));
    Ok(reader.prose)
}

/// Returns the area of the strings in a file. `None` if people do not read them.
fn area(file: &str) -> Option<Area> {
    let is_of_tests = |part: &str| ["tests", "testing", "tests.rs", "testing.rs"].contains(&part);
    let is_read = ["src/", "sandbox/", "xtask/"].iter().any(|folder| file.starts_with(folder));
    // Words to search for, in every spelling, and the phrases of the rules.
    let is_data = ["src/catalog/search/stemming.rs", "xtask/src/prose/phrases.rs"].contains(&file);
    if !is_read || is_data || file.split('/').any(is_of_tests) {
        return None;
    }
    Some(match file {
        "src/front/error_codes.rs" => Area::ApiError,
        _ if file.starts_with("src/web/") => Area::Page,
        _ => Area::Message,
    })
}

/// The meaning of the tokens of a group.
#[derive(Debug, Clone, Copy)]
struct Scope {
    strings: Option<Area>,
    /// Whether the doc comments are help of the command line.
    has_help: bool,
    /// Whether the group declares settings with the macro `flags`.
    in_flags: bool,
}

struct Reader<'s> {
    source: &'s str,
    lines: Lines,
    comments: Vec<Range<usize>>,
    /// The end of the last token.
    end: usize,
    /// The area of help in this file.
    help: Area,
    prose: Prose,
}

impl Reader<'_> {
    fn walk(&mut self, stream: TokenStream, scope: Scope, element: Option<html::Element>) {
        let tokens: Vec<_> = stream.into_iter().collect();
        // Lines of help whose item has not come yet.
        let mut help: Vec<Range<usize>> = Vec::new();
        let mut is_clap = scope.in_flags;
        let mut at = 0;
        while at < tokens.len() {
            if let Some((range, count)) = self.doc_comment(&tokens[at..]) {
                self.token(range.clone());
                match scope.has_help {
                    true => help.push(range),
                    false => self.comments.push(range),
                }
                at += count;
                continue;
            }
            self.take_help(&mut help);
            let before = &tokens[..at];
            match &tokens[at] {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && ends_with(before, &["#"]) => {
                    is_clap |= group.stream().to_string().starts_with("derive") && group.stream().to_string().contains("clap");
                    self.attribute(group, scope);
                }
                TokenTree::Group(group) => {
                    let is_brace = group.delimiter() == Delimiter::Brace;
                    let is_of_tests = ends_with(before, &["mod", "tests"]) || ends_with(before, &["mod", "testing"]);
                    let strings = scope.strings.filter(|_| !is_of_tests).map(|area| strings_after(before, area));
                    let inner = Scope {
                        strings,
                        has_help: is_brace && (is_clap || scope.has_help),
                        in_flags: is_brace && ends_with(before, &["flags", "!"]),
                    };
                    let element = if is_brace && scope.strings == Some(Area::Page) { html::element(before) } else { None };
                    self.token(group.span_open().byte_range());
                    self.walk(group.stream(), inner, element);
                    self.token(group.span_close().byte_range());
                    if is_brace {
                        is_clap = scope.in_flags;
                    }
                }
                TokenTree::Literal(token) => {
                    let range = token.span().byte_range();
                    self.token(range.clone());
                    if let Some(area) = scope.strings {
                        // Only the first text of an element begins a sentence.
                        self.string(range, area, element.filter(|_| at == 0));
                    }
                }
                token => self.token(token.span().byte_range()),
            }
            at += 1;
        }
        self.take_help(&mut help);
    }

    /// Reads the messages in an attribute.
    fn attribute(&mut self, group: &Group, scope: Scope) {
        self.token(group.span_open().byte_range());
        let is_error = group.stream().into_iter().next().is_some_and(|first| is_ident(&first, "error"));
        self.attribute_tokens(group.stream(), is_error && scope.strings.is_some());
        self.token(group.span_close().byte_range());
    }

    fn attribute_tokens(&mut self, stream: TokenStream, is_error: bool) {
        let tokens: Vec<_> = stream.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    self.token(group.span_open().byte_range());
                    self.attribute_tokens(group.stream(), is_error && at == 1);
                    self.token(group.span_close().byte_range());
                }
                TokenTree::Literal(literal) => {
                    let range = literal.span().byte_range();
                    self.token(range.clone());
                    let before = &tokens[..at];
                    if is_error && at == 0 {
                        self.string(range, Area::Error, None);
                    } else if ends_with(before, &["reason", "="]) {
                        self.string(range, Area::Comment, None);
                    } else if ends_with(before, &["about", "="]) || ends_with(before, &["help", "="]) {
                        self.string(range, self.help, None);
                    }
                }
                token => self.token(token.span().byte_range()),
            }
        }
    }

    /// Adds the passage of a string, if it is a text.
    fn string(&mut self, range: Range<usize>, area: Area, element: Option<html::Element>) {
        let text = &self.source[range.clone()];
        let is_text = matches!(area, Area::Error | Area::Help | Area::SettingHelp) || element.is_some_and(|element| element.is_alone);
        if !is_text && !literal::is_prose(text) {
            return;
        }
        let line = self.lines.line(range.start);
        let mut passage = Passage::new(area);
        literal::push(&mut passage, text, line);
        if area == Area::Help {
            self.prose.findings.extend(rules::check_help(&passage.text, line));
        }
        passage.is_alone = element.is_some_and(|element| element.is_alone);
        passage.is_heading = element.is_some_and(|element| element.is_heading);
        self.prose.passages.push(passage);
    }

    /// Adds the help of an item: the first paragraph of its doc comment. The rest is a usual comment.
    fn take_help(&mut self, help: &mut Vec<Range<usize>>) {
        let texts: Vec<_> = help.iter().map(|range| comments::text_of(&self.source[range.clone()])).collect();
        let count = texts.iter().position(|text| text.trim().is_empty()).unwrap_or(texts.len());
        let Some(first) = help.first() else { return };
        let line = self.lines.line(first.start);
        let mut passage = Passage::new(self.help);
        passage.push_marked(&texts[..count].join("\n"), line);
        if self.help == Area::Help {
            self.prose.findings.extend(rules::check_help(&texts[..count].join(" "), line));
        }
        self.prose.passages.push(passage);
        self.comments.extend(help.drain(..).skip(count));
    }

    /// Returns the range of a doc comment, and of how many tokens it is.
    fn doc_comment(&self, tokens: &[TokenTree]) -> Option<(Range<usize>, usize)> {
        let [TokenTree::Punct(hash), next, ..] = tokens else { return None };
        let range = hash.span().byte_range();
        let is_comment = hash.as_char() == '#' && self.source[range.clone()].starts_with('/');
        is_comment.then_some((range, if matches!(next, TokenTree::Punct(_)) { 3 } else { 2 }))
    }

    /// Notes a token, and the comments between the last one and it.
    fn token(&mut self, range: Range<usize>) {
        let mut at = self.end;
        let between = &self.source[..range.start.max(at)];
        while let Some(start) = between[at..].find('/').map(|found| at + found) {
            let length = match between[start..].starts_with("/*") {
                true => between[start..].find("*/").map(|end| end + 2),
                false => between[start..].find('\n'),
            };
            at = start + length.unwrap_or(between.len() - start);
            self.comments.push(start..at);
        }
        self.end = self.end.max(range.end);
    }
}

/// Returns the area of the strings in a group after these tokens.
fn strings_after(before: &[TokenTree], area: Area) -> Area {
    if LOGS.iter().any(|name| ends_with(before, &[name, "!"])) {
        Area::Log
    } else if ends_with(before, &[".", "help"]) || ends_with(before, &[".", "about"]) {
        Area::Help
    } else {
        area
    }
}

/// Returns whether the last tokens are these names and marks.
fn ends_with(tokens: &[TokenTree], names: &[&str]) -> bool {
    let Some(start) = tokens.len().checked_sub(names.len()) else { return false };
    tokens[start..].iter().zip(names).all(|(token, name)| match token {
        TokenTree::Punct(punct) => name.len() == 1 && name.starts_with(punct.as_char()),
        token => is_ident(token, name),
    })
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"//! One module.

/// Arguments of a command.
#[derive(clap::Args)]
struct Args {
    /// Show `all` tools
    ///
    /// This is long help.
    #[arg(long, help = "Show nothing")]
    all: bool, // Five.
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    /// Six.
    #[error("`{name}` is gone: {}", name.text("not an error at all"))]
    Gone { name: Name },
}

fn text() {
    // Seven
    // eight.
    warn!(%reason, "the store does not answer");
    print("no tools are here", "name");
}

mod tests {
    fn text() { print("no text for people") }
}
"##;

    #[test]
    fn each_kind_of_prose_has_its_area() {
        let prose = read("src/cli/list.rs", SOURCE).unwrap();
        let mut found: Vec<_> = prose.passages.iter().map(|one| (one.line(0), one.area, one.text.replace('\u{FFFC}', "@"))).collect();
        found.sort();
        let found: Vec<_> = found.iter().map(|(line, area, text)| (*line, *area, text.as_str())).collect();
        let expected = [
            (1, Area::Comment, "One module."),
            (3, Area::Comment, "Arguments of a command."),
            (6, Area::Help, "Show @ tools"),
            (8, Area::Comment, "This is long help."),
            (9, Area::Help, "Show nothing"),
            (10, Area::Comment, "Five."),
            (15, Area::Comment, "Six."),
            (16, Area::Error, "@ is gone: @"),
            (21, Area::Comment, "Seven eight."),
            (23, Area::Log, "the store does not answer"),
            (24, Area::Message, "no tools are here"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn text_of_an_element_is_read_alone() {
        let source = "fn page() { html! { p.note { \"no calls yet\" b { \"or ever, so far\" } } h2 { \"What it costs\" } } }";
        let prose = read("src/web/pages/calls.rs", source).unwrap();
        let found: Vec<_> = prose.passages.iter().map(|one| (one.text.as_str(), one.is_alone, one.is_heading)).collect();
        assert_eq!(found, [("no calls yet", true, false), ("or ever, so far", false, false), ("What it costs", true, true)]);
    }

    #[test]
    fn strings_of_tests_are_not_read() {
        assert!(read("src/cli/tests/list.rs", "fn text() { print(\"no text for people\") }").unwrap().passages.is_empty());
    }
}
