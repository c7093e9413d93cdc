//! Schemas of input and result, as they travel with a bundle, and what a worker says of them.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Problems reported of one value. Further ones are left out.
pub const MAX_PROBLEMS: usize = 16;

/// Which of the two schemas of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// What a caller sends.
    Input,
    /// What a handler answers.
    Output,
}

impl Side {
    /// Its member of an endpoint's record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "inputSchema",
            Self::Output => "outputSchema",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// JSON Schemas as JSON text. A worker compiles them once, and holds against them what comes in and goes out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schemas {
    /// `None` where the worker has nothing to check.
    pub input: Option<Bytes>,
    /// As above.
    pub output: Option<Bytes>,
}

impl Schemas {
    /// Whether there is nothing to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }

    /// That of one side.
    #[must_use]
    pub fn get(&self, side: Side) -> Option<&Bytes> {
        match side {
            Side::Input => self.input.as_ref(),
            Side::Output => self.output.as_ref(),
        }
    }
}

/// Why a schema cannot be used. Shown to its builder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct SchemaFault {
    /// Which of the two.
    pub side: Side,
    /// JSON Pointer to the part of the schema that is wrong.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
}

/// One way in which a value does not fit. Of the value itself it says where, and the names of members that are there and may
/// not be, but nothing of what they hold, which may be long, or private.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// JSON Pointer into the value.
    pub pointer: String,
    /// What does not fit.
    pub message: String,
}
