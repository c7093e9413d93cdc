//! What the scheduler goes by, and how full it says it is.

use std::time::Duration;

use crate::breaker::BreakerRules;

/// The scheduler's limits; see [`PoolConfig`](crate::PoolConfig) for their meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) running: usize,
    pub(crate) processes: usize,
    /// Running slots of one owner while others wait.
    pub(crate) owner_running: usize,
    pub(crate) queue: usize,
    pub(crate) patience: Duration,
    pub(crate) breaker: BreakerRules,
}

/// Who asks to be admitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) owner: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) concurrency: usize,
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub(crate) admitted: usize,
    pub(crate) running: usize,
    pub(crate) queued: usize,
}
