//! Prompts: only if a person can answer, and always with a flag as an alternative.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tollhouse_config::HiddenValue;
use zeroize::Zeroizing;

use super::{Error, Result};

/// Maximum length of a secret read from standard input, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Returns whether a person can answer: standard input and standard error are terminals.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn only_people(question: &str, flag: &str) -> Result {
    if is_interactive() {
        return Ok(());
    }
    let error = Error::usage(format!("{}: this question needs a terminal", question.trim_end_matches('?')));
    Err(error.hint(format!("answer with {flag}")))
}

/// Asks for confirmation. Anything but yes means no. `flag` is the alternative to answering.
pub(crate) fn confirm(question: &str, flag: &str) -> Result<bool> {
    only_people(question, flag)?;
    let answer = typed(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks for confirmation, and ends the command without it.
///
/// # Errors
///
/// Nobody can answer, or the answer is no.
pub(crate) fn require_confirmation(question: &str, flag: &str) -> Result {
    if confirm(question, flag)? { Ok(()) } else { Err(Error::refused("canceled; nothing was changed")) }
}

/// Arguments of commands that record a decision.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfirmArgs {
    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Fails at once if nobody can answer the question that comes later.
    pub(crate) fn require_terminal(&self, question: &str) -> Result {
        if self.yes { Ok(()) } else { only_people(question, "--yes") }
    }

    /// Returns whether nobody is asked, because of `--yes`.
    pub(crate) fn is_given(&self) -> bool {
        self.yes
    }

    /// Asks for confirmation without `--yes`, and ends the command without it.
    ///
    /// # Errors
    ///
    /// As for [`require_confirmation`].
    pub(crate) fn require(&self, question: &str) -> Result {
        if self.yes { Ok(()) } else { require_confirmation(question, "--yes") }
    }
}

/// Asks for a line.
pub(crate) fn ask(question: &str, flag: &str) -> Result<String> {
    only_people(question, flag)?;
    Ok(typed(&format!("{question}: "))?.trim().to_owned())
}

fn typed(question: &str) -> Result<String> {
    let mut stderr = io::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        // Ctrl-D leaves the cursor after the question.
        _ = writeln!(stderr);
    }
    Ok(answer)
}

/// Reads a secret: typed without echo, or standard input without the line break at its end.
///
/// # Errors
///
/// Nobody can answer and standard input is empty or too long.
pub(crate) fn hidden(question: &str, otherwise: &str) -> Result<HiddenValue> {
    let text = if is_interactive() {
        // Ctrl-C ends the line instead of the process, so that the terminal is always restored.
        let _unseen = TerminalMode::set(|unseen| {
            unseen.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG;
            unseen.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        })?;
        // Prompt after echo is off, so that text typed ahead is not shown either.
        read_hidden(&format!("{question}: "))?
    } else if io::stdin().is_terminal() {
        return Err(only_people(question, otherwise).err().unwrap_or_else(|| Error::usage(question)));
    } else {
        let mut text = Zeroizing::new(String::new());
        io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(Error::usage(format!("{question}: standard input has more than {MAX_BYTES} bytes")));
        }
        text
    };
    let text = without_line_break(&text);
    if text.is_empty() {
        return Err(Error::usage(format!("{question}: the input is empty")).hint(format!("use standard input, or {otherwise}")));
    }
    Ok(text.to_owned().into())
}

/// Removes the final line break. Earlier ones belong to the answer.
fn without_line_break(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix(['\n', '\r'])).unwrap_or(text)
}

/// Ctrl-C, as a terminal sends it.
const INTERRUPT: u8 = 3;

/// Maximum bytes of a line that a terminal delivers. Anything typed beyond is lost.
const MAX_TYPED: usize = 4_095;

/// The terminal of standard input, in another mode until this is dropped.
pub(crate) struct TerminalMode {
    before: Termios,
}

impl TerminalMode {
    pub(crate) fn set(change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut changed = before.clone();
        change(&mut changed);
        tcsetattr(io::stdin(), OptionalActions::Now, &changed)?;
        Ok(Self { before })
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        // Ignore a terminal that has gone.
        _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Reads a line from a terminal whose echo is off.
fn read_hidden(question: &str) -> Result<Zeroizing<String>> {
    let mut stderr = io::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let (mut stdin, mut line) = (io::stdin().lock(), Zeroizing::new(Vec::new()));
    let interrupted = loop {
        let read = stdin.fill_buf()?;
        let end = read.iter().position(|byte| matches!(*byte, b'\n' | INTERRUPT));
        line.extend_from_slice(&read[..end.unwrap_or(read.len())]);
        let (is_interrupt, taken) = (end.is_some_and(|end| read[end] == INTERRUPT), end.map_or(read.len(), |end| end + 1));
        stdin.consume(taken);
        if end.is_some() || taken == 0 {
            break is_interrupt;
        }
    };
    // The typed line break was not shown.
    writeln!(stderr)?;
    if interrupted {
        return Err(Error::interrupted());
    }
    if line.len() >= MAX_TYPED {
        return Err(Error::usage("the line is too long for a terminal; use standard input"));
    }
    let text = std::str::from_utf8(&line).map_err(|_| Error::usage("the input is not valid UTF-8"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_break_is_removed() {
        for (text, stored) in
            [("a", "a"), ("a\n", "a"), ("a\n\n", "a\n"), ("a\r\n", "a"), ("a\r\n\r\n", "a\r\n"), ("a\n\r", "a\n"), ("\n", "")]
        {
            assert_eq!(without_line_break(text), stored, "{text:?}");
        }
    }
}
