//! Questions to people: only where there are people, and never without a flag that answers them.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Stdin, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tollhouse_config::Hidden;
use zeroize::Zeroizing;

use super::error::{Error, Result};

/// Most bytes of a secret that is read from standard input.
const MOST_BYTES: u64 = 64 << 10;

/// Whether somebody can be asked: whoever types sees the question.
pub(crate) fn is_asked() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn only_people(question: &str, flag: &str) -> Result {
    if is_asked() {
        return Ok(());
    }
    let error = Error::usage(format!("{}: there is no terminal to ask at", question.trim_end_matches('?')));
    Err(error.hint(format!("answer with {flag}")))
}

/// Asks for a yes; anything else is a no. `flag` says yes without being asked.
///
/// # Errors
///
/// Where there is nobody to ask.
pub(crate) fn confirm(question: &str, flag: &str) -> Result<bool> {
    only_people(question, flag)?;
    let answer = typed(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a yes, and ends the command without one.
///
/// # Errors
///
/// Where there is nobody to ask, and where the answer is no.
pub(crate) fn insist(question: &str, flag: &str) -> Result {
    if confirm(question, flag)? { Ok(()) } else { Err(Error::refused("nothing was done")) }
}

/// Asks for a line.
///
/// # Errors
///
/// Where there is nobody to ask.
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
        // Ctrl-D leaves the cursor behind the question.
        _ = writeln!(stderr);
    }
    Ok(answer)
}

/// What nobody is to see: typed without being shown, or standard input as it is but for the end of its last line.
///
/// # Errors
///
/// Where there is nobody to ask and nothing on standard input, or too much.
pub(crate) fn hidden(question: &str, otherwise: &str) -> Result<Hidden> {
    let text = if is_asked() {
        let _unseen = Unseen::from_now_on()?;
        // Asked once nothing is shown: what is typed ahead is not either.
        typed_unseen(&format!("{question}: "))?
    } else if io::stdin().is_terminal() {
        return Err(only_people(question, otherwise).err().unwrap_or_else(|| Error::usage(question)));
    } else {
        let mut text = Zeroizing::new(String::new());
        io::stdin().lock().take(MOST_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(Error::usage(format!("{question}: more than {MOST_BYTES} bytes are on standard input")));
        }
        text
    };
    let text = without_line_break(&text);
    if text.is_empty() {
        return Err(Error::usage(format!("{question}: nothing was said")).hint(format!("on standard input, or {otherwise}")));
    }
    Ok(text.to_owned().into())
}

/// The text without the line break at its end: those before it are part of what is said.
fn without_line_break(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix(['\n', '\r'])).unwrap_or(text)
}

/// Ctrl-C, as a terminal sends it.
const INTERRUPT: u8 = 3;

/// Most bytes of a line that a terminal hands on: what is typed beyond is lost.
const MOST_TYPED: usize = 4_095;

/// A terminal that shows nothing of what is typed, until this is dropped. Ctrl-C ends the line and not the process, so that it is as it was
/// by then.
struct Unseen {
    stdin: Stdin,
    before: Termios,
}

impl Unseen {
    fn from_now_on() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut unseen = before.clone();
        unseen.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG;
        unseen.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(&stdin, OptionalActions::Now, &unseen)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // A terminal that has gone shows nothing.
        _ = tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }
}

/// A line that is typed at a terminal that shows nothing of it.
fn typed_unseen(question: &str) -> Result<Zeroizing<String>> {
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
    // The one that was typed is not shown.
    writeln!(stderr)?;
    if interrupted {
        return Err(Error::interrupted());
    }
    if line.len() >= MOST_TYPED {
        return Err(Error::usage("a terminal hands on no line as long as that; say it on standard input"));
    }
    let text = std::str::from_utf8(&line).map_err(|_| Error::usage("what was typed is no text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_loses_its_last_line_break_only() {
        for (text, kept) in
            [("a", "a"), ("a\n", "a"), ("a\n\n", "a\n"), ("a\r\n", "a"), ("a\r\n\r\n", "a\r\n"), ("a\n\r", "a\n"), ("\n", "")]
        {
            assert_eq!(without_line_break(text), kept, "{text:?}");
        }
    }
}
