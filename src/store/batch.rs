//! Batches: what one commit wants, writes and adds.

mod commit;
mod rows;

use bytes::Bytes;

use super::{
    add::Add,
    plan::Plan,
    space::Space,
    write::{Check, Write},
};

/// All of a commit: it happens whole, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// What must hold.
    pub checks: Vec<Check>,
    /// In order: the last write of a key stands.
    pub writes: Vec<Write>,
    /// In order, behind the writes.
    pub adds: Vec<Add>,
    /// Keys that the log of changes tells: of tables that are followed.
    pub told: Vec<(Space, Vec<u8>)>,
}

impl Batch {
    /// One that does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// That these hold, and these are written.
    #[must_use]
    pub fn of(checks: Vec<Check>, writes: Vec<Write>) -> Self {
        Self { checks, writes, ..Self::default() }
    }

    /// Whether nothing would be there that was not before.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        self.writes.is_empty() && self.adds.is_empty()
    }

    /// Bytes of the keys and values that it holds.
    pub(super) fn bytes(&self) -> usize {
        let checks: usize = self.checks.iter().map(|check| check.key.len() + check.expected.as_ref().map_or(0, Bytes::len)).sum();
        let writes: usize = self.writes.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Vec::len)).sum();
        checks + writes + self.adds.iter().map(|add| add.key.len()).sum::<usize>()
    }

    /// Has all of `other` happen too, behind what is there.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.checks.extend(other.checks);
        self.writes.extend(other.writes);
        self.adds.extend(other.adds);
        self.told.extend(other.told);
        self
    }

    /// Both, this one first.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.append(other);
        self
    }

    /// Writes at `at`, and has the log of changes tell it where the table is followed.
    pub(super) fn write(&mut self, plan: &Plan, at: Vec<u8>, value: Option<Vec<u8>>) -> &mut Self {
        if plan.followed {
            self.told.push((plan.space, at.clone()));
        }
        self.writes.push(Write { space: plan.space, key: at, value });
        self
    }
}
