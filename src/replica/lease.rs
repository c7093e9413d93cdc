//! Leases: who serves a store that several processes share, until when that is sure, and how much of what changes each has heeded.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::ReplicaId};
use tollhouse_store::{Table, postcard_values, schema};

pub(super) const REPLICAS: Table<ReplicaId, Lease> = schema::REPLICAS.holding();

/// How long a lease is, by the store's clock. It is renewed once a second.
pub(super) const LEASE_MS: u64 = 3_000;

/// How long a lease is left where it is after its end, in milliseconds: for those who look what became of a replica.
pub(super) const KEPT_MS: u64 = 60 * 60 * 1_000;

/// What a replica says of itself. Nobody else changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lease {
    /// Of the program.
    pub(super) version: String,
    /// When it began to serve, in milliseconds since 1970, as are all times here.
    pub(super) started_ms: u64,
    /// From then on others take up what it has left, unless it renews it.
    pub(super) until_ms: u64,
    /// The number of the newest change that it heeds.
    pub(super) applied: u64,
}
postcard_values!(Lease);

impl Lease {
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until_ms <= now.0
    }
}

/// The replicas whose leases are not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Living(pub(super) Option<BTreeSet<ReplicaId>>);

impl Living {
    /// Whether this replica may be running. One that has no name is of a version before there were any, and is not.
    #[must_use]
    pub fn has(&self, id: Option<&ReplicaId>) -> bool {
        id.is_some_and(|id| self.0.as_ref().is_none_or(|living| living.contains(id)))
    }
}
