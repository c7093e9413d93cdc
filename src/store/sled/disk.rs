//! The work of the writing thread: decide, write to the journal, sync, apply to the tree.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use sled::{Batch, Tree};

use super::{away::away, group::Group, moment::Moment, position::Position, sink::Sink, standing::Standing, told, values};
use crate::{
    Durability, Space, Stake, StoreError,
    journal::{NotWritten, Part, Row, Told, Total, Writer},
};

/// Minimum time between two checks for free space.
const LOOK: Duration = Duration::from_millis(250);
/// Maximum bytes of frames that the tree has taken and may not have written out. sled writes up to five times what it
/// is given, in tasks of 512 KiB for seven threads. If all of these threads wait to write while another part of sled
/// waits for its file to be truncated, which is queued behind them, sled deadlocks.
pub(super) const BEHIND: u64 = 512 * 1024;

/// The journal, and the tree that follows it.
pub(super) struct Disk {
    moment: Arc<Moment>,
    journal: Writer,
    standing: Arc<Standing>,
    /// Number of the newest entry in the change log.
    newest: u64,
    /// When it last checked for free space.
    looked: Option<Instant>,
}

/// How a commit failed.
enum Failure {
    /// Nothing was written.
    Nothing(StoreError),
    /// It is unknown what is on disk.
    Unsure(String),
}

/// A group that is ready to be written to the journal.
struct Planned {
    batch: Batch,
    changes: Vec<values::Change>,
    after: Position,
    money: Part,
    rest: Part,
}

impl Disk {
    pub(super) fn new(moment: Arc<Moment>, journal: Writer, standing: Arc<Standing>) -> Result<Self, StoreError> {
        let newest = told::newest(&moment.tree())?;
        Ok(Self { moment, journal, standing, newest, looked: None })
    }

    /// Decides a commit and adds it to a group.
    pub(super) fn decide(&mut self, group: &mut Group, batch: crate::Batch) -> Result<Vec<i128>, StoreError> {
        self.standing.check()?;
        if let Some(reason) = self.standing.full() {
            self.look_for_room(reason)?;
        }
        // A panic can only happen while reading, before the group has changed.
        catch_unwind(AssertUnwindSafe(|| group.decide(&self.moment.tree(), batch))).unwrap_or_else(|_| {
            let cause = "the tree stopped while it was read";
            self.standing.end(cause);
            Err(StoreError::Away(cause.to_owned()))
        })
    }

