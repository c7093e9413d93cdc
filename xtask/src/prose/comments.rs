//! Joins the lines of comments in Rust and JavaScript to passages.

use std::ops::Range;

use super::{
    markdown,
    passage::{Area, Passage},
};

/// Delimiters of comments, longer ones first.
const STARTS: &[&str] = &["///", "//!", "//", "/**", "/*!", "/*"];

/// Finds the lines of offsets.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    /// Reads where the lines of a source begin.
    pub(super) fn new(source: &str) -> Self {
        Self(source.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// Returns the line of an offset, from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= offset)
    }
}

/// Returns the text between the delimiters of a comment, with as many lines as the comment has.
pub(super) fn text_of(comment: &str) -> String {
    let start = STARTS.iter().copied().find(|start| comment.starts_with(start)).unwrap_or_default();
    let inner = &comment[start.len()..];
    if start.starts_with("//") {
        return inner.strip_prefix(' ').unwrap_or(inner).to_owned();
    }
    let inner = inner.strip_suffix("*/").unwrap_or(inner);
    let lines = inner.lines().map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix('*').unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the passages of comments, in order. Line comments on successive lines are one text.
pub(super) fn passages(source: &str, comments: &[Range<usize>], lines: &Lines) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut rest = comments;
    while let Some((first, others)) = rest.split_first() {
        let start = start_of(&source[first.clone()]);
        let line = lines.line(first.start);
        let mut text = text_of(&source[first.clone()]);
        rest = others;
        let mut before = first;
        while let Some((next, others)) = rest.split_first()
            && start.starts_with("//")
            && start_of(&source[next.clone()]) == start
            && lines.line(next.start) == lines.line(before.start) + 1
            && source[before.end..next.start].trim().is_empty()
            && is_first_of_line(source, before.start)
        {
            text.push('\n');
            text.push_str(&text_of(&source[next.clone()]));
            (before, rest) = (next, others);
        }
        found.extend(markdown::passages(&text, line, Area::Comment));
    }
    found
}

fn start_of(comment: &str) -> &'static str {
    STARTS.iter().copied().find(|start| comment.starts_with(start)).unwrap_or_default()
}

fn is_first_of_line(source: &str, at: usize) -> bool {
    source[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_comments_on_successive_lines_are_one_text() {
        let source = "// One\n// two.\nx; // Three.\n// Four.\n\n/// Five.\n/**\n * Six\n * seven.\n */\n";
        let starts: Vec<_> =
            ["// One", "// two", "// Three", "// Four", "/// Five", "/**"].iter().filter_map(|text| source.find(text)).collect();
        let end = |start: usize| match source[start..].starts_with("/**") {
            true => source.find("*/").map_or(start, |end| end + 2),
            false => start + source[start..].find('\n').unwrap_or_default(),
        };
        let comments: Vec<_> = starts.iter().map(|start| *start..end(*start)).collect();
        let found = passages(source, &comments, &Lines::new(source));
        let found: Vec<_> = found.iter().map(|passage| (passage.text.as_str(), passage.line(0))).collect();
        assert_eq!(found, [("One two.", 1), ("Three.", 3), ("Four.", 4), ("Five.", 6), ("Six seven.", 8)]);
    }
}
