//! Backups: a snapshot of a host's rows in a file, with its objects next to it. Also imports a store from a backup or
//! from another store.
//!
//! A backup is a folder. Each dump in it is one file, which gets its final name once it has been read back completely.
//! Objects never change under their names. They are in `files/`, shared by all dumps, so that each is copied once. The
//! host's keys are never included: a dump lists their ids, and can be restored only where they exist.
//!
//! A running host keeps the store in its data folder locked. Commands reach it through a socket in that folder, which
//! only its own user can open ([`control`]).

#![warn(missing_docs)]

pub mod control;
mod dump;
mod error;
mod fill_marks;
mod folder;
mod objects;

pub use self::{
    dump::{Header, Ids, ReadBack, read_back, restore, write_dump},
    error::BackupError,
    fill_marks::{Departure, FillGuard, FillMode, FillSource, begin_fill, depart, departed, filled_by, open_to_all, stay},
    folder::{BackupFolder, UnfinishedDump, newest},
    objects::{CopyReport, NamedObject, copy_back, copy_in},
};
