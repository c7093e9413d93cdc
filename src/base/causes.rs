//! An error in one line, for people.

use std::{error::Error, iter};

/// What it is, and each of its causes.
#[must_use]
pub fn in_full(error: &dyn Error) -> String {
    let causes = iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
