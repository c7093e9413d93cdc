//! Single keys, on a terminal: without it, none is read, and nothing waits for any.

use std::{
    io::{self, IsTerminal as _, Read as _},
    thread,
};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// What somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Call,
    Cases,
    Open,
    Quit,
}

/// The keys of a terminal, which is as it was when this is dropped.
pub(super) struct Keys {
    pressed: Option<mpsc::Receiver<Key>>,
    before: Option<Termios>,
}

/// What they do, told once.
pub(super) const HELP: &str = "[c] call again  [r] cases  [o] open  [q] quit";

impl Keys {
    pub(super) fn read() -> Self {
        let none = Self { pressed: None, before: None };
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return none;
        }
        let Ok(before) = tcgetattr(io::stdin()) else { return none };
        let mut raw = before.clone();
        // Keys one by one, and not shown; Ctrl-C stays what it is.
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(io::stdin(), OptionalActions::Now, &raw).is_err() {
            return none;
        }
        let (press, pressed) = mpsc::channel(8);
        // It ends with the process, or with the terminal.
        thread::spawn(move || {
            for byte in io::stdin().lock().bytes() {
                let key = match byte {
                    Ok(b'c') => Key::Call,
                    Ok(b'r') => Key::Cases,
                    Ok(b'o') => Key::Open,
                    Ok(b'q') => Key::Quit,
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

    /// Whether there are any.
    pub(super) fn are_there(&self) -> bool {
        self.before.is_some()
    }

    /// The next; never, where there are none.
    pub(super) async fn next(&mut self) -> Option<Key> {
        match &mut self.pressed {
            Some(pressed) => match pressed.recv().await {
                Some(key) => Some(key),
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
