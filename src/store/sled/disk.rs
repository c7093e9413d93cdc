//! What the writing thread does: decide, write to the journal, sync, apply.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError},
};

use sled::{Batch, Db};

use super::{away::away, group::Group, moment::Moment, position::Position, told, values};
use crate::store::{
    Durability, Space, Stake, StoreError,
    journal::{Part, Row, Told, Total, Writer},
};

/// The journal, and the tree that follows it.
pub(super) struct Disk {
    db: Db,
    moment: Arc<Moment>,
    journal: Writer,
    /// The number of the newest entry in the log of changes.
    newest: u64,
    /// Why nothing is written any more.
    broken: Option<String>,
}

/// A group on its way to the journal.
struct Planned {
    batch: Batch,
    changes: Vec<values::Change>,
    after: Position,
    money: Part,
    rest: Part,
}

impl Disk {
    pub(super) fn new(db: Db, moment: Arc<Moment>, journal: Writer) -> Result<Self, StoreError> {
        let newest = told::newest(&db)?;
        Ok(Self { db, moment, journal, newest, broken: None })
    }

    /// Takes a commit into a group.
    pub(super) fn decide(&self, group: &mut Group, batch: crate::store::Batch) -> Result<Vec<i64>, StoreError> {
        match &self.broken {
            Some(reason) => Err(StoreError::Away(reason.clone())),
            None => group.decide(&self.db, batch),
        }
    }

    /// Writes a group as one frame, has it on disk if it is to be, then lets readers see it.
    pub(super) fn commit(&mut self, group: Group, durability: Durability) -> Result<(), StoreError> {
        if let Some(reason) = &self.broken {
            return Err(StoreError::Unknown(reason.clone()));
        }
        match catch_unwind(AssertUnwindSafe(|| self.write(group, durability))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.give_up(&error.to_string())),
            Err(_) => Err(self.give_up("the tree stopped in the middle of a commit")),
        }
    }

    fn write(&mut self, group: Group, durability: Durability) -> Result<(), StoreError> {
        let io = |error: std::io::Error| StoreError::Away(error.to_string());
        if group.is_empty() {
            return if durability == Durability::Durable { self.journal.sync().map_err(io) } else { Ok(()) };
        }
        let Planned { mut batch, changes, mut after, money, rest } = self.plan(group)?;
        let newest = rest.told.last().map_or(self.newest, |told| told.number);
        self.journal.append(money.bytes(), rest.bytes()).map_err(io)?;
        if durability == Durability::Durable {
            self.journal.sync().map_err(io)?;
        }
        (after.sequence, after.synced, after.link) = (self.journal.sequence(), self.journal.synced(), self.journal.link());
        after.keep(&mut batch)?;
        let mut position = self.moment.position.write().unwrap_or_else(PoisonError::into_inner);
        self.db.apply_batch(batch).map_err(away)?;
        *position = after;
        self.moment.recount.lock().unwrap_or_else(PoisonError::into_inner).follow(&changes);
        self.newest = newest;
        Ok(())
    }

    /// What a group does to the tree, and what the journal says of it.
    fn plan(&self, group: Group) -> Result<Planned, StoreError> {
        let (rows, told) = group.into_rows(self.newest);
        let mut batch = Batch::default();
        let mut after = *self.moment.position.read().unwrap_or_else(PoisonError::into_inner);
        let (mut money, mut rest) = (Part::default(), Part { told, ..Part::default() });
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            let change = values::write(&self.db, &row, &mut batch)?;
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

    /// Memory and disk may differ from here on: refuses all that follows.
    fn give_up(&mut self, cause: &str) -> StoreError {
        tracing::error!(cause, "the store failed to write; it refuses commits until the host is started again");
        self.broken = Some(format!("a write failed ({cause}); start the host again"));
        StoreError::Unknown(cause.to_owned())
    }
}

fn part_of<'a>(money: &'a mut Part, rest: &'a mut Part, space: u8) -> &'a mut Part {
    let stake = Space::of_number(space).map(Space::stake);
    if stake == Some(Stake::Money) { money } else { rest }
}

/// What the spaces of rows hold; rows of one space follow each other.
fn totals_of(rows: &[Row], position: &mut Position) -> Vec<(u8, Total)> {
    let mut spaces: Vec<u8> = rows.iter().map(|row| row.space).collect();
    spaces.dedup();
    spaces.into_iter().filter_map(|space| Some((space, *position.totals.of(space)?))).collect()
}

/// Brings a tree to where a frame leaves it, and says what it changed.
pub(super) fn replay(tree: &Db, parts: [Part; 2], after: &mut Position) -> Result<Vec<values::Change>, StoreError> {
    let mut batch = Batch::default();
    let mut changes = Vec::new();
    for Part { rows, totals, told } in parts {
        for row in &rows {
            match &row.value {
                // A checkpoint holds these as the tree does.
                Some(entry) if row.space == told::ENTRIES => told::put(&row.key, entry, &mut batch),
                Some(_) | None => changes.push(values::write(tree, row, &mut batch)?),
            }
        }
        told.iter().try_for_each(|told: &Told| told::keep(told, &mut batch))?;
        after.totals.set(&totals);
    }
    after.keep(&mut batch)?;
    tree.apply_batch(batch).map_err(away)?;
    Ok(changes)
}
