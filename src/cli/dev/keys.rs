//! Reads single key presses from a terminal. Without a terminal, no keys are read, and nothing waits for any.

use std::{
    io::{self, IsTerminal as _, Read as _},
    thread,
};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// A command by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyCommand {
    Call,
    Cases,
    Open,
    Quit,
}

/// Raw mode of a terminal. Dropping it restores the terminal.
pub(super) struct RawKeys {
    pressed: Option<mpsc::Receiver<KeyCommand>>,
    before: Option<Termios>,
}

/// The list of keys, shown once.
pub(super) const HELP: &str = "[c] call again  [r] cases  [o] open  [q] quit";

impl RawKeys {
    pub(super) fn read() -> Self {
        let none = Self { pressed: None, before: None };
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return none;
        }
        let Ok(before) = tcgetattr(io::stdin()) else { return none };
        let mut raw = before.clone();
        // Read keys one by one without echo. Ctrl-C still works.
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(io::stdin(), OptionalActions::Now, &raw).is_err() {
            return none;
        }
        let (press, pressed) = mpsc::channel(8);
        // The thread ends with the process or the terminal.
        thread::spawn(move || {
            for byte in io::stdin().lock().bytes() {
                let key = match byte {
                    Ok(b'c') => KeyCommand::Call,
                    Ok(b'r') => KeyCommand::Cases,
                    Ok(b'o') => KeyCommand::Open,
                    Ok(b'q') => KeyCommand::Quit,
                    Ok(_) => continue,
                    Err(_) => return,
                };
                if press.blocking_send(key).is_err() {
                    return;
                }
            }
        });
        Self { pressed: Some(pressed), before: Some(before) }
    }

    /// Returns whether keys can be read.
    pub(super) fn are_there(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the next key. Waits forever if no keys can be read.
    pub(super) async fn next(&mut self) -> Option<KeyCommand> {
        match &mut self.pressed {
            Some(pressed) => match pressed.recv().await {
                Some(key) => Some(key),
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

impl Drop for RawKeys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
