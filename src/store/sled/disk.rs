//! The work of the writing thread: decide, write to the journal, sync, apply to the tree.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use sled::{Batch, Tree};

use super::{changelog, group::CommitGroup, health::StoreHealth, position::TreePosition, read_guard::TreeHandle, sink::Sink, values};
use crate::{
    Durability, LossImpact, Space, StoreError,
    journal::{ChangeEntry, FramePart, JournalWriter, RowPart, SpaceTotal, WriteError},
};

/// Minimum time between two checks for free space.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// Maximum bytes of frames that the tree has taken and may not have written out. sled writes up to five times what it
/// is given, in tasks of 512 KiB for seven threads. If all of these threads wait to write while another part of sled
/// waits for its file to be truncated, which is queued behind them, sled deadlocks.
pub(super) const BEHIND: u64 = 512 * 1024;

/// The journal, and the tree that follows it.
pub(super) struct Disk {
    handle: Arc<TreeHandle>,
    journal: JournalWriter,
    health: Arc<StoreHealth>,
    /// Number of the newest entry in the change log.
    newest: u64,
    /// When it last checked for free space.
    looked: Option<Instant>,
}

/// How a commit failed.
enum CommitFailure {
    /// Nothing was written.
    Nothing(StoreError),
    /// It is unknown what is on disk.
    Unsure(String),
}

/// A group that is ready to be written to the journal.
struct PlannedGroup {
    batch: Batch,
    changes: Vec<values::KeyChange>,
    after: TreePosition,
    money: FramePart,
    rest: FramePart,
}

impl Disk {
    pub(super) fn new(handle: Arc<TreeHandle>, journal: JournalWriter, health: Arc<StoreHealth>) -> Result<Self, StoreError> {
        let newest = changelog::newest(&handle.tree())?;
        Ok(Self { handle, journal, health, newest, looked: None })
    }

    /// Decides a commit and adds it to a group.
    pub(super) fn decide(&mut self, group: &mut CommitGroup, batch: crate::Batch) -> Result<Vec<i128>, StoreError> {
        self.health.check()?;
        if let Some(reason) = self.health.full() {
            self.check_disk_space(reason)?;
        }
        // A panic can only happen while reading, before the group has changed.
        catch_unwind(AssertUnwindSafe(|| group.decide(&self.handle.tree(), batch))).unwrap_or_else(|_| {
            let cause = "the tree stopped while it was read";
            self.health.end(cause);
            Err(StoreError::Away(cause.to_owned()))
        })
    }

