//! Formats an error with its causes on one line.

use std::{error::Error, iter};

/// Formats an error and each of its causes, separated by colons.
#[must_use]
pub fn full_message(error: &dyn Error) -> String {
    let causes = iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
