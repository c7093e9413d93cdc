//! Reasons why a call did not run.

use std::time::Duration;

use tollhouse_protocol::{LoadError, SchemaFault, StopReason};

/// Error of a call that did not run. A retry is safe.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No slot came free in time, the queue is full, or the pool is shut down.
    #[error("all workers are busy")]
    Busy {
        /// Time after which a retry can find a slot.
        retry_after: Duration,
    },
    /// The endpoint's code was stopped too often recently.
    #[error("the tool is paused for a moment because it failed repeatedly")]
    Held {
        /// How much longer the endpoint is held.
        retry_after: Duration,
    },
    /// Calls of this caller to this endpoint were stopped too often recently. Other callers are not
    /// affected.
    #[error("too many calls of this caller hit a limit")]
    Slowed {
        /// How much longer the caller is slowed.
        retry_after: Duration,
    },
    /// The handler does not load.
    #[error("the handler does not load")]
    Load(#[source] LoadError),
    /// A schema of the bundle is not usable.
    #[error("a schema is invalid")]
    Schema(#[source] SchemaFault),
    /// A schema of the bundle exceeded the limits of loading.
    #[error("while loading, {0}")]
    Stopped(StopReason),
    /// There are fewer users than processes, and each process needs its own.
    #[error(
        "the number of users is {users}, but each of up to {processes} worker processes needs its own: add users to `--sandbox-users`, or lower `--sandbox-processes`"
    )]
    FewUsers {
        /// Number of users available.
        users: usize,
        /// Maximum number of processes.
        processes: usize,
    },
    /// No worker could be started.
    #[error("no worker could be started: {0}")]
    Spawn(String),
}
