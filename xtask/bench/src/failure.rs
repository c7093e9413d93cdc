//! Why a run ends without its figures.

use std::error::Error;

/// Whatever it is, people are told.
pub(crate) type Failure = Box<dyn Error>;
