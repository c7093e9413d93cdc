//! `cargo xtask damage`: flips and cuts anywhere in the files of a store, and whether any of it is silent.

use crate::{Failure, args::Args, shell};

/// The test whose rounds are told.
const TEST: &[&str] =
    &["test", "--package", "tollhouse", "--test", "store_contract", "no_damage_to_any_file_is_silent", "--", "--nocapture"];

/// Rounds, where none are asked for.
const ROUNDS: u32 = 200;

/// # Errors
///
/// Cargo's words, and words that are not understood.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(word) = args.words.first() {
        return Err(format!("`cargo xtask damage` takes no `{word}`"));
    }
    let rounds = args.rounds.unwrap_or(ROUNDS).to_string();
    shell::run_behind("damaging stores", shell::cargo(TEST).env("TOLLHOUSE_DAMAGE_ROUNDS", rounds))
}
