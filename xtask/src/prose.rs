//! `cargo xtask lint --prose`: checks the text that people read against our rules of style.
//!
//! It reads documents, page text, help, errors, log lines and comments. The rules are in `prose/rules.rs`. Findings that
//! the code already had are counted in a baseline, which can only shrink.

mod baseline;
mod comments;
mod html;
mod literal;
mod markdown;
mod passage;
mod phrases;
mod rule;
mod rules;
mod rust_source;
mod script;
mod spelling;

use std::{collections::BTreeMap, fs, num::NonZero, path::Path, thread};

use self::{baseline::Counts, passage::Area, rule::Rule, rules::Finding};
use crate::{Failure, paths};

/// Folders that have no text of ours: built files, packages of others, data.
const SKIPPED: &[&str] = &["target", "node_modules", ".git", "vendor"];

/// Checks all text, and compares the findings with the baseline.
///
/// # Errors
///
/// There are more findings than the baseline has, or fewer: then it must be written again.
pub(crate) fn check() -> Result<(), Failure> {
    let root = paths::root();
    let found = findings(&root)?;
    let counts = count(&found);
    let known = baseline::parse(&paths::read(&root.join(baseline::FILE))?)?;
    let above = baseline::above(&counts, &known);
    for (file, finding) in &found {
        if above.iter().any(|(other, rule)| other == file && rule == finding.rule.name()) {
            let Finding { rule, line, text, advice, .. } = finding;
            eprintln!("{file}:{line}: {}: “{text}”: {advice}", rule.name());
        }
    }
    if let Some((file, rule)) = above.first() {
        let was = known.get(&(file.clone(), rule.clone())).copied().unwrap_or_default();
        return Err(format!(
            "prose: {} files have more findings than before, for example {file}: the baseline has {was} of {rule}",
            above.len()
        ));
    }
    let below = baseline::below(&counts, &known);
    if !below.is_empty() {
        let rows = below.join("\n");
        return Err(format!("{rows}\nprose: the baseline can shrink; run `cargo xtask lint --prose --write-baseline` and commit it"));
    }
    println!("prose: no new findings, and {} in the baseline", counts.values().sum::<usize>());
    Ok(())
}

/// Writes a baseline with the lower counts.
///
/// # Errors
///
/// A count would rise.
pub(crate) fn write_baseline() -> Result<(), Failure> {
    let file = paths::root().join(baseline::FILE);
    let found = findings(&paths::root())?;
    let counts = count(&found);
    // The first baseline takes all.
    if file.is_file() {
        let above = baseline::above(&counts, &baseline::parse(&paths::read(&file)?)?);
        if let Some((name, rule)) = above.first() {
            return Err(format!(
                "prose: the baseline cannot grow; fix the findings of {rule} in {name} first (`cargo xtask lint --prose`)"
            ));
        }
    }
    fs::write(&file, baseline::render(&counts)).map_err(|reason| format!("cannot write {}: {reason}", file.display()))?;
    summarize(&found);
    Ok(())
}

/// Prints the number of findings by area and rule.
fn summarize(found: &[(String, Finding)]) {
    let mut counts: BTreeMap<(Area, Rule), usize> = BTreeMap::new();
    for (_, finding) in found {
        *counts.entry((finding.area, finding.rule)).or_default() += 1;
    }
    for ((area, rule), count) in counts {
        println!("{count:>5} {}: {}", area.name(), rule.name());
    }
}

fn count(found: &[(String, Finding)]) -> Counts {
    let mut counts = Counts::new();
    for (file, finding) in found {
        *counts.entry((file.clone(), finding.rule.name().to_owned())).or_default() += 1;
    }
    counts
}

/// Returns the findings of all files, in the order of files and lines.
fn findings(root: &Path) -> Result<Vec<(String, Finding)>, Failure> {
    let mut files = Vec::new();
    list(root, root, &mut files)?;
    files.sort();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let parts: Vec<_> = files.chunks(files.len().div_ceil(cores).max(1)).map(|part| scope.spawn(|| read_all(root, part))).collect();
        let mut all = Vec::new();
        for part in parts {
            all.extend(part.join().map_err(|_| "the check of prose broke".to_owned())??);
        }
        Ok(all)
    })
}

/// Returns the findings of some files.
fn read_all(root: &Path, files: &[String]) -> Result<Vec<(String, Finding)>, Failure> {
    let mut all = Vec::new();
    for file in files {
        let mut found = read(file, &paths::read(&root.join(file))?)?;
        found.sort_by_key(|finding| finding.line);
        all.extend(found.into_iter().map(|finding| (file.clone(), finding)));
    }
    Ok(all)
}

/// Returns the findings of one file.
fn read(file: &str, text: &str) -> Result<Vec<Finding>, Failure> {
    let (passages, mut found) = match file.rsplit('.').next() {
        Some("md") => (markdown::passages(text, 1, Area::Document), markdown::long_lines(text)),
        Some("rs") => {
            let prose = rust_source::read(file, text)?;
            (prose.passages, prose.findings)
        }
        _ => (script::passages(text), Vec::new()),
    };
    found.extend(passages.iter().flat_map(rules::check));
    Ok(found)
}

/// Adds the files to check, with `/` between folders.
fn list(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).map_err(|reason| format!("cannot list {}: {reason}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                list(root, &path, files)?;
            }
        } else if let Ok(relative) = path.strip_prefix(root) {
            let file = relative.to_string_lossy().replace('\\', "/");
            if is_checked(&file) {
                files.push(file);
            }
        }
    }
    Ok(())
}

/// Returns whether the text of a file is ours and read by people.
fn is_checked(file: &str) -> bool {
    match file.rsplit('.').next() {
        Some("md") => true,
        Some("rs") => ["src/", "sandbox/", "xtask/", "tests/"].iter().any(|folder| file.starts_with(folder)),
        Some("js" | "ts") => ["runtime-js/", "src/", "sandbox/"].iter().any(|folder| file.starts_with(folder)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo xtask test` runs this, so a change without `cargo xtask lint` is checked too.
    #[test]
    fn text_has_no_findings_beyond_the_baseline() {
        check().unwrap();
    }

    #[test]
    fn sources_and_documents_of_ours_are_checked() {
        for file in ["README.md", "fixtures/README.md", "src/cli/lib.rs", "runtime-js/tool.d.ts", "src/web/assets/site.js"] {
            assert!(is_checked(file), "{file}");
        }
        for file in ["Cargo.toml", "fixtures/tools/shout/handler.js", "docs/examples/alerts.yml"] {
            assert!(!is_checked(file), "{file}");
        }
    }
}
