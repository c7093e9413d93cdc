//! Passages: pieces of prose, with the line of each of their words.

/// Stands for a piece of code, a link or a value, so that it counts as one word and matches no rule.
pub(super) const CODE: char = '\u{FFFC}';

/// The kind of text that a passage is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Area {
    /// Text of a document, outside code and tables.
    Document,
    /// Cell of a table in a document.
    Cell,
    /// Text on a page.
    Page,
    /// Help of a command or flag of the command line.
    Help,
    /// Help of a setting of the host, which is also a cell of the settings' reference.
    SettingHelp,
    /// Message of an error type.
    Error,
    /// Message or hint of the table of API errors.
    ApiError,
    /// Other text in a string, for example output of a command.
    Message,
    /// Log line.
    Log,
    /// Comment or doc comment.
    Comment,
}

impl Area {
    /// Returns the name in the summary.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Document => "documents",
            Self::Cell => "cells",
            Self::Page => "pages",
            Self::Help => "help",
            Self::SettingHelp => "settings",
            Self::Error => "errors",
            Self::ApiError => "API errors",
            Self::Message => "messages",
            Self::Log => "log lines",
            Self::Comment => "comments",
        }
    }
}

/// A paragraph, cell, string or comment.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) area: Area,
    /// The text, without markup and line breaks. [`CODE`] replaces code.
    pub(super) text: String,
    /// For each piece, its offset in `text` and its line in the file.
    lines: Vec<(usize, usize)>,
    pub(super) is_heading: bool,
    /// Whether it is read alone, and so begins with a capital.
    pub(super) is_alone: bool,
}

impl Passage {
    /// Returns an empty passage.
    pub(super) fn new(area: Area) -> Self {
        Self { area, text: String::new(), lines: Vec::new(), is_heading: false, is_alone: false }
    }

    /// Appends text of a line. Names, paths and URLs become [`CODE`].
    pub(super) fn push(&mut self, text: &str, line: usize) {
        self.lines.push((self.text.len(), line));
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if is_name(word) {
                self.text.push(CODE);
                // The punctuation after a name ends a sentence or a clause.
                self.text.extend(word.chars().last().filter(|last| ".,;:!?)".contains(*last)));
                self.text.push_str(&piece[word.len()..]);
            } else {
                self.text.push_str(piece);
            }
        }
    }

    /// Appends a placeholder for a piece of code.
    pub(super) fn push_code(&mut self, line: usize) {
        self.lines.push((self.text.len(), line));
        self.text.push(CODE);
    }

    /// Appends text whose first line has this number, and in which backticks enclose code.
    pub(super) fn push_marked(&mut self, text: &str, mut line: usize) {
        for (index, piece) in text.split('`').enumerate() {
            if index % 2 == 1 {
                self.push_code(line);
                line += piece.matches('\n').count();
                continue;
            }
            for (index, part) in piece.split_inclusive('\n').enumerate() {
                line += usize::from(index > 0);
                self.push(part, line);
            }
            line += usize::from(piece.ends_with('\n'));
        }
    }

    /// Returns the line of an offset in the text.
    pub(super) fn line(&self, offset: usize) -> usize {
        let piece = self.lines.partition_point(|(start, _)| *start <= offset);
        self.lines.get(piece.saturating_sub(1)).map_or(1, |(_, line)| *line)
    }
}

/// Returns whether a word is a name in code, a path or a URL.
fn is_name(word: &str) -> bool {
    word.contains("://") || word.contains("::") || word.contains('_') || word.contains(".rs") || word.contains("()")
}

/// A word of a text.
#[derive(Debug)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    /// Whether punctuation separates it from the word before.
    pub(super) is_first: bool,
}

/// Returns the words of a text. A placeholder is a word, and so is a word with hyphens.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '\'' | '’' | '-' | CODE);
    let mut words = Vec::new();
    let (mut start, mut is_first) = (None, true);
    for (at, char) in text.char_indices().chain([(text.len(), '\n')]) {
        match start {
            Some(from) if !is_part(char) => {
                words.push(Word { text: &text[from..at], start: from, is_first });
                (start, is_first) = (None, !char.is_whitespace());
            }
            None if is_part(char) => start = Some(at),
            None if !char.is_whitespace() => is_first = true,
            _ => {}
        }
    }
    words.retain(|word| word.text.contains(|char: char| char.is_alphanumeric() || char == CODE));
    words
}

/// Returns the sentences of a text, with their offsets.
pub(super) fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(['.', '!', '?']) {
        let rest = &text[at + 1..];
        let after = rest.trim_start_matches([')', '"', '”', '*']);
        let next = after.trim_start();
        let is_end = next.is_empty()
            || (next.len() < after.len()
                && next.starts_with(|char: char| char.is_uppercase() || char.is_numeric() || "\"“(*".contains(char) || char == CODE));
        if is_end {
            let end = text.len() - after.len();
            found.push((start, &text[start..end]));
            start = end;
        }
    }
    found.push((start, &text[start..]));
    let trimmed = found.into_iter().map(|(start, sentence)| (start + sentence.len() - sentence.trim_start().len(), sentence.trim()));
    trimmed.filter(|(_, sentence)| !sentence.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_whether_punctuation_precedes_them() {
        let text = format!("Pay once, not twice; {CODE} is free-form.");
        let words: Vec<_> = words(&text).into_iter().map(|word| (word.text, word.is_first)).collect();
        let expected =
            [("Pay", true), ("once", false), ("not", true), ("twice", false), ("\u{FFFC}", true), ("is", false), ("free-form", false)];
        assert_eq!(words, expected);
    }

    #[test]
    fn sentences_end_at_a_period_before_a_capital() {
        let found: Vec<_> = sentences("It costs 0.5 USD. The limit is 3 (by default). Why? x402 asks e.g. for it.")
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(found, ["It costs 0.5 USD.", "The limit is 3 (by default).", "Why? x402 asks e.g. for it."]);
    }

    #[test]
    fn offsets_have_the_line_of_their_piece() {
        let mut passage = Passage::new(Area::Document);
        passage.push("One line ", 4);
        passage.push_marked("and `code` on another_one.", 5);
        assert_eq!(passage.text, format!("One line and {CODE} on {CODE}."));
        assert_eq!((passage.line(2), passage.line(10)), (4, 5));
    }
}
