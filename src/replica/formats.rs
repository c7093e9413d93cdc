//! Formats: what a version of the program reads of the rows of others, and writes for them.
//!
//! Every change of the form of a stored value is counted ([`Formatted::FORMAT`](tollhouse_store::Formatted)), and those of all kinds of rows
//! are added up to one number. A version reads all forms up to its own; hosts of two versions serve one store while one takes the place of
//! the other, so what a version writes the one before it has to read. A form is therefore brought by two versions: the first reads it and
//! goes on writing the one before ([`OWN`]`.writes` stays), the second writes it.
//!
//! A form that rows can do without may be brought by one: it is written once all who serve the store read it
//! ([`Replica::may_write`](super::Replica::may_write)), and what is written instead until then is of the form before. So may one that is more
//! rows: they are written from the start on, and are relied on once all who serve the store write them.
//!
//! The store says up to which form its rows are. Whoever does not read that does not serve it, and nobody writes what another one that
//! serves it does not read.

use serde::{Deserialize, Serialize};
use tollhouse_base::id::ReplicaId;
use tollhouse_store::{StoreError, Table, json_values, schema};

pub(super) const WRITTEN: Table<(), Formats> = schema::FORMATS_WRITTEN.holding();
pub(super) const READ_BY: Table<ReplicaId, Formats> = schema::FORMATS_READ.holding();

/// What versions read that did not say so.
pub(super) const UNSAID: u32 = 4;

/// What a version knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Forms up to this number: one and every change of a form so far, which `tests/tidy.rs` counts.
    pub(super) reads: u32,
    /// Forms up to this number. What the version before reads.
    pub(super) writes: u32,
    /// Forms up to this number, once all who serve the store read them.
    pub(super) wants: u32,
}

/// What this version knows.
pub(super) const OWN: Known = Known { reads: 9, writes: 4, wants: SOURCES_APART };

/// The form in which the row of an answer names the object that holds its body.
pub const ANSWERS_APART: u32 = 5;

/// The form of a receipt without what follows from the rest.
pub const RECEIPTS_SHORT: u32 = 6;

/// The form of sales whose sellers are listed beside, by all who serve the store.
pub const SELLERS_KEPT: u32 = 7;

/// The form in which the row of a version names the object that holds it.
pub const SOURCES_APART: u32 = 8;

/// Forms of rows, up to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Formats {
    pub(super) up_to: u32,
}
json_values!(Formats);

/// Why a replica cannot serve a store.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Its rows are of a later version.
    #[error("the store has rows in forms up to number {written}, and this version reads them up to {reads}: start a later version")]
    Later {
        /// What the store has.
        written: u32,
        /// What this version reads.
        reads: u32,
    },
    /// Another one is of a version that is too old.
    #[error(
        "the host {id} serves the store, reads forms of rows up to number {reads}, and this version writes them up to {writes}: \
         let a version between the two take its place first, or end it"
    )]
    Earlier {
        /// The other one.
        id: ReplicaId,
        /// What it reads.
        reads: u32,
        /// What this version writes.
        writes: u32,
    },
    #[error(transparent)]
    #[expect(missing_docs, reason = "the store's own")]
    Store(#[from] StoreError),
}

/// Refuses rows in forms beyond those that are read.
pub(super) fn are_read(written: Option<&Formats>, reads: u32) -> Result<(), JoinError> {
    match written.map(|written| written.up_to).filter(|written| *written > reads) {
        Some(written) => Err(JoinError::Later { written, reads }),
        None => Ok(()),
    }
}
