//! The words after a command.

use std::path::PathBuf;

use crate::Failure;

/// What `--engine` or `TOLLHOUSE_ENGINE` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    V8,
    QuickJs,
    Both,
}

/// The words after a command, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) engine: Option<Asked>,
    /// Length of one measurement of `bench`, how long `fuzz` looks into one target, and how long `scrape` scrapes. Default there: 5, 60 and 60.
    pub(crate) seconds: Option<u32>,
    /// Length of `soak`. Default there: 30.
    pub(crate) minutes: Option<u32>,
    /// Stores that `damage` damages, kills of `crash` and of `renewals`. Default there: 200.
    pub(crate) rounds: Option<u32>,
    /// How handlers run that `hostile` calls, as `--sandbox-tier` has it. Default: as the host has it.
    pub(crate) tier: Option<String>,
    /// The host of an earlier version, which hosts of `cluster` are before they are renewed. Default: today's.
    pub(crate) before: Option<String>,
    /// The short form of `soak`, whatever its minutes, of `faces`, of `bench victims`, and of what `dist` tries.
    pub(crate) short: bool,
    /// The long form of `faces`.
    pub(crate) full: bool,
    /// A host as tests have it, for `faces` and `dist`.
    pub(crate) debug: bool,
    /// Whether `faces` writes what it would compare with.
    pub(crate) accept: bool,
    /// How many tools there are where `faces` holds clocks to something. Default there: 1,000.
    pub(crate) tools: Option<u32>,
    /// Receipts of the longest history of `bench ledger`. Default there: 1,000,000.
    pub(crate) receipts: Option<u64>,
    /// Whether `vendor` writes nothing, and `dist` tries what it made.
    pub(crate) check: bool,
    /// The package of an older release that `dist` tries to upgrade from. Default: this one's, on data of the release before.
    pub(crate) from: Option<PathBuf>,
    /// Words without a dash: filters of `test`, the subject of `bench`, the targets of `fuzz`.
    pub(crate) words: Vec<String>,
    /// All after `--`, untouched.
    pub(crate) rest: Vec<String>,
}

impl Args {
    /// # Errors
    ///
    /// Names the word that is not understood.
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut args = Self { engine: from_env("TOLLHOUSE_ENGINE").as_deref().map(asked).transpose()?, ..Self::default() };
        while let Some(word) = given.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (word, None),
            };
            let mut value = || value.take().or_else(|| given.next()).ok_or(format!("`{name}` wants a value"));
            match name.as_str() {
                "--engine" => args.engine = Some(asked(&value()?)?),
                "--seconds" => args.seconds = Some(value()?.parse().map_err(|_| "`--seconds` wants a whole number".to_owned())?),
                "--minutes" => args.minutes = Some(value()?.parse().map_err(|_| "`--minutes` wants a whole number".to_owned())?),
                "--rounds" => args.rounds = Some(value()?.parse().map_err(|_| "`--rounds` wants a whole number".to_owned())?),
                "--tier" => args.tier = Some(value()?),
                "--before" => args.before = Some(value()?),
                "--short" => args.short = true,
                "--full" => args.full = true,
                "--debug" => args.debug = true,
                "--accept" => args.accept = true,
                "--tools" => args.tools = Some(value()?.parse().map_err(|_| "`--tools` wants a whole number".to_owned())?),
                "--receipts" => args.receipts = Some(value()?.parse().map_err(|_| "`--receipts` wants a whole number".to_owned())?),
                "--check" => args.check = true,
                "--from" => args.from = Some(value()?.into()),
                "--" => args.rest.extend(given.by_ref()),
                _ if name.starts_with('-') => return Err(format!("no option `{name}`; options of the program itself go after `--`")),
                _ => args.words.push(name),
            }
        }
        Ok(args)
    }
}

/// A variable of the environment; an empty one counts as unset.
pub(crate) fn from_env(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

fn asked(name: &str) -> Result<Asked, Failure> {
    match name {
        "v8" => Ok(Asked::V8),
        "quickjs" => Ok(Asked::QuickJs),
        "both" => Ok(Asked::Both),
        _ => Err(format!("no engine `{name}`; there are `v8` and `quickjs`, and `both` for tests")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, Failure> {
        Args::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn options_words_and_the_rest_are_told_apart() {
        let args = parse(&[
            "--engine=quickjs",
            "payment",
            "--seconds",
            "3",
            "--minutes=10",
            "--rounds=9",
            "--tier=jitless",
            "--before",
            "earlier/tollhouse",
            "--short",
            "--full",
            "--debug",
            "--accept",
            "--tools=5",
            "--receipts=6",
            "--check",
            "--from=older.deb",
            "--",
            "--listen",
            "127.0.0.1:0",
        ])
        .unwrap();
        assert_eq!(args.engine, Some(Asked::QuickJs));
        assert_eq!((args.seconds, args.minutes, args.rounds, args.short), (Some(3), Some(10), Some(9), true));
        assert_eq!((args.full, args.debug, args.check), (true, true, true));
        assert_eq!((args.accept, args.tools, args.receipts), (true, Some(5), Some(6)));
        assert_eq!((args.tier.as_deref(), args.before.as_deref()), (Some("jitless"), Some("earlier/tollhouse")));
        assert_eq!(args.from, Some(PathBuf::from("older.deb")));
        assert_eq!(args.words, ["payment"]);
        assert_eq!(args.rest, ["--listen", "127.0.0.1:0"]);
    }

    #[test]
    fn unknown_options_and_engines_are_refused_by_name() {
        assert!(parse(&["--fast"]).unwrap_err().contains("`--fast`"));
        assert!(parse(&["--engine", "jsc"]).unwrap_err().contains("`jsc`"));
        assert!(parse(&["--engine"]).unwrap_err().contains("wants a value"));
    }
}
