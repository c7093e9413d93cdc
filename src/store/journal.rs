//! The journal: what was committed, in order, in files that are only ever added to.
//!
//! The store's tree is an index of it, and can be made again from it. A group of commits is one frame, physical: keys, and what
//! is there afterwards. Frames lie in sectors, each with a checksum ([`sector`]), in segments that were filled with zeros before
//! they are used ([`segment`]), so that writing a frame changes no length and no list of blocks, and one `fdatasync` is all it takes.
//!
//! What is read back is one of three things, and never silently another:
//!
//! - frames as they were written: their sectors' checksums hold, their numbers follow each other, and each carries the hash of
//!   all before it ([`link`]);
//! - zeros where a frame would go on, and no later frame that says this one was on disk: the torn end of what nobody was told of;
//! - [`damage`](Damage): a changed sector, a file that is short or gone, zeros where a later frame knows that something was.
//!
//! A checkpoint ([`checkpoint`]) holds all rows, so that segments before it can go; the money in them goes to the archive first
//! ([`archive`]).

mod archive;
mod archived;
mod blank;
mod checkpoint;
mod cut;
mod damage;
mod ends;
mod frame;
mod link;
mod part;
mod reader;
mod room;
mod sector;
mod segment;
mod survey;
mod total;
mod unfinished;
mod walk;
mod writer;

pub use self::damage::Damage;
pub(super) use self::{
    archive::Archive,
    archived::Archived,
    blank::Blank,
    checkpoint::{Checkpoint, Dump, Held},
    damage::{JournalError, name},
    frame::Frame,
    link::Link,
    part::{Part, Row, Told},
    room::{AskFree, Room, ask_system},
    segment::{Kind, Named},
    survey::Survey,
    total::{Total, Totals, Weight, checksum},
    walk::{End, Walk},
    writer::{Counts, NotWritten, Writer, WriterSettings},
};

#[cfg(test)]
mod tests;
