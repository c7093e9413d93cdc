//! `cargo xtask`: everything that people or CI do with this repository.
//!
//! Its only dependencies are a lexer of Rust and a parser of Markdown, so that it compiles in
//! seconds on a machine with empty caches.

#![warn(missing_docs)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints to its terminal")]

mod args;
mod bench;
mod browser;
mod browser_stories;
mod chain;
mod clients;
mod conformance;
mod deny;
mod dist;
mod docs;
mod engine;
mod examples;
mod failure;
mod fuzz;
mod host;
mod lint;
mod long_tests;
mod mutants;
mod npm_packages;
mod packages;
mod paths;
mod prose;
mod serve;
mod shell;
mod soak;
mod strip;
mod test;
mod tools;
mod vendor;
mod workers;
mod wpt;

use std::{
    io::{Write as _, stdout},
    process::ExitCode,
};

use failure::Failure;

const HELP: &str = "\
cargo xtask serve [--engine v8|quickjs] [ARGS]           build host and worker, and start the host on ./data
cargo xtask test  [--engine v8|quickjs|both] [FILTER…]   run all tests; CI uses both engines
cargo xtask bench call [--engine v8|quickjs] [--seconds N]   requests per second and latencies, compared with a bare axum route
cargo xtask bench cli                                    help, a local deploy, and a save until the change is served, with their limits
cargo xtask bench mcp  [--seconds N]                     MCP's tools/call, compared with a bare axum route and the TypeScript SDK
cargo xtask bench paid [--seconds N]                     paid calls on a chain, compared with Express and its x402 middleware
cargo xtask bench many [--seconds N]                     many paid calls at once, on each kind of store and with several hosts
cargo xtask bench revenue                                reports of 100,000 receipts, and paid calls during them
cargo xtask bench ledger [--receipts 1000000]            revenue, a payout and a start with growing numbers of receipts
cargo xtask bench catalog                                memory, start and searches with a hundred to a million endpoints
cargo xtask bench density                                how many endpoints fit on a machine: memory, and time of the first call
cargo xtask bench victims [ROW…] [--seconds N] [--short] calls of others during attacks from one address, with 10,000 endpoints
                                                         (ROW is a part of the name of a row to measure)
cargo xtask bench fairness [--seconds N]                 one builder's attacks during another's calls, which must all succeed
cargo xtask bench neighbors  [--seconds N]               p99 of a call next to attackers, as a multiple of p99 next to honest neighbors
cargo xtask bench search                                 how often the search finds the right tool, and how long it takes
cargo xtask bench store [--seconds N]                    durable commits per second on disk and in a database
cargo xtask soak [--minutes 30] [--short]                free calls at full rate during attacks: memory, disk and descriptors must not grow
cargo xtask crash [--rounds 200]                         kills during paid calls and at start: no receipt is lost, and no payment charged twice
cargo xtask cluster [--rounds 30] [--before HOST]        kills of three hosts and their PostgreSQL during paid calls; HOST is an earlier version
cargo xtask hostile [--rounds 3] [--engine v8|quickjs] [--tier jit|jitless]   hostile handlers on a live host: each must end as expected
cargo xtask scrape [--seconds 60]                        Prometheus scrapes a busy host, and every dashboard panel must have data
cargo xtask damage [--rounds 200]                        changed and missing bytes in store files: the host must detect all
cargo xtask renewals [--rounds 200]                      kills during a compaction of the store: no commit is lost
cargo xtask conformance [--engine v8|quickjs]            the MCP front end with MCP's conformance suite and common clients
cargo xtask wpt [TEST…] [--engine v8|quickjs|both] [--from CHECKOUT] [--update]   the web-platform tests as handlers, beside
                                                         Deno and Node; no folder passes less than its baseline, which --update raises
cargo xtask faces [STORY…] [--short] [--full] [--debug]  pages in a real browser: accessibility, size, policy, user stories
cargo xtask faces snapshots --accept                     store what a screen reader gets of each page; without the flag, compare
cargo xtask faces speed [--tools 1000]                   how long the list of tools takes to load
cargo xtask packages [NAME…] [--accept]                  popular npm packages in tools: published, and called once
cargo xtask examples [--engine v8|quickjs]               ten tools that people sell: published, and paid for by a stock client
cargo xtask vendor [--check]                             build the page editor and Node's modules from locked packages
cargo xtask dist [--check [--from DEB]] [--short] [--debug]   build the tarball, the Debian package and the npm packages; with --check, test them
cargo xtask lint                                         formatting, prose, clippy, documentation and dependencies; warnings are errors
cargo xtask lint --prose [--write-baseline]              the style of documents, pages, help, errors and comments alone
cargo xtask docs                                         write the tables of the documents from the code
cargo xtask fuzz [TARGET…] [--seconds N] [-- ARGS]       search for untrusted input that breaks something
cargo xtask mutants CRATE [-- ARGS]                      change a crate's code in small ways, and list the changes that no test detects

