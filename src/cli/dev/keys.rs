//! Reads single key presses from a terminal. Without a terminal, no keys are read, and nothing waits for any.

use std::{
    io::{self, IsTerminal as _, Read as _},
    thread,
};

use rustix::termios::{LocalModes, SpecialCodeIndex};
use tokio::sync::mpsc;

use crate::base::TerminalMode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyCommand {
    Call,
    Schedule,
    Cases,
    Open,
    Quit,
}

/// The keys pressed on a terminal in raw mode, if there is a terminal.
pub(super) struct RawKeys(Option<(mpsc::Receiver<KeyCommand>, TerminalMode)>);

/// The list of keys, shown once.
pub(super) const HELP: &str = "[c] call again  [s] schedule  [r] cases  [o] open  [q] quit";

impl RawKeys {
    pub(super) fn read() -> Self {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Self(None);
        }
        // Read keys one by one without echo. Ctrl-C still works.
        let mode = TerminalMode::set(|raw| {
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        });
        let Ok(mode) = mode else { return Self(None) };
        let (press, pressed) = mpsc::channel(8);
        // The thread ends with the process or the terminal.
        thread::spawn(move || {
            for byte in io::stdin().lock().bytes() {
                let key = match byte {
                    Ok(b'c') => KeyCommand::Call,
                    Ok(b's') => KeyCommand::Schedule,
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
        Self(Some((pressed, mode)))
    }

    /// Returns whether keys can be read.
    pub(super) fn are_there(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the next key. Waits forever if no keys can be read.
    pub(super) async fn next(&mut self) -> Option<KeyCommand> {
        if let Some((pressed, _)) = &mut self.0
            && let Some(key) = pressed.recv().await
        {
            return Some(key);
        }
        std::future::pending().await
    }
}
