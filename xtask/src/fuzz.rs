//! `cargo xtask fuzz`: libFuzzer searches for input that breaks a property which must hold for
//! every input.
//!
//! The targets are tests (see `tests/fuzz`). They are built here a second time, with coverage
//! counters, on the stable compiler, into a separate folder. Useful inputs stay in
//! `fuzz/found/TARGET` of the target folder, and the next run starts from them. Inputs that break a
//! target are written to `fuzz/broken`. After they are minimized, add them to the seeds.

use std::{fs, path::Path, process::Command};

use crate::{Failure, args::Args, paths, shell};

/// Default duration for each target.
const SECONDS: u32 = 60;

/// Compiler flags for the coverage counters and comparisons of libFuzzer.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Maximum length of an input, in bytes.
const MAX_BYTES: u32 = 16 << 10;

/// Maximum time for one input, in seconds.
const INPUT_SECONDS: u32 = 10;

/// Maximum memory of the process, in MiB.
const PROCESS_MIB: u32 = 2_048;

/// Fuzzes the named targets, or all, one after the other.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let all = targets(&paths::root().join("tests/fuzz/seeds"))?;
    if let Some(unknown) = args.words.iter().find(|word| !all.contains(word)) {
        return Err(format!("unknown target `{unknown}`; the targets are {}", all.join(", ")));
    }
    let requested = if args.words.is_empty() { &all } else { &args.words };
    requested.iter().try_for_each(|target| fuzz_target(target, args))
}

/// Returns the names of the targets, which are those of the folders with their seeds.
fn targets(seeds: &Path) -> Result<Vec<String>, Failure> {
    let folders = fs::read_dir(seeds).map_err(|reason| format!("cannot read {}: {reason}", seeds.display()))?;
    let mut names: Vec<_> = folders.flatten().map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

fn fuzz_target(target: &str, args: &Args) -> Result<(), Failure> {
    let home = paths::target().join("fuzz");
    let (found, broken) = (home.join("found").join(target), home.join("broken"));
    for folder in [&found, &broken] {
        fs::create_dir_all(folder).map_err(|reason| format!("cannot create {}: {reason}", folder.display()))?;
    }
    let options = [
        found.display().to_string(),
        format!("-artifact_prefix={}/{target}-", broken.display()),
        format!("-max_total_time={}", args.seconds.unwrap_or(SECONDS)),
        format!("-max_len={MAX_BYTES}"),
        format!("-timeout={INPUT_SECONDS}"),
        format!("-rss_limit_mb={PROCESS_MIB}"),
        "-print_final_stats=1".to_owned(),
    ];
    let options: Vec<_> = options.iter().chain(&args.rest).map(String::as_str).collect();
    let mut cargo = shell::cargo(&["test", "--lib", "--bins", "--features", "tollhouse-fuzz/guided", "--target", &host()?]);
    let packages = paths::packages()?;
    cargo.args(["--package", "tollhouse-protocol"]).args(packages.iter().flat_map(|name| ["--package", name])).args([
        "--",
        "fuzz::",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    cargo.env("CARGO_TARGET_DIR", &home).env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}")).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    cargo.env("TOLLHOUSE_FUZZ", target).env("TOLLHOUSE_FUZZ_ARGUMENTS", options.join("\n"));
    shell::run(&mut cargo)
}

/// Returns the target triple of this machine. If Cargo gets it, build scripts are compiled without
/// counters.
fn host() -> Result<String, Failure> {
    let about = shell::output(Command::new("rustc").arg("-vV")).ok_or("`rustc -vV` failed")?;
    about.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned).ok_or_else(|| "`rustc -vV` reports no host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_with_seeds_is_a_test_of_some_package() {
        let mut named = Vec::new();
        for folder in ["src", "sandbox"] {
            collect_targets(&paths::root().join(folder), &mut named);
        }
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, targets(&paths::root().join("tests/fuzz/seeds")).unwrap());
    }

    fn collect_targets(folder: &Path, named: &mut Vec<String>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                collect_targets(&path, named);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap();
                let calls = text.split("tollhouse_fuzz::check(\"").skip(1);
                named.extend(calls.filter_map(|call| call.split('"').next()).map(str::to_owned));
            }
        }
    }
}
