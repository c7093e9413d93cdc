//! Notes of a check, and truncation of foreign texts.

use serde::Serialize;

/// Maximum number of notes in a report.
const MAX_NOTES: usize = 40;
/// Maximum length of a foreign text that is repeated, in characters.
const SHORT: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// It is as it should be.
    Ok,
    Info,
    /// Some clients will have problems.
    Warning,
    /// Clients cannot use it.
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Note {
    pub(super) severity: Severity,
    pub(super) code: &'static str,
    pub(super) message: String,
}

#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Note>);

impl Notes {
    pub(super) fn ok(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(Severity::Ok, code, message.into());
    }

    pub(super) fn info(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(Severity::Info, code, message.into());
    }

    pub(super) fn warning(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(Severity::Warning, code, message.into());
    }

    pub(super) fn error(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(Severity::Error, code, message.into());
    }

    pub(super) fn any_error(&self) -> bool {
        self.0.iter().any(|note| note.severity == Severity::Error)
    }

    pub(super) fn into_vec(self) -> Vec<Note> {
        self.0
    }

    fn add(&mut self, severity: Severity, code: &'static str, message: String) {
        // The first error is always added, because `ready` must not depend on earlier notes.
        if self.0.len() < MAX_NOTES || (severity == Severity::Error && !self.any_error()) {
            self.0.push(Note { severity, code, message });
        }
    }
}

/// Shortens `text` to a length that is safe to repeat, and removes control characters.
pub(super) fn short(text: &str) -> String {
    let mut chars = text.chars().filter(|c| !c.is_control());
    let mut cut: String = chars.by_ref().take(SHORT).collect();
    if chars.next().is_some() {
        cut.push('…');
    }
    cut
}
