//! Line comparison of two texts: removed and added lines with some context.

use std::time::{Duration, Instant};

use similar::{DiffOp, DiffTag, group_diff_ops};
use tollhouse_base::diff;

use super::line::{self, Piece};

/// Maximum time for a comparison.
pub(super) const TIME: Duration = Duration::from_millis(100);
/// Maximum compared lines of each text.
const MAX_LINES: usize = 20_000;
/// Lines of context.
const AROUND: usize = 3;
/// Approximate maximum size of all rows, in bytes.
pub(super) const MAX_BYTES: usize = 128 << 10;
/// Approximate size of a row without its text, in bytes.
const ROW_BYTES: usize = 110;

#[derive(Default)]
pub(super) struct DiffResult<'a> {
    pub(super) rows: Vec<DiffRow<'a>>,
    pub(super) removed: usize,
    pub(super) added: usize,
    /// Number of changed lines that are not shown.
    pub(super) unshown: usize,
    /// Number of lines at the end that were not compared.
    pub(super) uncompared: usize,
    /// Whether the time was enough for a minimal difference.
    pub(super) in_time: bool,
}

/// A row of the table, with line numbers.
pub(super) enum DiffRow<'a> {
    /// Number of equal lines that are not shown.
    Skipped(usize),
    Same {
        old: usize,
        new: usize,
        pieces: Vec<Piece<'a>>,
    },
    Removed {
        old: usize,
        pieces: Vec<Piece<'a>>,
    },
    Added {
        new: usize,
        pieces: Vec<Piece<'a>>,
    },
}

impl DiffRow<'_> {
    /// Returns the approximate size of its markup.
    fn bytes(&self) -> usize {
        let pieces = match self {
            Self::Skipped(_) => &[][..],
            Self::Same { pieces, .. } | Self::Removed { pieces, .. } | Self::Added { pieces, .. } => pieces,
        };
        ROW_BYTES + pieces.iter().map(Piece::bytes).sum::<usize>()
    }
}

/// Compares two texts.
pub(super) fn compared<'a>(old: &'a str, new: &'a str) -> DiffResult<'a> {
    let deadline = Instant::now() + TIME;
    let (old, rest_of_old) = lines(old);
    let (new, rest_of_new) = lines(new);
    let ops = diff::operations(&old, &new, Some(deadline));
    let (added, removed) = diff::changes(&ops);
    let mut table = DiffTable { old, new, deadline, remaining: MAX_BYTES, compared: DiffResult::default() };
    table.compared = DiffResult {
        removed,
        added,
        uncompared: rest_of_old.max(rest_of_new),
        in_time: Instant::now() <= deadline,
        ..DiffResult::default()
    };
    table.fill(ops);
    table.compared
}

/// Returns the lines to compare, and the number of lines after them.
fn lines(text: &str) -> (Vec<&str>, usize) {
    let mut all = text.lines();
    let lines = all.by_ref().take(MAX_LINES).collect();
    (lines, all.count())
}

/// The rows under construction.
struct DiffTable<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    deadline: Instant,
    /// Remaining bytes for rows.
    remaining: usize,
    compared: DiffResult<'a>,
}

impl<'a> DiffTable<'a> {
    fn fill(&mut self, ops: Vec<DiffOp>) {
        if self.compared.removed + self.compared.added == 0 {
            return;
        }
        let mut end = 0;
        for group in group_diff_ops(ops, AROUND) {
            let begins = group.first().map_or(end, |op| op.old_range().start);
            self.skip(begins - end);
            end = group.last().map_or(end, |op| op.old_range().end);
            for op in &group {
                self.push_op(op);
            }
        }
        self.skip(self.old.len() - end);
    }

    fn skip(&mut self, lines: usize) {
        if lines > 0 && self.remaining > 0 {
            self.push(DiffRow::Skipped(lines));
        }
    }

    fn push_op(&mut self, op: &DiffOp) {
        let (old, new) = (op.old_range(), op.new_range());
        if op.tag() == DiffTag::Equal {
            for (old, new) in old.zip(new) {
                if self.remaining > 0 {
                    self.push(DiffRow::Same { old: old + 1, new: new + 1, pieces: line::alone(self.old[old]) });
                }
            }
            return;
        }
        let mut come = Vec::new();
        for position in 0..old.len().max(new.len()) {
            let (removed, now) = (old.clone().nth(position), new.clone().nth(position));
            if self.remaining == 0 {
                self.compared.unshown += usize::from(removed.is_some()) + usize::from(now.is_some());
                continue;
            }
            // Lines correspond by position, as long as both sides have one.
            let (before, after) = match (removed, now) {
                (Some(removed), Some(now)) => line::pair(self.old[removed], self.new[now], self.deadline),
                (Some(removed), None) => (line::alone(self.old[removed]), vec![]),
                (None, Some(now)) => (vec![], line::alone(self.new[now])),
                (None, None) => continue,
            };
            if let Some(old) = removed {
                self.push(DiffRow::Removed { old: old + 1, pieces: before });
            }
            if let Some(new) = now {
                let row = DiffRow::Added { new: new + 1, pieces: after };
                self.remaining = self.remaining.saturating_sub(row.bytes());
                come.push(row);
            }
        }
        self.compared.rows.extend(come);
    }

    fn push(&mut self, row: DiffRow<'a>) {
        self.remaining = self.remaining.saturating_sub(row.bytes());
        self.compared.rows.push(row);
    }
}
