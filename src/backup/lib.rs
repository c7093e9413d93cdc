//! Backups: a host's rows in a file, as they stood at one moment, with the contents of its files beside; and stores that are filled from
//! one, or from one another.
//!
//! A backup is a folder. Each dump in it is a file of its own, which has its name once it was read back whole; the contents of files,
//! which never change under their names, lie in `files/` for all dumps together, so that each is copied once. Keys of the host are in
//! none of it: a dump names them by their ids, and is restored only where they are.
//!
//! A host that runs on a store in its data folder has that locked: it is asked through a socket in the folder, which only its own user may
//! open ([`control`]).

#![warn(missing_docs)]

pub mod control;
mod error;
mod folder;
mod header;
mod marks;
mod objects;
mod restore;
mod write;

pub use self::{
    error::BackupError,
    folder::{Folder, Unfinished, newest},
    header::{Header, Ids},
    marks::{Departed, FilledBy, Filling, How, depart, departed, fill_begins, filled_by, is_open_to_all, stay},
    objects::{Copied, Named, bring, give_back},
    restore::{ReadBack, read_back, restore},
    write::write_dump,
};
