//! The error of an aborted run.

use std::error::Error;

/// Any error, shown to people.
pub(crate) type Failure = Box<dyn Error>;
