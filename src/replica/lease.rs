//! Leases: which replicas serve a shared store, how long each is sure to be there, and which changes each has applied.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::ReplicaId};
use tollhouse_store::{Table, postcard_values, schema};

pub(super) const REPLICAS: Table<ReplicaId, Lease> = schema::REPLICAS.holding();

/// Duration of a lease by the store's clock. It is renewed once a second.
pub(super) const LEASE_MS: u64 = 3_000;

/// How long an expired lease is kept, in milliseconds, so that others can see what became of a replica.
pub(super) const RETENTION_MS: u64 = 60 * 60 * 1_000;

/// A replica's record about itself. Nobody else changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lease {
    /// Version of the program.
    pub(super) version: String,
    /// The highest [format](super::formats) that it reads.
    pub(super) reads: u32,
    /// When it started to serve. All times here are milliseconds since 1970.
    pub(super) started_ms: u64,
    /// When the lease expires. After that, others take over its work unless it has renewed the lease.
    pub(super) until_ms: u64,
    /// Number of the newest change that it has applied.
    pub(super) applied: u64,
}
postcard_values!(Lease);

impl Lease {
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until_ms <= now.0
    }
}

/// The replicas with valid leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReplicas(pub(super) Option<BTreeSet<ReplicaId>>);

impl LiveReplicas {
    /// Returns whether this replica may be running. `None` stands for no replica, which is not running.
    pub fn has(&self, id: Option<&ReplicaId>) -> bool {
        id.is_some_and(|id| self.0.as_ref().is_none_or(|living| living.contains(id)))
    }
}
