//! What is told of a machine or a host: well, to be looked at, or in the way; with what to do.

use std::{error::Error, fmt};

use serde::Serialize;
use tollhouse_base::causes::in_full;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// A host runs with it, and keeps less than it could, or may come to.
    Warn,
    /// A host does not start with it, or breaks a promise.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it stands.
    pub level: Level,
    /// Which part of a host it is of, such as `disk`.
    pub part: &'static str,
    /// What of that part, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// What was found, in one line.
    pub text: String,
    /// What to do, each in one line.
    pub remedies: Vec<String>,
}

impl Finding {
    /// Something that is as it should be.
    #[must_use]
    pub fn ok(part: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, part, of: None, text: text.into(), remedies: Vec::new() }
    }

    /// Something to be looked at, and what to do.
    #[must_use]
    pub fn warn(part: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warn, part, of: None, text: text.into(), remedies: vec![remedy.into()] }
    }

    /// Something in the way, and what to do.
    #[must_use]
    pub fn fail(part: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Fail, part, of: None, text: text.into(), remedies: vec![remedy.into()] }
    }

    /// The same, of something that a part has several of.
    #[must_use]
    pub fn of(self, which: impl Into<String>) -> Self {
        Self { of: Some(which.into()), ..self }
    }

    /// An error in the way, and what to do.
    #[must_use]
    pub fn error(part: &'static str, error: &dyn Error, remedy: impl Into<String>) -> Self {
        Self::fail(part, in_full(error), remedy)
    }
}

/// `warn  disk: 90 MiB are free → make room`. What others said is told without their control characters.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok  ",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        let of = self.of.as_deref().map(|of| format!(" {}", printable(of))).unwrap_or_default();
        write!(f, "{level}  {}{of}: {}", self.part, printable(&self.text))?;
        match &self.remedies[..] {
            [] => Ok(()),
            [remedy] => write!(f, " → {}", printable(remedy)),
            several => several.iter().try_for_each(|remedy| write!(f, "\n      → {}", printable(remedy))),
        }
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_however_many_it_was_told_in() {
        let finding = Finding::warn("public", "it says `a\nok    b\u{1b}[0m`", "do this");
        assert_eq!(finding.to_string(), "warn  public: it says `a ok    b [0m` → do this");
        let both = Finding { remedies: vec!["one".into(), "two".into()], ..finding };
        assert_eq!(both.to_string().lines().count(), 3);
        assert_eq!(Finding::ok("engine", "all").of("v8, jail").to_string(), "ok    engine v8, jail: all");
    }
}
