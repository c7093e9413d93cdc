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
//!   frames before it ([`hash_chain`]);
//! - zeros where a frame would continue, and no later frame that says this one was on disk: the torn end of a write
//!   that was never confirmed to anybody;
//! - [`damage`](JournalDamage): a changed sector, a file that is too short or missing, or zeros where a later frame shows that
//!   there was data.
//!
//! A checkpoint ([`checkpoint`]) contains all rows, so that segments before it can be removed. The money in them is
//! first copied to the archive ([`archive`]). Damage until then is recorded as a gap ([`archive_gap`]).

mod archive;
mod archive_gap;
mod archived;
mod checkpoint;
mod damage;
mod disk_space;
mod frame;
mod hash_chain;
mod part;
mod reader;
mod salvage;
mod sector;
mod segment;
mod survey;
mod temp_file;
mod total;
mod walk;
mod writer;
mod zeroed_file;

pub(super) use self::{
    archive::Archive,
    archived::ArchiveFrames,
    checkpoint::{CheckpointItem, CheckpointReader, CheckpointWriter},
    damage::{JournalError, name},
    disk_space::{DiskSpace, FreeSpaceFn, query_system},
    frame::Frame,
    hash_chain::ChainLink,
    part::{ChangeEntry, FramePart, RowPart},
    salvage::{salvage_up_to, salvage_up_to_journal},
    segment::{SegmentFile, SegmentKind},
    survey::Survey,
    total::{RowWeight, SpaceTotal, SpaceTotals, checksum},
    walk::{FrameWalk, JournalEnd},
    writer::{JournalWriter, WriteError, WriterCounts, WriterSettings},
    zeroed_file::ZeroedFile,
};
pub use self::{archive_gap::ArchiveGap, damage::JournalDamage};

#[cfg(test)]
mod tests;
