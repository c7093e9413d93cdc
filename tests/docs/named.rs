//! Checks that the tests which promises name exist, and that every kind of state has a promise.

use tollhouse::store::Space;

use super::{read, root};

/// The document and the section with the promises for each kind of state.
const RETAINED: (&str, &str) = ("CONTRIBUTING.md", "## Evidence: what is kept, and what can be lost");

/// The tables whose last column names tests, by document and section.
const SECTIONS: [(&str, &str); 6] = [
    ("ARCHITECTURE.md", "## Invariants of money"),
    ("ARCHITECTURE.md", "## Invariants of isolation"),
    ("sandbox/README.md", "## Between owners"),
    ("sandbox/README.md", "## Resources that others can use"),
    ("CONTRIBUTING.md", "## Evidence: what hosts of one store share"),
    RETAINED,
];

/// Returns the rows of a section's table, without its header.
fn rows((document, section): (&str, &str)) -> Vec<String> {
    let text = read(&root().join(document));
    let section = text.split_once(&format!("{section}\n")).unwrap_or_else(|| panic!("no section `{section}`")).1;
    let rows = section.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| "));
    rows.skip(1).map(str::to_owned).collect()
}

/// Returns the parts of a cell that are in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_test_that_a_promise_names_is_there() {
    let mut sources = String::new();
    ["src", "sandbox", "tests"].iter().for_each(|folder| gather(&root().join(folder), &mut sources));
    for section in SECTIONS {
        let rows = rows(section);
        assert!(rows.len() > 5, "{section:?}: {} rows", rows.len());
        for row in &rows {
            let named = quoted(row.trim_end_matches('|').rsplit('|').next().unwrap_or_default());
            assert!(!named.is_empty(), "{section:?}: no test holds `{row}`");
            let missing: Vec<_> = named.into_iter().filter(|test| !sources.contains(&format!("fn {test}("))).collect();
            assert!(missing.is_empty(), "{section:?}: no test is called {missing:?}");
        }
    }
}

#[test]
fn every_kind_of_state_has_a_promise() {
    let rows = rows(RETAINED);
    let promised: Vec<_> = rows.iter().flat_map(|row| quoted(row.split('|').nth(1).unwrap_or_default())).collect();
    for kind in Space::ALL.iter().filter_map(|space| space.kind()).chain(["freeReceipts"]) {
        assert!(promised.contains(&kind), "nothing is promised of `{kind}`");
    }
    let unknown = |kind: &&&str| **kind != "freeReceipts" && Space::ALL.iter().all(|space| space.kind() != Some(**kind));
    assert_eq!(promised.iter().find(unknown), None, "it is not a kind of state");
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
