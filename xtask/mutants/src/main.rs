//! Runs the tests against every mutant of a crate. `cargo xtask mutants` builds what is needed, and
//! starts this.
//!
//! cargo-mutants lists the mutants. All of them are built at once, each behind a [switch]. Each
//! test runs alone once, to find out which mutants it reaches. Each mutant is then tested with the
//! tests that reach it: unit tests first, because they are fast, and HTTP tests only for those that
//! are left. The few mutants that cannot use a switch are [built one by one](alone).

#![warn(missing_docs)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to its terminal")]

mod alone;
mod areas;
mod cargo;
mod failure;
mod mutant;
mod switch;
mod tests;
mod tree;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use cargo::{Cargo, root};
use failure::Failure;
use mutant::Mutant;
use tests::{Suite, Verdict};

/// Number of concurrent processes with HTTP tests, and of tests in each. With more, time-outs would
/// interfere.
const OUTSIDE: (usize, usize) = (3, 2);

/// The results for the mutants of an area: their names, and for caught ones the test.
#[derive(Debug, Default)]
struct Report {
    own: Vec<String>,
    outside: Vec<String>,
    living: Vec<String>,
    unviable: Vec<String>,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [program, folder, area, request @ ..] = words.as_slice() else {
        eprintln!("`cargo xtask mutants` starts this with cargo-mutants, a folder, an area and options for cargo-mutants");
        return ExitCode::FAILURE;
    };
    match run(PathBuf::from(program), Path::new(folder), area, request) {
        Ok(report) if report.living.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(program: PathBuf, folder: &Path, area: &str, request: &[String]) -> Result<Report, Failure> {
    let area = areas::find(area)?;
    let cargo = Cargo { program, copy: folder.join("tree"), target: folder.join("build") };
    tree::copy(&root(), &cargo.copy)?;
    let mutants = mutant::list(&mut cargo.mutants(), area, request)?;
    let built = tree::build(area, &cargo.copy, &cargo.target, &mutants)?;
    println!(
        "{} mutants: {} in one build, {} unviable, {} one by one",
        mutants.len(),
        built.switched.len(),
        built.unviable.len(),
        built.alone.len()
    );

    let lists = folder.join(area.name);
    let mut report = Report { unviable: built.unviable.iter().map(|&number| mutants[number].name.clone()).collect(), ..Report::default() };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let suite = |program: &Path, (jobs, threads)| Suite { program: program.to_owned(), home: built.home.clone(), jobs, threads };
    let switched: Vec<_> = built.switched.iter().copied().collect();
    let (noticed, remaining) = noticed(&suite(&built.own, (cores, 2)), area.own, &folder.join("reached"), &switched, &mutants)?;
    report.own = noticed;
    println!("{} noticed by the crate's own tests, {} not", report.own.len(), remaining.len());
    let (noticed, remaining) =
        self::noticed(&suite(&built.outside, OUTSIDE), area.outside.1, &folder.join("reached"), &remaining, &mutants)?;
    report.outside = noticed;
    report.living = remaining.iter().map(|&number| mutants[number].name.clone()).collect();
    println!("{} of these by tests over HTTP, {} not", report.outside.len(), remaining.len());

    built.restore()?;
    let names: Vec<_> = built.alone.iter().map(|&number| mutants[number].name.as_str()).collect();
    let tried = alone::ask(area, &cargo, &lists.join("alone"), &names)?;
    report.own.extend(tried.own);
    report.outside.extend(tried.outside);
    report.living.extend(tried.living);
    report.unviable.extend(tried.unviable);
    report.write(&lists)?;
    report.print(area.name);
    Ok(report)
}

/// Returns which mutants the tests of a suite catch, each with the test, and which they do not.
fn noticed(
    suite: &Suite,
    filters: &[&str],
    folder: &Path,
    request: &[usize],
    mutants: &[Mutant],
) -> Result<(Vec<String>, Vec<usize>), Failure> {
    if request.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let tests = suite.survey(filters, folder)?;
    let (mut noticed, mut remaining) = (Vec::new(), Vec::new());
    for (number, verdict) in suite.ask(&tests, request, |number| eprintln!("not noticed so far: {}", mutants[number].name))? {
        let name = &mutants[number].name;
        match verdict {
            Verdict::Fails(test) => noticed.push(format!("{name}\t{test}")),
            Verdict::Hangs => noticed.push(format!("{name}\ttests hang")),
            Verdict::Passes | Verdict::Unreached => remaining.push(number),
        }
    }
    Ok((noticed, remaining))
}

impl Report {
    fn lists(&self) -> [(&'static str, &[String]); 4] {
        [("own", &self.own), ("outside", &self.outside), ("living", &self.living), ("unviable", &self.unviable)]
    }

    /// Writes a file for each list.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        for (name, list) in self.lists() {
            let file = folder.join(format!("{name}.txt"));
            let text: String = list.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&file, text).map_err(|reason| format!("cannot write {}: {reason}", file.display()))?;
        }
        Ok(())
    }

    fn print(&self, area: &str) {
        let counts: Vec<_> = self.lists().iter().map(|(name, list)| format!("{} {name}", list.len())).collect();
        println!("{area}: {}", counts.join(", "));
        if !self.living.is_empty() {
            println!("no test notices:\n{}", self.living.join("\n"));
        }
    }
}
