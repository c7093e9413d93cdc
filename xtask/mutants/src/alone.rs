//! Mutants that cannot use a switch: cargo-mutants builds them one at a time.

use std::{fs, path::Path};

use crate::{Cargo, Failure, areas::MutationArea};

/// Exit codes of cargo-mutants after it tried all: all caught, some missed, some timed out.
const TRIED: [i32; 3] = [0, 2, 3];

/// The results: lists of names.
#[derive(Debug, Default)]
pub(crate) struct TriedMutants {
    pub(crate) own: Vec<String>,
    pub(crate) outside: Vec<String>,
    pub(crate) living: Vec<String>,
    pub(crate) unviable: Vec<String>,
}

/// Runs both kinds of tests against the mutants with these names.
pub(crate) fn ask(area: &MutationArea, cargo: &Cargo, folder: &Path, names: &[&str]) -> Result<TriedMutants, Failure> {
    _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|reason| format!("cannot make {}: {reason}", folder.display()))?;
    let mut tried = TriedMutants::default();
    if names.is_empty() {
        return Ok(tried);
    }
    run(area, cargo, folder, names, &["--cargo-arg=--lib"], area.own)?;
    let list = |name: &str| -> Result<Vec<String>, Failure> {
        let file = folder.join("mutants.out").join(name);
        let text = fs::read_to_string(&file).map_err(|reason| format!("cannot read {}: {reason}", file.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    (tried.unviable, tried.living) = (list("unviable.txt")?, list("missed.txt")?);
    tried.own = [list("caught.txt")?, list("timeout.txt")?].concat();
    let reported = tried.unviable.len() + tried.living.len() + tried.own.len();
    if reported < names.len() {
        return Err(format!("cargo-mutants reports {reported} mutants instead of {}", names.len()));
    }
    if !tried.living.is_empty() {
        let (binary, claims) = area.outside;
        let remaining: Vec<_> = tried.living.iter().map(String::as_str).collect();
        run(area, cargo, folder, &remaining, &["--cargo-arg=--test", &format!("--cargo-arg={binary}")], claims)?;
        tried.outside = [list("caught.txt")?, list("timeout.txt")?].concat();
        tried.living = list("missed.txt")?;
    }
    Ok(tried)
}

fn run(area: &MutationArea, cargo: &Cargo, folder: &Path, names: &[&str], kind: &[&str], claims: &[&str]) -> Result<(), Failure> {
    let mut mutants = cargo.mutants();
    mutants
        .args(["--in-place", "--no-shuffle", "--output"])
        .arg(folder)
        .args(area.sources())
        .args(names.iter().flat_map(|name| ["--re".to_owned(), exactly(name)]));
    mutants.args(kind).args(["--", "--"]).args(claims).env("CARGO_TARGET_DIR", &cargo.target);
    let status = mutants.status().map_err(|reason| format!("cannot start cargo-mutants: {reason}"))?;
    if status.code().is_some_and(|code| TRIED.contains(&code)) { Ok(()) } else { Err(format!("cargo-mutants failed: {status}")) }
}

/// Returns a pattern that matches only this text.
fn exactly(name: &str) -> String {
    // These two are literal. After a `\` they would mean a word boundary.
    let is_escaped = |c: char| c.is_ascii_punctuation() && !matches!(c, '<' | '>');
    let plain: String = name.chars().flat_map(|c| is_escaped(c).then_some('\\').into_iter().chain([c])).collect();
    format!("^{plain}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_literally() {
        assert_eq!(exactly("a.rs:1: * with /"), r"^a\.rs\:1\: \* with \/$");
        assert_eq!(exactly("f -> u8 with <<"), r"^f \-> u8 with <<$");
    }
}
