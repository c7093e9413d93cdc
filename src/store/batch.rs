//! Batches: the checks, writes and additions of one commit.

mod commit;
mod rows;

use bytes::Bytes;

use super::{
    space::Space,
    table_plan::TablePlan,
    write::{Add, Check, Write},
};

/// The contents of one commit. It is applied completely or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The conditions that must hold.
    pub checks: Vec<Check>,
    /// The writes, in order. The last write of a key wins.
    pub writes: Vec<Write>,
    /// The additions, in order. They are applied after the writes.
    pub adds: Vec<Add>,
    /// Keys to put into the change log, from followed tables.
    pub changelog: Vec<(Space, Vec<u8>)>,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a batch of checks and writes.
    pub fn of(checks: Vec<Check>, writes: Vec<Write>) -> Self {
        Self { checks, writes, ..Self::default() }
    }

    /// Returns whether the batch writes and adds nothing.
    pub fn changes_nothing(&self) -> bool {
        self.writes.is_empty() && self.adds.is_empty()
    }

    /// Returns the bytes of its keys and values.
    pub(super) fn bytes(&self) -> usize {
        let checks: usize = self.checks.iter().map(|check| check.key.len() + check.expected.as_ref().map_or(0, Bytes::len)).sum();
        let writes: usize = self.writes.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Vec::len)).sum();
        checks + writes + self.adds.iter().map(|add| add.key.len()).sum::<usize>()
    }

    /// Appends the contents of `other`.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.checks.extend(other.checks);
        self.writes.extend(other.writes);
        self.adds.extend(other.adds);
        self.changelog.extend(other.changelog);
        self
    }

    /// Returns this batch followed by `other`.
    pub fn and(mut self, other: Self) -> Self {
        self.append(other);
        self
    }

    /// Writes at `at`. If the table is followed, the key goes into the change log.
    pub(super) fn write(&mut self, plan: &TablePlan, at: Vec<u8>, value: Option<Vec<u8>>) -> &mut Self {
        if plan.followed {
            self.changelog.push((plan.space, at.clone()));
        }
        self.writes.push(Write { space: plan.space, key: at, value });
        self
    }
}
