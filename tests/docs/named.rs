//! The tests that the sandbox's promises name are there.

use super::{read, root};

/// The tables of `sandbox/README.md` whose last column names tests.
const SECTIONS: [&str; 2] = ["## Between owners", "## What a builder's or caller's bytes can use"];

/// What a row's last column names, of a table of `section`.
fn named(readme: &str, section: &str) -> Vec<Vec<String>> {
    let section = readme.split_once(&format!("{section}\n")).unwrap_or_else(|| panic!("no section `{section}`")).1;
    let rows = section.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| "));
    let last = rows.skip(1).filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    last.map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()).collect()
}

#[test]
fn every_test_that_a_promise_names_is_there() {
    let readme = read(&root().join("sandbox/README.md"));
    let mut sources = String::new();
    ["src", "sandbox", "tests"].iter().for_each(|folder| gather(&root().join(folder), &mut sources));
    for section in SECTIONS {
        let rows = named(&readme, section);
        assert!(rows.len() > 5, "{section}: {} rows", rows.len());
        for row in &rows {
            assert!(!row.is_empty(), "{section}: each of {} rows names a test", rows.len());
            let missing: Vec<_> = row.iter().filter(|test| !sources.contains(&format!("fn {test}("))).collect();
            assert!(missing.is_empty(), "{section}: no test is called {missing:?}");
        }
    }
}

fn gather(folder: &std::path::Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&read(&path));
        }
    }
}
