//! The journal: all commits in order, in append-only files.
//!
//! The store's tree is an index of the journal and can be rebuilt from it. A group of commits forms one frame. A frame
//! is physical: it contains keys and their values afterwards. Frames are split into sectors, each with a checksum
//! ([`sector`]). Sectors are in segments that are filled with zeros before use ([`segment`]), so that writing a frame
//! changes neither a file's length nor its block list, and one `fdatasync` is enough.
//!
//! Reading back gives one of three results, and never silently a different one:
//!
//! - frames as they were written: their checksums hold, their numbers are consecutive, and each carries the hash of all
//!   frames before it ([`link`]);
//! - zeros where a frame would continue, and no later frame that says this one was on disk: the torn end of a write
//!   that was never confirmed to anybody;
//! - [`damage`](Damage): a changed sector, a file that is too short or missing, or zeros where a later frame shows that
//!   there was data.
//!
//! A checkpoint ([`checkpoint`]) contains all rows, so that segments before it can be removed. The money in them is
//! first copied to the archive ([`archive`]).

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
