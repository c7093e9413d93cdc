//! Tests in their long form: `cargo xtask damage` and `cargo xtask crash`.

use crate::{Failure, args::Args, shell};

/// A test that can be asked for more rounds.
struct Long {
    command: &'static str,
    doing: &'static str,
    test: &'static [&'static str],
    /// Where it reads how many rounds are asked for.
    rounds: &'static str,
}

/// Rounds, where none are asked for.
const ROUNDS: u32 = 200;

/// Flips and cuts anywhere in the files of a store.
const DAMAGE: Long = Long {
    command: "damage",
    doing: "damaging stores",
    test: &["--test", "store_contract", "no_damage_to_any_file_is_silent"],
    rounds: "TOLLHOUSE_DAMAGE_ROUNDS",
};

/// Kills of a host that is paid, and of one that starts.
const CRASH: Long = Long {
    command: "crash",
    doing: "killing hosts",
    test: &["--test", "it", "no_kill_loses_a_receipt_or_takes_a_payment_twice"],
    rounds: "TOLLHOUSE_CRASH_ROUNDS",
};

/// # Errors
///
/// Cargo's words, and words that are not understood.
pub(crate) fn damage(args: &Args) -> Result<(), Failure> {
    run(&DAMAGE, args)
}

/// # Errors
///
/// As [`damage`].
pub(crate) fn crash(args: &Args) -> Result<(), Failure> {
    run(&CRASH, args)
}

fn run(long: &Long, args: &Args) -> Result<(), Failure> {
    let Long { command, doing, test, rounds } = long;
    if let Some(word) = args.words.first() {
        return Err(format!("`cargo xtask {command}` takes no `{word}`"));
    }
    let words = [&["test", "--package", "tollhouse"], *test, &["--", "--nocapture"]].concat();
    shell::run_behind(doing, shell::cargo(&words).env(rounds, args.rounds.unwrap_or(ROUNDS).to_string()))
}