ARGS go to `tollhouse serve` (`--listen 127.0.0.1:8080`), to cargo-mutants (`-- --re FILE`), or to libFuzzer. FILTERs are parts of test names.
You can also set the engine with TOLLHOUSE_ENGINE. The default is V8 if its prebuilt library is available, else QuickJS.";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next();
    if let Some(help) = command.as_deref().and_then(|command| asked_help(command, std::env::args().skip(2))) {
        return show(&help);
    }
    let done = match command.as_deref() {
        Some("serve") => args::Args::of_serve(words).and_then(serve::run),
        Some("test") => args::Args::parse(words).and_then(test::run),
        Some("bench") => args::Args::parse(words).and_then(bench::run),
        Some("soak") => args::Args::parse(words).and_then(|args| soak::run(&args)),
        Some("conformance") => args::Args::parse(words).and_then(|args| conformance::run(&args)),
        Some("wpt") => args::Args::parse(words).and_then(|args| wpt::run(&args)),
        Some("crash") => args::Args::parse(words).and_then(|args| long_tests::crash(&args)),
        Some("cluster") => args::Args::parse(words).and_then(|args| long_tests::cluster(&args)),
        Some("hostile") => args::Args::parse(words).and_then(|args| long_tests::hostile(&args)),
        Some("scrape") => args::Args::parse(words).and_then(|args| long_tests::scrape(&args)),
        Some("renewals") => args::Args::parse(words).and_then(|args| long_tests::renewals(&args)),
        Some("damage") => args::Args::parse(words).and_then(|args| long_tests::damage(&args)),
        Some("faces") => args::Args::parse(words).and_then(|args| browser_stories::run(&args)),
        Some("examples") => args::Args::parse(words).and_then(|args| examples::run(&args)),
        Some("packages") => args::Args::parse(words).and_then(|args| npm_packages::run(&args)),
        Some("vendor") => args::Args::parse(words).and_then(|args| vendor::run(&args)),
        Some("lint") => args::Args::parse(words).and_then(lint::run),
        Some("dist") => args::Args::parse(words).and_then(|args| dist::run(&args)),
        Some("docs") => args::Args::parse(words).and_then(|args| docs::run(&args)),
        Some("fuzz") => args::Args::parse(words).and_then(|args| fuzz::run(&args)),
        Some("mutants") => args::Args::parse(words).and_then(|args| mutants::run(&args)),
        Some(serve::ANNOUNCE) => serve::announce(words),
        Some("help" | "--help" | "-h") => return show(HELP),
        Some(other) => Err(format!("unknown command `{other}`\n\n{HELP}")),
        None => Err(HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the help of a command if its arguments ask for it, or all of it if the command has none.
fn asked_help(command: &str, words: impl Iterator<Item = String>) -> Option<String> {
    let mut own = words.take_while(|word| word != "--");
    if command == serve::ANNOUNCE || !own.any(|word| matches!(word.as_str(), "--help" | "-h")) {
        return None;
    }
    let lines: Vec<_> = HELP.lines().filter(|line| line.split_whitespace().nth(2) == Some(command)).collect();
    Some(if lines.is_empty() { HELP.to_owned() } else { lines.join("\n") })
}

/// Prints a text. A reader that has seen enough can close the pipe, which is no failure.
fn show(text: &str) -> ExitCode {
    _ = writeln!(stdout(), "{text}");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_own_help() {
        let asked = |command: &str, words: &[&str]| asked_help(command, words.iter().map(|word| (*word).to_owned()));
        let help = asked("crash", &["--help"]).unwrap();
        assert!(help.starts_with("cargo xtask crash ") && help.lines().count() == 1, "{help}");
        assert_eq!(asked("bench", &["call", "-h"]).unwrap().lines().count(), bench::SUBJECTS.len());
        assert_eq!(asked("nothing", &["--help"]).as_deref(), Some(HELP));
        assert_eq!(asked("fuzz", &["frame", "--", "--help"]), None);
        assert_eq!(asked("test", &["help"]), None);
    }

    #[test]
    fn help_lists_every_benchmark() {
        for subject in bench::SUBJECTS {
            assert!(HELP.contains(&format!("cargo xtask bench {subject} ")), "{subject}");
        }
    }
}
