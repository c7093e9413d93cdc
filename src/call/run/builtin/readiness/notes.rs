//! Notes of a check, and the cutting of others' texts.

use serde::Serialize;

/// Most notes of a report.
const MAX_NOTES: usize = 40;
/// Characters of the other side's texts that are repeated.
const SHORT: usize = 160;

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// As it should be.
    Ok,
    /// Good to know.
    Info,
    /// Some clients will stumble.
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
        // An error always has a place: `ready` must not depend on how much came before it.
        if self.0.len() < MAX_NOTES || (severity == Severity::Error && !self.any_error()) {
            self.0.push(Note { severity, code, message });
        }
    }
}

/// `text` cut to a length that is safe to repeat, without control characters.
pub(super) fn short(text: &str) -> String {
    let mut chars = text.chars().filter(|c| !c.is_control());
    let mut cut: String = chars.by_ref().take(SHORT).collect();
    if chars.next().is_some() {
        cut.push('…');
    }
    cut
}
