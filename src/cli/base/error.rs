//! Errors of commands, and their exit codes.

use std::{
    fmt,
    io::{self, Write as _},
};

use serde_json::{Map, Value, json};
use tollhouse_base::{error_chain::full_message, sentence::sentence_case};

use super::{block, line};

/// The exit code of a failed command, for programs. Success is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The host refused, or it failed.
    Refused = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A credential is missing, wrong, or stored unsafely.
    Credential = 3,
    /// A payment was refused or would exceed a limit.
    Payment = 4,
    /// The host does not answer.
    Unavailable = 5,
    /// It is unknown whether something was charged.
    Unknown = 6,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) exit: Exit,
    /// One sentence without a period. It is printed in sentence case, so a name at its start is in backticks.
    pub(crate) message: String,
    /// Further details, one line each.
    pub(crate) more: Vec<String>,
    /// A suggestion for the user.
    pub(crate) hint: Option<String>,
    /// Whether the hint is a complete sentence that needs no introduction.
    pub(crate) is_sentence: bool,
    /// The host's `error` object, if it sent one.
    pub(crate) reported: Box<Map<String, Value>>,
    /// Whether there was no connection, so that nothing was sent.
    pub(crate) is_unsent: bool,
    /// Set if the error output is closed: nothing is printed, and the process exits with this code.
    pub(crate) silent: Option<u8>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Converts an error of a command that uses no host: an `Error` stays the same, any other is formatted with its causes.
impl From<Box<dyn std::error::Error>> for Error {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        error.downcast::<Self>().map_or_else(|error| Self::refused(full_message(error.as_ref())), |own| *own)
    }
}

/// The result of a command or a part of one.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            more: vec![],
            hint: None,
            is_sentence: false,
            reported: Box::default(),
            is_unsent: false,
            silent: None,
        }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn credential(message: impl Into<String>) -> Self {
        Self::new(Exit::Credential, message)
    }

    /// Returns the error after Ctrl-C, with the exit code that shells use for it.
    pub(crate) fn interrupted() -> Self {
        Self { silent: Some(130), ..Self::refused("interrupted") }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets a hint that is printed unchanged.
    #[must_use]
    pub(crate) fn ending(self, sentence: impl Into<String>) -> Self {
        Self { is_sentence: true, ..self.hint(sentence) }
    }

    #[must_use]
    pub(crate) fn more(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.more.extend(lines);
        self
    }

    /// Replaces names of fields in the host's error with names of flags. Each pair has the field and the flag.
    #[must_use]
    pub(crate) fn flags(mut self, names: &[(&str, &str)]) -> Self {
        for line in &mut self.more {
            for (field, flag) in names {
                if *line == format!("at /{field}") {
                    *line = format!("at --{flag}");
                }
            }
        }
        self
    }

    /// Returns the host's error code, such as `unknown_endpoint`, or an empty string.
    pub(crate) fn code(&self) -> &str {
        self.text("code")
    }

    /// Returns the request's id, for the host's operator.
    pub(crate) fn request_id(&self) -> &str {
        self.text("requestId")
    }

    fn text(&self, name: &str) -> &str {
        self.reported.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the exit code of the process.
    pub(crate) fn status(&self) -> u8 {
        self.silent.unwrap_or(self.exit as u8)
    }

    /// Prints the error on standard error, as text or as one JSON object.
    pub(crate) fn report(&self, as_json: bool) {
        if self.silent.is_some() {
            return;
        }
        let text = if as_json { format!("{}\n", super::sanitize::json(&self.record())) } else { self.words() };
        // There is no other place to report to.
        _ = io::stderr().write_all(text.as_bytes());
    }

    /// Returns the error as JSON: the host's error object, with the command's own fields on top.
    fn record(&self) -> Value {
        let mut error = Value::Object((*self.reported).clone());
        error["message"] = json!(sentence_case(self.message.clone()));
        error["exit"] = json!(self.exit as u8);
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if !self.more.is_empty() {
            error["more"] = json!(self.more);
        }
        json!({ "ok": false, "error": error })
    }

    /// Formats the error for people.
    pub(crate) fn words(&self) -> String {
        let head = match self.exit {
            Exit::Unknown => "unknown",
            Exit::Refused | Exit::Usage | Exit::Credential | Exit::Payment | Exit::Unavailable => "error",
        };
        let mut text = format!("{head}: {}\n", block(&sentence_case(self.message.clone()), "  "));
        for more in &self.more {
            text += &format!("  {}\n", block(more, "  "));
        }
        if let Some(hint) = &self.hint {
            let head = if self.is_sentence || self.exit == Exit::Unknown { "" } else { "hint: " };
            text += &format!("{head}{}\n", block(hint, "  "));
        }
        if self.is_sentence {
            return text;
        }
        let reported = match (self.code(), self.request_id()) {
            ("", "") => return text,
            (code, "") => code.to_owned(),
            ("", request) => request.to_owned(),
            (code, request) => format!("{code}, {request}"),
        };
        text + &format!("({})\n", line(&reported))
    }
}

/// Converts an I/O error of the command itself.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::refused(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_by_their_flags() {
        let error = Error::refused("no").more(["at /transaction", "at /amountUsd", "at /other"].map(str::to_owned));
        let reported = error.flags(&[("amountUsd", "amount"), ("transaction", "transaction")]).more;
        assert_eq!(reported, ["at --transaction", "at --amount", "at /other"]);
    }
}
