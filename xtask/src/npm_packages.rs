//! `cargo xtask packages`: publishes a tool with each npm package of `fixtures/tried` on a host, calls it, and compares
//! the result with a baseline, which can only grow.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Failure,
    args::{Args, from_env},
    clients, engine,
    host::Host,
    paths, shell, workers,
};

/// The packages that do not work, each with the reason, as the documents show it: `NAME: REASON`.
const BASELINE: &str = "fixtures/tried/baseline.txt";

/// Builds everything in release mode, and tries the packages, or those that are named. With `--accept`, removes packages
/// that work from the baseline. Uses the binaries that `TOLLHOUSE` and `TOLLHOUSE_WORKER` name, if set.
///
/// # Errors
///
/// Fails if a package does not work that should, or works although the baseline has it.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let packages = clients::prepare_npm("tried");
    let worker = match from_env("TOLLHOUSE_WORKER") {
        Some(built) => PathBuf::from(built),
        None => workers::build(engine::pick(args.engine)?)?,
    };
    let program = match from_env("TOLLHOUSE") {
        Some(built) => PathBuf::from(built),
        None => workers::build_host()?,
    };
    let packages = packages.join().map_err(|_| "the installation of the packages failed")??;
    let host = Host::start::<&str>(&program, &worker, &[])?;
    let handlers = paths::root().join("fixtures/tried/handlers");
    let mut script = Command::new("node");
    script.arg("try.mjs").arg(&host.url).arg(&handlers).args(&args.words).current_dir(&packages);
    script.env("TOLLHOUSE", &program).env("TOLLHOUSE_ADMIN_TOKEN_FILE", host.admin_token());
    let printed = shell::output(&mut script).ok_or("`node try.mjs` failed")?;
    let outcomes: Vec<_> = printed.lines().filter_map(outcome).collect();
    let baseline = read_baseline(&paths::read(&paths::root().join(BASELINE))?);
    for Outcome { name, reason } in &outcomes {
        println!("{:<20} {}", name, reason.as_deref().unwrap_or("works"));
    }
    let works = outcomes.iter().filter(|outcome| outcome.reason.is_none()).count();
    println!("{works} of {} work", outcomes.len());
    judge(&outcomes, baseline, args.accept, args.words.is_empty().then_some(&*handlers))
}

/// The result of a package.
#[derive(Debug, PartialEq)]
struct Outcome {
    name: String,
    /// Why it does not work.
    reason: Option<String>,
}

/// Parses a line such as `{"name":"zod","works":true}`.
fn outcome(line: &str) -> Option<Outcome> {
    let rest = line.strip_prefix("{\"name\":\"")?;
    let (name, rest) = rest.split_once("\",\"works\":")?;
    let reason = match rest.split_once(",\"reason\":\"") {
        Some((_, reason)) => Some(reason.strip_suffix("\"}")?.to_owned()),
        None => rest.starts_with("true").then_some(None)?,
    };
    Some(Outcome { name: name.to_owned(), reason })
}

/// Parses lines of the form `NAME: REASON`.
fn read_baseline(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once(": ")).map(|(name, reason)| (name.to_owned(), reason.to_owned())).collect()
}

/// Compares outcomes with the baseline. `handlers` is set if all of them were tried.
fn judge(outcomes: &[Outcome], mut baseline: BTreeMap<String, String>, accept: bool, handlers: Option<&Path>) -> Result<(), Failure> {
    let is_known = |outcome: &&Outcome| baseline.contains_key(&outcome.name);
    let broken: Vec<_> = outcomes.iter().filter(|outcome| outcome.reason.is_some() && !is_known(outcome)).collect();
    let better: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.reason.is_none() && is_known(outcome)).map(|outcome| &*outcome.name).collect();
    if let Some(handlers) = handlers {
        let tried: BTreeSet<_> = outcomes.iter().map(|outcome| outcome.name.clone()).collect();
        let files = fs::read_dir(handlers).map_err(|reason| format!("cannot read {}: {reason}", handlers.display()))?.flatten();
        let untried: Vec<_> = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".js")?.replace('+', "/"))).collect();
        if let Some(name) = untried.iter().find(|name| !tried.contains(*name)) {
            return Err(format!("`{name}` was not tried"));
        }
    }
    if !broken.is_empty() {
        let lines: Vec<_> =
            broken.iter().map(|outcome| format!("{}: {}", outcome.name, outcome.reason.as_deref().unwrap_or_default())).collect();
        return Err(format!("these worked before:\n{}", lines.join("\n")));
    }
    if better.is_empty() {
        return Ok(());
    }
    if !accept {
        return Err(format!("these work now: {}; run `cargo xtask packages --accept`, and `cargo xtask docs`", better.join(", ")));
    }
    better.iter().for_each(|name| _ = baseline.remove(*name));
    let text: String = baseline.iter().map(|(name, reason)| format!("{name}: {reason}\n")).collect();
    let file = paths::root().join(BASELINE);
    fs::write(&file, text).map_err(|reason| format!("cannot write {}: {reason}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baseline_can_only_grow() {
        let works = outcome("{\"name\":\"zod\",\"works\":true}").unwrap();
        let fails = outcome("{\"name\":\"zod\",\"works\":false,\"reason\":\"502: no\"}").unwrap();
        assert_eq!((works.reason.as_deref(), fails.reason.as_deref()), (None, Some("502: no")));
        assert_eq!(outcome("{\"name\":\"zod\",\"works\":false}"), None);
        let baseline = |text: &str| read_baseline(text);
        assert!(judge(&[works], baseline(""), false, None).is_ok());
        assert!(judge(&[fails], baseline("sharp: needs Node\n"), false, None).unwrap_err().contains("zod: 502: no"));
        let fails = Outcome { name: "sharp".to_owned(), reason: Some("no".to_owned()) };
        assert!(judge(&[fails], baseline("sharp: needs Node\n"), true, None).is_ok());
        let works = Outcome { name: "sharp".to_owned(), reason: None };
        assert!(judge(&[works], baseline("sharp: needs Node\n"), false, None).unwrap_err().contains("sharp"));
    }
}
