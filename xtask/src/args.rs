//! The arguments of a command.

use std::path::PathBuf;

use crate::Failure;

/// The value of `--engine` or `TOLLHOUSE_ENGINE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineArg {
    V8,
    QuickJs,
    Both,
}

/// The parsed arguments of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) engine: Option<EngineArg>,
    /// Duration of one measurement of `bench` (default 5), of `fuzz` for each target (default 60),
    /// and of `scrape` (default 60).
    pub(crate) seconds: Option<u32>,
    /// Duration of `soak`. Default: 30.
    pub(crate) minutes: Option<u32>,
    /// Number of stores that `damage` damages, and of kills in `crash` and `renewals`. Default:
    /// 200.
    pub(crate) rounds: Option<u32>,
    /// The sandbox tier of the handlers that `hostile` calls, with the values of `--sandbox-tier`.
    /// Default: the default of the host.
    pub(crate) tier: Option<String>,
    /// The binary of an earlier version that the hosts of `cluster` run before their upgrade.
    /// Default: the current one.
    pub(crate) before: Option<String>,
    /// Selects the short form of `soak` (whatever its minutes), of `faces`, of `bench victims`, and of the trials of
    /// `dist`.
    pub(crate) short: bool,
    /// Selects the long form of `faces`.
    pub(crate) full: bool,
    /// Uses a debug build of the host, as the tests do. For `faces` and `dist`.
    pub(crate) debug: bool,
    /// Makes `faces` and `packages` write the files that they otherwise compare with.
    pub(crate) accept: bool,
    /// Number of tools in the timing tests of `faces`. Default: 1,000.
    pub(crate) tools: Option<u32>,
    /// Number of receipts in the longest history of `bench ledger`. Default: 1,000,000.
    pub(crate) receipts: Option<u64>,
    /// Makes `vendor` compare and write nothing, and makes `dist` check its results.
    pub(crate) check: bool,
    /// Makes `lint` check prose only.
    pub(crate) prose: bool,
    /// Makes `lint --prose` write its baseline, which can only shrink.
    pub(crate) write_baseline: bool,
    /// Makes `wpt` raise its baseline, which can only grow.
    pub(crate) update: bool,
    /// The package of an older release from which `dist` checks the upgrade. Default: the package
    /// of this release, on data of the previous release. For `wpt`, a checkout of the tests.
    pub(crate) from: Option<PathBuf>,
    /// The arguments without a dash: filters of `test` and `wpt`, the subject of `bench`, the targets
    /// of `fuzz`.
    pub(crate) words: Vec<String>,
    /// The arguments after `--`, unchanged.
    pub(crate) rest: Vec<String>,
}

impl Args {
    /// Parses the arguments.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut args = Self { engine: from_env("TOLLHOUSE_ENGINE").as_deref().map(parse_engine).transpose()?, ..Self::default() };
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (word, None),
            };
            let mut value = || value.take().or_else(|| words.next()).ok_or(format!("`{name}` needs a value"));
            match name.as_str() {
                "--engine" => args.engine = Some(parse_engine(&value()?)?),
                "--seconds" => args.seconds = Some(value()?.parse().map_err(|_| "`--seconds` needs a whole number".to_owned())?),
                "--minutes" => args.minutes = Some(value()?.parse().map_err(|_| "`--minutes` needs a whole number".to_owned())?),
                "--rounds" => args.rounds = Some(value()?.parse().map_err(|_| "`--rounds` needs a whole number".to_owned())?),
                "--tier" => args.tier = Some(value()?),
                "--before" => args.before = Some(value()?),
                "--short" => args.short = true,
                "--full" => args.full = true,
                "--debug" => args.debug = true,
                "--accept" => args.accept = true,
                "--tools" => args.tools = Some(value()?.parse().map_err(|_| "`--tools` needs a whole number".to_owned())?),
                "--receipts" => args.receipts = Some(value()?.parse().map_err(|_| "`--receipts` needs a whole number".to_owned())?),
                "--check" => args.check = true,
                "--prose" => args.prose = true,
                "--write-baseline" => args.write_baseline = true,
                "--update" => args.update = true,
                "--from" => args.from = Some(value()?.into()),
                "--" => args.rest.extend(words.by_ref()),
                _ if name.starts_with('-') => return Err(format!("unknown option `{name}`; put options of the program itself after `--`")),
                _ => args.words.push(name),
            }
        }
        Ok(args)
    }
}

impl Args {
    /// Parses the arguments of `serve`. All except `--engine` go to the host, with or without `--` before them.
    pub(crate) fn of_serve(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => rest.extend(words.by_ref()),
                "--engine" => own.extend([word].into_iter().chain(words.next())),
                _ if word.starts_with("--engine=") => own.push(word),
                _ => rest.push(word),
            }
        }
        Ok(Self { rest, ..Self::parse(own.into_iter())? })
    }
}

/// Returns an environment variable. An empty one counts as unset.
pub(crate) fn from_env(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

fn parse_engine(name: &str) -> Result<EngineArg, Failure> {
    match name {
        "v8" => Ok(EngineArg::V8),
        "quickjs" => Ok(EngineArg::QuickJs),
        "both" => Ok(EngineArg::Both),
        _ => Err(format!("unknown engine `{name}`; use `v8` or `quickjs`, or `both` for tests")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, Failure> {
        Args::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn options_words_and_the_rest_are_distinguished() {
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
            "--prose",
            "--write-baseline",
            "--update",
            "--from=older.deb",
            "--",
            "--listen",
            "127.0.0.1:0",
        ])
        .unwrap();
        assert_eq!(args.engine, Some(EngineArg::QuickJs));
        assert_eq!((args.seconds, args.minutes, args.rounds, args.short), (Some(3), Some(10), Some(9), true));
        assert_eq!((args.full, args.debug, args.check), (true, true, true));
        assert!(args.prose && args.write_baseline && args.update);
        assert_eq!((args.accept, args.tools, args.receipts), (true, Some(5), Some(6)));
        assert_eq!((args.tier.as_deref(), args.before.as_deref()), (Some("jitless"), Some("earlier/tollhouse")));
        assert_eq!(args.from, Some(PathBuf::from("older.deb")));
        assert_eq!(args.words, ["payment"]);
        assert_eq!(args.rest, ["--listen", "127.0.0.1:0"]);
    }

    #[test]
    fn options_of_the_host_need_no_dashes_before_them() {
        let parse = |words: &[&str]| Args::of_serve(words.iter().map(|word| (*word).to_owned())).unwrap();
        for words in [&["--engine", "v8", "--data", "/d", "--check"][..], &["--data", "/d", "--engine=v8", "--", "--check"]] {
            let args = parse(words);
            assert_eq!((args.engine, args.check), (Some(EngineArg::V8), false));
            assert_eq!(args.rest, ["--data", "/d", "--check"]);
        }
        assert_eq!(parse(&["--", "--engine"]).rest, ["--engine"]);
    }

    #[test]
    fn unknown_options_and_engines_are_refused_by_name() {
        assert!(parse(&["--fast"]).unwrap_err().contains("`--fast`"));
        assert!(parse(&["--engine", "jsc"]).unwrap_err().contains("`jsc`"));
        assert!(parse(&["--engine"]).unwrap_err().contains("needs a value"));
    }
}
