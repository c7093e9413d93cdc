//! The differences of two sequences of lines or words.
//!
//! Everything that compares texts uses [`operations`]: `similar` is compiled again for each type of its arguments.

use std::{collections::HashMap, fmt::Write as _, time::Instant};

use similar::{
    DiffOp, DiffTag,
    algorithms::{Capture, Compact, Replace, myers},
    group_diff_ops,
    udiff::UnifiedHunkHeader,
};

/// Lines around a change in [`unified`].
const CONTEXT: usize = 3;

/// Returns the operations that turn `old` into `new`, by Myers' algorithm. After the deadline they are correct but coarse.
#[must_use]
pub fn operations(old: &[&str], new: &[&str], deadline: Option<Instant>) -> Vec<DiffOp> {
    // Texts are compared by number, so that long ones are compared only once.
    let mut known = HashMap::new();
    let (old, new) = (numbered(old, &mut known), numbered(new, &mut known));
    let mut ops = Compact::new(Replace::new(Capture::new()), old.as_slice(), new.as_slice());
    match myers::diff_deadline(&mut ops, old.as_slice(), 0..old.len(), new.as_slice(), 0..new.len(), deadline) {
        Ok(()) => ops.into_inner().into_inner().into_ops(),
        Err(never) => match never {},
    }
}

fn numbered<'a>(texts: &[&'a str], known: &mut HashMap<&'a str, usize>) -> Vec<usize> {
    let mut number = |text| {
        let next = known.len();
        *known.entry(text).or_insert(next)
    };
    texts.iter().map(|text| number(*text)).collect()
}

/// Returns the lines of a text, each with its line break.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Returns the numbers of lines that are added and removed between two texts.
#[must_use]
pub fn count(old: &str, new: &str) -> (usize, usize) {
    changes(&operations(&lines(old), &lines(new), None))
}

/// Returns the numbers of items that operations add and remove.
#[must_use]
pub fn changes(ops: &[DiffOp]) -> (usize, usize) {
    ops.iter()
        .filter(|op| op.tag() != DiffTag::Equal)
        .fold((0, 0), |(added, removed), op| (added + op.new_range().len(), removed + op.old_range().len()))
}

/// Returns a unified diff as `diff -u` prints it, empty if the texts are equal. The names are those of its head.
#[must_use]
pub fn unified(old: &str, new: &str, names: (&str, &str)) -> String {
    let (old, new) = (lines(old), lines(new));
    let mut text = String::new();
    for group in group_diff_ops(operations(&old, &new, None), CONTEXT) {
        if text.is_empty() {
            _ = write!(text, "--- {}\n+++ {}\n", names.0, names.1);
        }
        _ = writeln!(text, "{}", UnifiedHunkHeader::new(&group));
        for op in &group {
            let is_equal = op.tag() == DiffTag::Equal;
            let removed = old[op.old_range()].iter().map(|line| (if is_equal { ' ' } else { '-' }, line));
            let added = new[op.new_range()].iter().filter(|_| !is_equal).map(|line| ('+', line));
            for (sign, line) in removed.chain(added) {
                let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
                _ = write!(text, "{sign}{line}{end}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_counted() {
        assert_eq!(count("a\nb\nc\n", "a\nB\nc\nd\n"), (2, 1));
        assert_eq!(count("a\n", "a\n"), (0, 0));
        assert_eq!(count("", "a\nb"), (2, 0));
    }

    #[test]
    fn unified_diff_has_the_form_of_diff_u() {
        let old: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let new = old.replace("5\n", "five\n").replace("9\n", "9");
        assert_eq!(
            unified(&old, &new, ("a", "b")),
            "--- a\n+++ b\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("", "x\n", ("a", "b")), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(unified(&old, &old, ("a", "b")), "");
    }

    #[test]
    fn operations_lead_from_the_old_to_the_new_text() {
        let (old, new) = (["a", "b", "b", "c", "d"], ["b", "c", "x", "d", "d"]);
        let mut made: Vec<&str> = vec![];
        for op in operations(&old, &new, Some(Instant::now())) {
            made.extend(if op.tag() == DiffTag::Equal { &old[op.old_range()] } else { &new[op.new_range()] });
        }
        assert_eq!(made, new);
    }
}