    /// Writes a group as one frame, syncs it if required, and then makes it visible to readers.
    pub(super) fn commit(&mut self, group: CommitGroup, durability: Durability) -> Result<(), StoreError> {
        self.health.check()?;
        let cause = match catch_unwind(AssertUnwindSafe(|| self.write(group, durability))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(CommitFailure::Nothing(error))) => return Err(error),
            Ok(Err(CommitFailure::Unsure(cause))) => cause,
            Err(_) => "the tree stopped in the middle of a commit".to_owned(),
        };
        // From here on, memory and disk may differ.
        self.health.end(&format!("a write failed ({cause})"));
        Err(StoreError::Unknown(cause))
    }

    fn write(&mut self, group: CommitGroup, durability: Durability) -> Result<(), CommitFailure> {
        if group.is_empty() {
            return if durability == Durability::Durable { self.sync_all() } else { Ok(()) };
        }
        let PlannedGroup { mut batch, changes, mut after, money, rest } = self.plan(group).map_err(CommitFailure::Nothing)?;
        let newest = rest.change.last().map_or(self.newest, |entry| entry.number);
        let (money, rest) = (money.bytes(), rest.bytes());
        let bytes = (money.len() + rest.len()) as u64;
        self.journal.append(money, rest).map_err(|error| self.not_written(error))?;
        if durability == Durability::Durable {
            self.journal.sync().map_err(unsure)?;
        }
        (after.sequence, after.synced, after.link) = (self.journal.sequence(), self.journal.synced(), self.journal.link());
        after.keep(&mut batch).map_err(unsure)?;
        let mut position = self.handle.alone();
        self.handle.tree().apply_batch(batch).map_err(unsure)?;
        *position = after;
        self.handle.behind.fetch_add(bytes, Relaxed);
        self.handle.recount.lock().follow(&changes);
        self.newest = newest;
        Ok(())
    }

    /// Flushes the tree if it is far behind. Called after commits are answered, because they are safe in the journal.
    pub(super) fn write_out(&mut self) {
        if self.handle.behind.load(Relaxed) < BEHIND || self.health.check().is_err() {
            return;
        }
        self.handle.behind.store(0, Relaxed);
        match catch_unwind(AssertUnwindSafe(|| self.handle.tree().flush())) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.health.end(&format!("the tree could not be written out ({error})")),
            Err(_) => self.health.end("the tree stopped while it was written out"),
        }
    }

    /// Syncs all frames, and records in the tree that they are on disk, so that their loss would be noticed.
    fn sync_all(&mut self) -> Result<(), CommitFailure> {
        if self.journal.synced() == self.journal.sequence() {
            return Ok(());
        }
        self.journal.sync().map_err(unsure)?;
        let mut position = self.handle.alone();
        let mut batch = Batch::default();
        let after = TreePosition { synced: self.journal.synced(), ..*position };
        after.keep(&mut batch).map_err(unsure)?;
        self.handle.tree().apply_batch(batch).map_err(unsure)?;
        *position = after;
        Ok(())
    }

    fn not_written(&self, error: WriteError) -> CommitFailure {
        match error {
            WriteError::TooLong => CommitFailure::Nothing(StoreError::Away("the combined commits are longer than a frame".to_owned())),
            WriteError::NoRoom(error) => {
                self.health.fill(&error.to_string());
                CommitFailure::Nothing(StoreError::Away(self.health.full().unwrap_or_default()))
            }
            WriteError::Failed(error) => unsure(error),
        }
    }

    /// Fails with `reason` unless there is free space again.
    fn check_disk_space(&mut self, reason: String) -> Result<(), StoreError> {
        if self.looked.is_some_and(|checked| checked.elapsed() < CHECK_EVERY) {
            return Err(StoreError::Away(reason));
        }
        let found = self.journal.make_room();
        self.looked = Some(Instant::now());
        match found {
            Ok(()) => {
                self.health.clear();
                Ok(())
            }
            Err(_) => Err(StoreError::Away(reason)),
        }
    }

    /// Plans the changes of a group: to the tree, and for the journal.
    fn plan(&self, group: CommitGroup) -> Result<PlannedGroup, StoreError> {
        let (rows, entries) = group.into_rows(self.newest);
        let mut batch = Batch::default();
        let mut after = *self.handle.still();
        let (mut money, mut rest) = (FramePart::default(), FramePart { change: entries, ..FramePart::default() });
        let mut changes = Vec::with_capacity(rows.len());
        let tree = self.handle.tree();
        for row in rows {
            let change = values::write(&tree, &row, &mut batch)?;
            change.count(&mut after.totals);
            changes.push(change);
            part_of(&mut money, &mut rest, row.space).rows.push(row);
        }
        for part in [&mut money, &mut rest] {
            part.totals = totals_of(&part.rows, &mut after);
        }
        for entry in &rest.change {
            changelog::keep(entry, &mut batch)?;
        }
        Ok(PlannedGroup { batch, changes, after, money, rest })
    }
}

fn unsure(error: impl std::fmt::Display) -> CommitFailure {
    CommitFailure::Unsure(error.to_string())
}

fn part_of<'a>(money: &'a mut FramePart, rest: &'a mut FramePart, space: u8) -> &'a mut FramePart {
    let stake = Space::of_number(space).map(Space::stake);
    if stake == Some(LossImpact::Money) { money } else { rest }
}

/// Returns the totals of the rows' spaces. Rows must be grouped by space.
fn totals_of(rows: &[RowPart], position: &mut TreePosition) -> Vec<(u8, SpaceTotal)> {
    let mut spaces: Vec<u8> = rows.iter().map(|row| row.space).collect();
    spaces.dedup();
    spaces.into_iter().filter_map(|space| Some((space, *position.totals.of(space)?))).collect()
}

/// Applies a frame to a tree in one batch. Returns the changes.
pub(super) fn replay(tree: &Tree, parts: [FramePart; 2], after: &mut TreePosition) -> Result<Vec<values::KeyChange>, StoreError> {
    let mut batch = Batch::default();
    let changes = write(tree, parts, after, &mut batch)?;
    after.keep(&mut batch)?;
    tree.apply_batch(batch).map_err(StoreError::away)?;
    Ok(changes)
}

/// Writes a frame's rows to `to`. Returns how they change `tree`.
pub(super) fn write(
    tree: &Tree,
    parts: [FramePart; 2],
    after: &mut TreePosition,
    to: &mut impl Sink,
) -> Result<Vec<values::KeyChange>, StoreError> {
    let mut changes = Vec::new();
    for FramePart { rows, totals, change: entries } in parts {
        for row in &rows {
            match &row.value {
                // A checkpoint contains these rows in the tree's own format.
                Some(entry) if row.space == changelog::ENTRIES => changelog::put(&row.key, entry, to)?,
                Some(_) | None => changes.push(values::write(tree, row, to)?),
            }
        }
        entries.iter().try_for_each(|entry: &ChangeEntry| changelog::keep(entry, to))?;
        after.totals.set(&totals);
    }
    Ok(changes)
}
