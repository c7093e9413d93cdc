//! Schemas of input and result in a bundle, and the problems that a worker reports.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Maximum problems reported for one value. Further ones are left out.
pub const MAX_PROBLEMS: usize = 16;

/// Identifies one of the two schemas of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// The input from the caller.
    Input,
    /// The result of the handler.
    Output,
}

impl Side {
    /// Returns its field name in an endpoint's record.
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

/// JSON Schemas as JSON text. A worker compiles them once and validates inputs and results with
/// them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schemas {
    /// Schema of the input. `None` if the worker has nothing to check.
    pub input: Option<Bytes>,
    /// Schema of the result. `None` if the worker has nothing to check.
    pub output: Option<Bytes>,
}

impl Schemas {
    /// Returns whether there is nothing to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }

    /// Returns the schema of one side.
    #[must_use]
    pub fn get(&self, side: Side) -> Option<&Bytes> {
        match side {
            Side::Input => self.input.as_ref(),
            Side::Output => self.output.as_ref(),
        }
    }
}

/// Why a schema is not usable, for its builder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct SchemaFault {
    /// The schema.
    pub side: Side,
    /// JSON Pointer to the invalid part of the schema.
    pub pointer: String,
    /// Description of the error.
    pub message: String,
}

/// One problem of an invalid value. It names the location and unexpected field names, but never
/// contains values, which can be long or private.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// JSON Pointer into the value.
    pub pointer: String,
    /// Description of the problem.
    pub message: String,
}
