//! Findings about a machine or a host: fine, a warning, or a failure, with what to do.

use std::{error::Error, fmt};

use serde::Serialize;
use tollhouse_base::error_chain::full_message;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Everything is in order.
    Ok,
    /// A host runs, but with less protection than possible, or may soon have a problem.
    Warn,
    /// A host does not start, or breaks a promise.
    Fail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// The part of a host that it concerns, such as `disk`.
    pub part: &'static str,
    /// The instance of that part, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The result, in one line.
    pub text: String,
    /// Remedies, one line each.
    pub remedies: Vec<String>,
}

impl Finding {
    /// Creates a finding that all is well.
    pub fn ok(part: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, part, of: None, text: text.into(), remedies: Vec::new() }
    }

    pub fn warn(part: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warn, part, of: None, text: text.into(), remedies: vec![remedy.into()] }
    }

    /// Creates a failure with a remedy.
    pub fn fail(part: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Fail, part, of: None, text: text.into(), remedies: vec![remedy.into()] }
    }

    /// Sets the instance, for a part with several.
    #[must_use]
    pub fn of(self, which: impl Into<String>) -> Self {
        Self { of: Some(which.into()), ..self }
    }

    /// Creates a failure from an error, with a remedy.
    pub fn error(part: &'static str, error: &dyn Error, remedy: impl Into<String>) -> Self {
        Self::fail(part, full_message(error), remedy)
    }
}

/// Formats a finding as `warn  disk: 90 MiB are free → make room`. Control characters in foreign texts are removed.
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
    fn finding_is_formatted_in_one_line() {
        let finding = Finding::warn("public", "it says `a\nok    b\u{1b}[0m`", "do this");
        assert_eq!(finding.to_string(), "warn  public: it says `a ok    b [0m` → do this");
        let both = Finding { remedies: vec!["one".into(), "two".into()], ..finding };
        assert_eq!(both.to_string().lines().count(), 3);
        assert_eq!(Finding::ok("engine", "all").of("v8, jail").to_string(), "ok    engine v8, jail: all");
    }
}
