//! Where a command tells: what was asked for on standard output, everything else on standard error. A reader who has gone has what they wanted,
//! and keeps nothing from being done: a command ends as it would have with one, but where it [shows something once](Out::tell_once).

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use super::{
    clean::{block, json, json_for_people},
    environment,
    error::{Error, Result},
    table::Table,
};

/// How things are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    /// Whether programs read it.
    pub(crate) json: bool,
    is_terminal: bool,
    colours: bool,
}

/// What colours begin and end with, behind the character that has a terminal heed it.
const COLOURS: [&str; 5] = ["[0m", "[2m", "[31m", "[32m", "[33m"];

/// What a word is painted as, where colours are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    /// Well, settled, active.
    Good,
    /// Waits, is unknown, is play money.
    Odd,
    /// Failed, refused, taken down.
    Bad,
    /// Beside the point.
    Quiet,
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { json, is_terminal, colours: is_terminal && !json && !environment::is_plain() }
    }

    /// The one document that was asked for.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn document(&self, value: &(impl Serialize + ?Sized)) -> Result {
        write(self.written(value).as_bytes())
    }

    fn written(&self, value: &(impl Serialize + ?Sized)) -> String {
        let text = if self.is_terminal { json_for_people(value) } else { json(value) };
        text + "\n"
    }

    /// One object of a stream, on a line of its own, at once.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn object(&self, value: &(impl Serialize + ?Sized)) -> Result {
        write((json(value) + "\n").as_bytes())
    }

    /// Text for people. Words of others have to be [clean](super::clean) by then, so that they forge no line; those that are not drive no
    /// terminal all the same.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn text(&self, text: &str) -> Result {
        write(self.harmless(text).as_bytes())
    }

    /// A text of others: its bytes as they are. To a terminal, which they could drive, as people read them.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn copy(&self, text: &str) -> Result {
        if self.is_terminal { self.text(text) } else { write(text.as_bytes()) }
    }

    /// A document for programs; else what `people` makes of it.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn tell<T: Serialize + ?Sized>(&self, value: &T, people: impl FnOnce(&T) -> String) -> Result {
        if self.json { self.document(value) } else { self.text(&people(value)) }
    }

    /// The same of what is shown this once, such as `what` says: whoever has gone does not have it.
    ///
    /// # Errors
    ///
    /// Where it cannot be written, or nobody reads.
    pub(crate) fn tell_once<T: Serialize + ?Sized>(&self, value: &T, what: &str, people: impl FnOnce(&T) -> String) -> Result {
        let text = if self.json { self.written(value) } else { self.harmless(&people(value)) };
        whole(text.as_bytes()).map_err(|error| Error::refused(format!("{what} could not be written: {error}")))
    }

    /// A table, or a sentence on standard error where it has no row.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(crate) fn table(&self, table: &Table, empty: &str) -> Result {
        if table.is_empty() {
            self.note(empty);
            return Ok(());
        }
        self.text(&table.text())
    }

    /// A sentence beside the answer, on standard error.
    pub(crate) fn note(&self, text: &str) {
        // There is nobody else to tell.
        _ = writeln!(io::stderr(), "{}", self.harmless(text));
    }

    /// With nothing in it that drives a terminal but colours, where there are any. What is clean stays as it is.
    fn harmless(&self, text: &str) -> String {
        let mut pieces = text.split('\u{1b}');
        let mut out = block(pieces.next().unwrap_or_default(), "");
        for piece in pieces {
            let is_colour = self.colours && COLOURS.iter().any(|colour| piece.starts_with(colour));
            out.push_str(if is_colour { "\u{1b}" } else { "U+001B" });
            out.push_str(&block(piece, ""));
        }
        out
    }

    /// A word in colour, where there are colours.
    pub(crate) fn paint(&self, paint: Paint, word: &str) -> String {
        if !self.colours {
            return word.to_owned();
        }
        let colour = match paint {
            Paint::Good => 32,
            Paint::Odd => 33,
            Paint::Bad => 31,
            Paint::Quiet => 2,
        };
        format!("\u{1b}[{colour}m{word}\u{1b}[0m")
    }
}

/// Bytes as they are, on standard output.
///
/// # Errors
///
/// Where they cannot be written, though somebody reads.
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
    fn colours_are_told_and_nothing_else_drives_a_terminal() {
        let plain = Out { json: false, is_terminal: true, colours: false };
        let coloured = Out { colours: true, ..plain };
        for paint in [Paint::Good, Paint::Odd, Paint::Bad, Paint::Quiet] {
            let told = format!("a  {}  b\n", coloured.paint(paint, "word"));
            assert_eq!(coloured.harmless(&told), told);
        }
        let hostile = "a\u{1b}[2J\u{1b}]0;b\u{7}\u{202e}\u{9b}31m\n\tc";
        for out in [plain, coloured] {
            let told = out.harmless(hostile);
            assert_eq!(told, "aU+001B[2JU+001B]0;bU+0007U+202EU+009B31m\n\tc");
            assert_eq!(out.harmless(&told), told);
        }
        assert_eq!(plain.harmless("\u{1b}[31mred\u{1b}[0m"), "U+001B[31mredU+001B[0m");
    }
}
