//! Why a command ended without what it was asked for, and with which code.

use std::{
    fmt,
    io::{self, Write as _},
};

use serde_json::{Map, Value, json};
use tollhouse_base::causes::in_full;

use super::clean::{block, line};

/// How a command ends: programs read it. 0 is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The host refused, or it failed.
    Refused = 1,
    /// The command line is not one.
    Usage = 2,
    /// No credential, a wrong one, or one that is kept badly.
    Credential = 3,
    /// A payment was refused, or would pass a limit.
    Payment = 4,
    /// The host does not answer.
    Away = 5,
    /// It is not known whether something was charged.
    Unknown = 6,
}

/// Why a command ended.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) exit: Exit,
    /// In one sentence, lower case, without its end.
    pub(crate) message: String,
    /// What can be told besides, a line each.
    pub(crate) more: Vec<String>,
    /// What to do.
    pub(crate) hint: Option<String>,
    /// Whether the hint is a sentence that says itself what it is.
    pub(crate) is_sentence: bool,
    /// What the host said, where it said something: `error` of its envelope.
    pub(crate) said: Box<Map<String, Value>>,
    /// Whoever asked has gone: nothing is told, and this is what the process ends with.
    pub(crate) silent: Option<u8>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What a command that asks no host ends by: its own word, or one sentence with its causes.
impl From<Box<dyn std::error::Error>> for Error {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        error.downcast::<Self>().map_or_else(|error| Self::refused(in_full(error.as_ref())), |own| *own)
    }
}

/// How what a command does ends.
pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), more: vec![], hint: None, is_sentence: false, said: Box::default(), silent: None }
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

    /// Whoever was asked typed Ctrl-C: it ends as shells tell of that.
    pub(crate) fn interrupted() -> Self {
        Self { silent: Some(130), ..Self::refused("interrupted") }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A hint that is told as it is.
    #[must_use]
    pub(crate) fn ending(self, sentence: impl Into<String>) -> Self {
        Self { is_sentence: true, ..self.hint(sentence) }
    }

    #[must_use]
    pub(crate) fn more(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.more.extend(lines);
        self
    }

    /// Names flags where the host names fields: each as it is called there, and here.
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

    /// The code that the host gave, such as `unknown_endpoint`; nothing where it gave none.
    pub(crate) fn code(&self) -> &str {
        self.text("code")
    }

    /// Which request it was, for the host's operator.
    pub(crate) fn request_id(&self) -> &str {
        self.text("requestId")
    }

    fn text(&self, name: &str) -> &str {
        self.said.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number that the process ends with.
    pub(crate) fn status(&self) -> u8 {
        self.silent.unwrap_or(self.exit as u8)
    }

    /// Tells it on standard error: in words, or as one JSON object.
    pub(crate) fn tell(&self, as_json: bool) {
        if self.silent.is_some() {
            return;
        }
        let text = if as_json { format!("{}\n", super::clean::json(&self.record())) } else { self.words() };
        // There is nobody else to tell.
        _ = io::stderr().write_all(text.as_bytes());
    }

    /// As programs read it: what the host said, under what the command says of it.
    fn record(&self) -> Value {
        let mut error = Value::Object((*self.said).clone());
        error["message"] = json!(self.message);
        error["exit"] = json!(self.exit as u8);
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if !self.more.is_empty() {
            error["more"] = json!(self.more);
        }
        json!({ "ok": false, "error": error })
    }

    /// As people read it.
    pub(crate) fn words(&self) -> String {
        let head = match self.exit {
            Exit::Unknown => "unknown",
            Exit::Refused | Exit::Usage | Exit::Credential | Exit::Payment | Exit::Away => "error",
        };
        let mut text = format!("{head}: {}\n", block(&self.message, "  "));
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
        let told = match (self.code(), self.request_id()) {
            ("", "") => return text,
            (code, "") => code.to_owned(),
            ("", request) => request.to_owned(),
            (code, request) => format!("{code}, {request}"),
        };
        text + &format!("({})\n", line(&told))
    }
}

/// Of what is written and read here.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::refused(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_as_the_flags_that_say_them() {
        let error = Error::refused("no").more(["at /transaction", "at /amountUsd", "at /other"].map(str::to_owned));
        let told = error.flags(&[("amountUsd", "amount"), ("transaction", "transaction")]).more;
        assert_eq!(told, ["at --transaction", "at --amount", "at /other"]);
    }
}
