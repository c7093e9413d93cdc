//! Checks that the tests which `sandbox/README.md` names for its promises exist.

use std::{collections::BTreeSet, fs, path::PathBuf};

use crate::root;

/// The headings whose tables name a test in the last column of each row.
const HEADINGS: [&str; 2] = ["## Promises", "## Between owners"];

/// Prefix of a hostile handler in a row.
const HANDLER: &str = "hostile/";

/// Returns the names in backticks in the last column of each row below a heading, each with its
/// row.
fn rows<'a>(document: &'a str, heading: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let (_, below) = document.split_once(&format!("{heading}\n")).expect("the heading is there");
    let table = below.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| ")).skip(1);
    let names = |line: &'a str| line.trim_end_matches(['|', ' ']).rsplit_once(" | ").map_or("", |(_, last)| last);
    table.map(|line| (line, names(line).split('`').skip(1).step_by(2).collect())).collect()
}

/// Returns the names of all tests.
fn tests() -> BTreeSet<String> {
    let mut open: Vec<PathBuf> = ["src", "sandbox", "tests", "xtask"].map(|folder| root().join(folder)).into();
    let mut found = BTreeSet::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("a folder can be read").flatten().map(|entry| entry.path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let (text, mut is_test) = (fs::read_to_string(&path).expect("a source can be read"), false);
            for line in text.lines().map(str::trim_start) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                    found.insert(rest.split('(').next().unwrap_or_default().to_owned());
                    is_test = false;
                }
            }
        }
    }
    found
}

#[test]
fn every_promise_of_the_sandbox_names_a_test_that_is_there() {
    let document = fs::read_to_string(root().join("sandbox/README.md")).expect("the document is there");
    let (tests, mut astray, mut promises) = (tests(), vec![], 0);
    for (row, names) in HEADINGS.into_iter().flat_map(|heading| rows(&document, heading)) {
        promises += 1;
        let is_there = |name: &&str| match name.strip_prefix(HANDLER) {
            Some(handler) => root().join("fixtures/hostile").join(handler).join("cases.jsonc").is_file(),
            None => tests.contains(*name),
        };
        astray.extend(names.iter().filter(|name| !is_there(name)).map(|name| format!("no such test: {name}")));
        if !names.iter().any(|name| tests.contains(*name)) {
            astray.push(format!("no test: {row}"));
        }
    }
    assert!(promises > 20 && astray.is_empty(), "{promises} promises\n{}", astray.join("\n"));
}
