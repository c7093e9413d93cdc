//! `cargo xtask docs`: writes the tables of the documents from the code that they describe.

use crate::{Failure, args::Args, shell};

/// The test that compares the tables writes them when it is told to.
const WRITER: &[&str] = &["test", "--quiet", "--package", "tollhouse", "--test", "docs", "every_table_is_what_the_code_says"];

/// # Errors
///
/// Cargo's words, and words that are not understood.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(word) = args.words.first() {
        return Err(format!("`cargo xtask docs` takes no `{word}`"));
    }
    shell::run_behind("writing the tables", shell::cargo(WRITER).env("TOLLHOUSE_DOCS", "write"))
}
