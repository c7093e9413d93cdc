//! Why a call did not run.

use std::time::Duration;

use tollhouse_protocol::{LoadError, SchemaFault, StopReason};

/// A call that did not run, so repeating it is safe.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No slot within the queue's patience, or the queue is full, or the pool is shut down.
    #[error("all workers are busy")]
    Busy {
        /// After which time another try may find a slot.
        retry_after: Duration,
    },
    /// The endpoint's code was stopped too often of late.
    #[error("endpoint is held after repeated faults")]
    Held {
        /// How long the endpoint is held yet.
        retry_after: Duration,
    },
    /// Calls of this caller were stopped too often of late at this endpoint, which others may call.
    #[error("calls of this caller were stopped too often")]
    Slowed {
        /// How long the caller is slowed yet.
        retry_after: Duration,
    },
    /// The handler does not load.
    #[error("handler does not load")]
    Load(#[source] LoadError),
    /// A schema of the bundle cannot be used.
    #[error("a schema cannot be used")]
    Schema(#[source] SchemaFault),
    /// A schema of the bundle took more than loading may.
    #[error("while loading, {0}")]
    Stopped(StopReason),
    /// Fewer users than processes that may be there at once.
    #[error(
        "there are {users} users for {processes} worker processes, and each has one of its own: name more in `--sandbox-users`, or fewer processes in `--sandbox-processes`"
    )]
    FewUsers {
        /// Those that may be given.
        users: usize,
        /// Those that may be there.
        processes: usize,
    },
    /// No worker could be started.
    #[error("no worker could be started: {0}")]
    Spawn(String),
}
