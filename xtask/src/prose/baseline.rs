//! The baseline: how many findings of a rule each file still has. It can only shrink.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::Failure;

/// The file of the baseline, from the root of the repository.
pub(super) const FILE: &str = "xtask/prose-baseline.txt";

/// The first lines of the file.
const HEAD: &str = "\
# Findings of `cargo xtask lint --prose` that are still in the code: file, rule, count. Counts can only shrink.
# After you fix some, run `cargo xtask lint --prose --write-baseline`.
";

/// Number of findings by file and rule.
pub(super) type Counts = BTreeMap<(String, String), usize>;

/// Parses the file.
///
/// # Errors
///
/// A line is not a file, a rule and a count.
pub(super) fn parse(text: &str) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let row = match words[..] {
            [file, rule, count] => count.parse().ok().map(|count| ((file.to_owned(), rule.to_owned()), count)),
            _ => None,
        };
        let (key, count) = row.ok_or_else(|| format!("{FILE}: `{line}` is not a file, a rule and a count"))?;
        counts.insert(key, count);
    }
    Ok(counts)
}

/// Returns the text of the file.
pub(super) fn render(counts: &Counts) -> String {
    let mut text = HEAD.to_owned();
    for ((file, rule), count) in counts.iter().filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "{file} {rule} {count}");
    }
    text
}

/// Returns the files and rules whose count is above the baseline.
pub(super) fn above(counts: &Counts, baseline: &Counts) -> Vec<(String, String)> {
    let is_above = |(key, count): &(&(String, String), &usize)| **count > baseline.get(*key).copied().unwrap_or_default();
    counts.iter().filter(is_above).map(|(key, _)| key.clone()).collect()
}

/// Returns a line for each count that is below the baseline.
pub(super) fn below(counts: &Counts, baseline: &Counts) -> Vec<String> {
    let row = |((file, rule), was): (&(String, String), &usize)| {
        let now = counts.get(&(file.clone(), rule.clone())).copied().unwrap_or_default();
        (now < *was).then(|| format!("{file}: {rule}: {now} findings, and the baseline has {was}"))
    };
    baseline.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[(&str, usize)]) -> Counts {
        rows.iter().map(|(file, count)| (((*file).to_owned(), "word".to_owned()), *count)).collect()
    }

    #[test]
    fn written_baseline_is_read_again() {
        let all = counts(&[("src/a.rs", 2), ("src/b.rs", 1)]);
        assert_eq!(parse(&render(&all)), Ok(all));
        assert!(parse("src/a.rs word").unwrap_err().contains("src/a.rs word"));
    }

    #[test]
    fn counts_above_and_below_the_baseline_are_found() {
        let baseline = counts(&[("a", 2), ("b", 1), ("gone", 3)]);
        let now = counts(&[("a", 3), ("b", 1), ("new", 1)]);
        let files: Vec<_> = above(&now, &baseline).into_iter().map(|(file, _)| file).collect();
        assert_eq!(files, ["a", "new"]);
        assert_eq!(below(&now, &baseline), ["gone: word: 0 findings, and the baseline has 3"]);
    }
}
