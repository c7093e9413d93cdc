//! `cargo xtask docs`: writes the tables in the documents from the code that they describe.

use crate::{Failure, args::Args, shell};

/// The test that compares the tables can also write them.
const WRITER: &[&str] = &["test", "--quiet", "--package", "tollhouse", "--test", "docs", "every_table_matches_the_code"];

/// Writes the tables.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(word) = args.words.first() {
        return Err(format!("`cargo xtask docs` takes no `{word}`"));
    }
    shell::run_with_progress("writing the tables", shell::cargo(WRITER).env("TOLLHOUSE_DOCS", "write"))
}
