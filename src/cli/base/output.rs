//! Output of commands: results on standard output, everything else on standard error. If the reader has gone, a command
//! still completes and ends as usual, unless it [shows something only once](Output::print_secret).

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use super::{Error, Result, Table, block, environment, json, json_for_people};

/// Settings of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Whether programs read it.
    pub(crate) json: bool,
    is_terminal: bool,
    colors: bool,
}

/// The color sequences, after the escape character.
const COLORS: [&str; 5] = ["[0m", "[2m", "[31m", "[32m", "[33m"];

/// The meaning of a word, which determines its color.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    /// Good: settled, active.
    Good,
    /// Noteworthy: waiting, unknown, play money.
    Warning,
    /// Bad: failed, refused, taken down.
    Failure,
    /// Secondary.
    Dim,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { json, is_terminal, colors: is_terminal && !json && !environment::is_plain() }
    }

    /// Prints the result as a single document.
    pub(crate) fn document(&self, value: &(impl Serialize + ?Sized)) -> Result {
        write(self.written(value).as_bytes())
    }

    fn written(&self, value: &(impl Serialize + ?Sized)) -> String {
        let text = if self.is_terminal { json_for_people(value) } else { json(value) };
        text + "\n"
    }

    /// Prints one object of a stream on one line, immediately.
    pub(crate) fn object(&self, value: &(impl Serialize + ?Sized)) -> Result {
        write((json(value) + "\n").as_bytes())
    }

    /// Prints text for people. Foreign text must already be [clean](super::sanitize) so that it cannot forge a line. Even
    /// if it is not, it cannot control the terminal.
    pub(crate) fn text(&self, text: &str) -> Result {
        write(self.sanitized(text).as_bytes())
    }

    /// Prints text for people, and nothing for programs.
    pub(crate) fn for_people(&self, text: &str) -> Result {
        if self.json { Ok(()) } else { self.text(text) }
    }

    /// Prints foreign text: unchanged, or on a terminal, which it could control, in readable form.
    pub(crate) fn copy(&self, text: &str) -> Result {
        if self.is_terminal { self.text(text) } else { write(text.as_bytes()) }
    }

    /// Prints a document for programs, or the text from `people`.
    pub(crate) fn print<T: Serialize + ?Sized>(&self, value: &T, people: impl FnOnce(&T) -> String) -> Result {
        if self.json { self.document(value) } else { self.text(&people(value)) }
    }

    /// Prints something that is shown only once, such as a key, which `what` names. Losing it is an error.
    pub(crate) fn print_secret<T: Serialize + ?Sized>(&self, value: &T, what: &str, people: impl FnOnce(&T) -> String) -> Result {
        let text = if self.json { self.written(value) } else { self.sanitized(&people(value)) };
        whole(text.as_bytes()).map_err(|error| Error::refused(format!("{what} could not be written: {error}")))
    }

    /// Prints a table, or the sentence `empty` on standard error if it has no rows.
    pub(crate) fn table(&self, table: &Table, empty: &str) -> Result {
        if table.is_empty() {
            self.note(empty);
            return Ok(());
        }
        self.text(&table.text())
    }

    /// Prints a remark on standard error.
    pub(crate) fn note(&self, text: &str) {
        // There is no other place to report to.
        _ = writeln!(io::stderr(), "{}", self.sanitized(text));
    }

    /// Removes everything that controls a terminal, except colors if they are used. Clean text is unchanged.
    fn sanitized(&self, text: &str) -> String {
        let mut pieces = text.split('\u{1b}');
        let mut out = block(pieces.next().unwrap_or_default(), "");
        for piece in pieces {
            let is_color = self.colors && COLORS.iter().any(|color| piece.starts_with(color));
            out.push_str(if is_color { "\u{1b}" } else { "U+001B" });
            out.push_str(&block(piece, ""));
        }
        out
    }

    /// Colors a word, if colors are used.
    pub(crate) fn paint(&self, paint: Style, word: &str) -> String {
        if !self.colors {
            return word.to_owned();
        }
        let color = match paint {
            Style::Good => 32,
            Style::Warning => 33,
            Style::Failure => 31,
            Style::Dim => 2,
        };
        format!("\u{1b}[{color}m{word}\u{1b}[0m")
    }
}

/// Writes bytes to standard output. A closed reader is not an error.
pub(crate) fn write(bytes: &[u8]) -> Result {
    match whole(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => Ok(ended?),
    }
}

fn whole(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colors_control_a_terminal() {
        let plain = Output { json: false, is_terminal: true, colors: false };
        let colored = Output { colors: true, ..plain };
        for paint in [Style::Good, Style::Warning, Style::Failure, Style::Dim] {
            let expected = format!("a  {}  b\n", colored.paint(paint, "word"));
            assert_eq!(colored.sanitized(&expected), expected);
        }
        let hostile = "a\u{1b}[2J\u{1b}]0;b\u{7}\u{202e}\u{9b}31m\n\tc";
        for out in [plain, colored] {
            let expected = out.sanitized(hostile);
            assert_eq!(expected, "aU+001B[2JU+001B]0;bU+0007U+202EU+009B31m\n\tc");
            assert_eq!(out.sanitized(&expected), expected);
        }
        assert_eq!(plain.sanitized("\u{1b}[31mred\u{1b}[0m"), "U+001B[31mredU+001B[0m");
    }
}