    /// Writes a group as one frame, syncs it if required, and then makes it visible to readers.
    pub(super) fn commit(&mut self, group: Group, durability: Durability) -> Result<(), StoreError> {
        self.standing.check()?;
        let cause = match catch_unwind(AssertUnwindSafe(|| self.write(group, durability))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Failure::Nothing(error))) => return Err(error),
            Ok(Err(Failure::Unsure(cause))) => cause,
            Err(_) => "the tree stopped in the middle of a commit".to_owned(),
        };
        // From here on, memory and disk may differ.
        self.standing.end(&format!("a write failed ({cause})"));
        Err(StoreError::Unknown(cause))
    }

    fn write(&mut self, group: Group, durability: Durability) -> Result<(), Failure> {
        if group.is_empty() {
            return if durability == Durability::Durable { self.sync_all() } else { Ok(()) };
        }
        let Planned { mut batch, changes, mut after, money, rest } = self.plan(group).map_err(Failure::Nothing)?;
        let newest = rest.told.last().map_or(self.newest, |told| told.number);
        let (money, rest) = (money.bytes(), rest.bytes());
        let bytes = (money.len() + rest.len()) as u64;
        self.journal.append(money, rest).map_err(|error| self.not_written(error))?;
        if durability == Durability::Durable {
            self.journal.sync().map_err(unsure)?;
        }
        (after.sequence, after.synced, after.link) = (self.journal.sequence(), self.journal.synced(), self.journal.link());
        after.keep(&mut batch).map_err(unsure)?;
        let mut position = self.moment.alone();
        self.moment.tree().apply_batch(batch).map_err(unsure)?;
        *position = after;
        self.moment.behind.fetch_add(bytes, Relaxed);
        self.moment.recount.lock().unwrap_or_else(PoisonError::into_inner).follow(&changes);
        self.newest = newest;
        Ok(())
    }

    /// Flushes the tree if it is far behind. Called after commits are answered, because they are safe in the journal.
    pub(super) fn write_out(&mut self) {
        if self.moment.behind.load(Relaxed) < BEHIND || self.standing.check().is_err() {
            return;
        }
        self.moment.behind.store(0, Relaxed);
        match catch_unwind(AssertUnwindSafe(|| self.moment.tree().flush())) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.standing.end(&format!("the tree could not be written out ({error})")),
            Err(_) => self.standing.end("the tree stopped while it was written out"),
        }
    }

    /// Syncs all frames, and records in the tree that they are on disk, so that their loss would be noticed.
    fn sync_all(&mut self) -> Result<(), Failure> {
        if self.journal.synced() == self.journal.sequence() {
            return Ok(());
        }
        self.journal.sync().map_err(unsure)?;
        let mut position = self.moment.alone();
        let mut batch = Batch::default();
        let after = Position { synced: self.journal.synced(), ..*position };
        after.keep(&mut batch).map_err(unsure)?;
        self.moment.tree().apply_batch(batch).map_err(unsure)?;
        *position = after;
        Ok(())
    }

    fn not_written(&self, error: NotWritten) -> Failure {
        match error {
            NotWritten::TooLong => Failure::Nothing(StoreError::Away("the commits of a moment are longer than a frame".to_owned())),
            NotWritten::NoRoom(error) => {
                self.standing.fill(&error.to_string());
                Failure::Nothing(StoreError::Away(self.standing.full().unwrap_or_default()))
            }
            NotWritten::Failed(error) => unsure(error),
        }
    }

    /// Fails with `reason` unless there is free space again.
    fn look_for_room(&mut self, reason: String) -> Result<(), StoreError> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return Err(StoreError::Away(reason));
        }
        let found = self.journal.make_room();
        self.looked = Some(Instant::now());
        match found {
            Ok(()) => {
                self.standing.clear();
                Ok(())
            }
            Err(_) => Err(StoreError::Away(reason)),
        }
    }

    /// Plans the changes of a group: to the tree, and for the journal.
    fn plan(&self, group: Group) -> Result<Planned, StoreError> {
        let (rows, told) = group.into_rows(self.newest);
        let mut batch = Batch::default();
        let mut after = *self.moment.still();
        let (mut money, mut rest) = (Part::default(), Part { told, ..Part::default() });
        let mut changes = Vec::with_capacity(rows.len());
        let tree = self.moment.tree();
        for row in rows {
            let change = values::write(&tree, &row, &mut batch)?;
            after.count(&change);
            changes.push(change);
            part_of(&mut money, &mut rest, row.space).rows.push(row);
        }
        for part in [&mut money, &mut rest] {
            part.totals = totals_of(&part.rows, &mut after);
        }
        for told in &rest.told {
            told::keep(told, &mut batch)?;
        }
        Ok(Planned { batch, changes, after, money, rest })
    }
}

fn unsure(error: impl std::fmt::Display) -> Failure {
    Failure::Unsure(error.to_string())
}

fn part_of<'a>(money: &'a mut Part, rest: &'a mut Part, space: u8) -> &'a mut Part {
    let stake = Space::of_number(space).map(Space::stake);
    if stake == Some(Stake::Money) { money } else { rest }
}

/// Returns the totals of the rows' spaces. Rows must be grouped by space.
fn totals_of(rows: &[Row], position: &mut Position) -> Vec<(u8, Total)> {
    let mut spaces: Vec<u8> = rows.iter().map(|row| row.space).collect();
    spaces.dedup();
    spaces.into_iter().filter_map(|space| Some((space, *position.totals.of(space)?))).collect()
}

/// Applies a frame to a tree in one batch. Returns the changes.
pub(super) fn replay(tree: &Tree, parts: [Part; 2], after: &mut Position) -> Result<Vec<values::Change>, StoreError> {
    let mut batch = Batch::default();
    let changes = write(tree, parts, after, &mut batch)?;
    after.keep(&mut batch)?;
    tree.apply_batch(batch).map_err(away)?;
    Ok(changes)
}

/// Writes a frame's rows to `to`. Returns how they change `tree`.
pub(super) fn write(tree: &Tree, parts: [Part; 2], after: &mut Position, to: &mut impl Sink) -> Result<Vec<values::Change>, StoreError> {
    let mut changes = Vec::new();
    for Part { rows, totals, told } in parts {
        for row in &rows {
            match &row.value {
                // A checkpoint contains these rows in the tree's own format.
                Some(entry) if row.space == told::ENTRIES => told::put(&row.key, entry, to)?,
                Some(_) | None => changes.push(values::write(tree, row, to)?),
            }
        }
        told.iter().try_for_each(|told: &Told| told::keep(told, to))?;
        after.totals.set(&totals);
    }
    Ok(changes)
}
