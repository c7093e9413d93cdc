//! The formats of rows that a version of the program reads, and those that it writes.
//!
//! Every change of the format of a stored value is counted ([`Formatted::FORMAT`](tollhouse_store::Formatted)), and the
//! changes of all kinds of rows add up to one number. A version reads all formats up to its own number. During an
//! upgrade, hosts of two versions serve one store, so the previous version must be able to read what the new one
//! writes. A new format therefore takes two versions: the first reads it but still writes the old format ([`OWN`]`.writes`
//! stays), the second writes it.
//!
//! The store records the highest format of its rows. A host that does not read it cannot serve the store, and no host
//! writes a format that another one serving the store does not read.

use serde::{Deserialize, Serialize};
use tollhouse_base::id::ReplicaId;
use tollhouse_store::{StoreError, Table, json_values, schema};

pub(super) const WRITTEN: Table<(), Formats> = schema::FORMATS_WRITTEN.holding();

/// The formats that a version knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownFormats {
    /// The highest format that it reads: one, plus every change of a format so far, which `tests/tidy.rs` counts.
    pub(super) reads: u32,
    /// The highest format that it always writes. The previous version reads it.
    pub(super) writes: u32,
}

/// The formats that this version knows.
pub(super) const OWN: KnownFormats = KnownFormats { reads: 2, writes: 2 };

/// The formats up to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Formats {
    pub(super) through: u32,
}
json_values!(Formats);

/// Why a replica cannot serve a store.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The store has rows of a later version.
    #[error("the store has rows of formats up to {written}, but this version reads formats up to {reads}: start a later version")]
    Later {
        /// The highest format in the store.
        written: u32,
        /// The highest format that this version reads.
        reads: u32,
    },
    /// The version of another host is too old.
    #[error(
        "the host {id} serves the store and reads row formats up to {reads}, but this version writes formats up to {writes}: \
         first replace that host with a version between the two, or stop it"
    )]
    Earlier {
        /// The other host.
        id: ReplicaId,
        /// The highest format that it reads.
        reads: u32,
        /// The highest format that this version writes.
        writes: u32,
    },
    #[error(transparent)]
    #[expect(missing_docs, reason = "the store's own")]
    Store(#[from] StoreError),
}

/// Fails if the store has rows in formats that are not read.
pub(super) fn are_read(written: Option<&Formats>, reads: u32) -> Result<(), JoinError> {
    match written.map(|written| written.through).filter(|written| *written > reads) {
        Some(written) => Err(JoinError::Later { written, reads }),
        None => Ok(()),
    }
}
