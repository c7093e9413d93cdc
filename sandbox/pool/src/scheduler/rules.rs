//! What the scheduler goes by, and how full it says it is.

use std::{net::IpAddr, time::Duration};

use crate::breaker::BreakerRules;

/// The scheduler's limits; see [`PoolConfig`](crate::PoolConfig) for their meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) running: usize,
    pub(crate) processes: usize,
    /// Calls of one caller that compute at once, and that have a process, whether others wait or not.
    pub(crate) caller_running: usize,
    pub(crate) caller_processes: usize,
    /// Calls that compute for long, and gave their running slots back.
    pub(crate) background: usize,
    /// How long that is.
    pub(crate) quantum: Duration,
    pub(crate) queue: usize,
    /// Of these, places of one caller.
    pub(crate) caller_queue: usize,
    pub(crate) patience: Duration,
    pub(crate) breaker: BreakerRules,
}

/// Who asks to be admitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) owner: &'a str,
    pub(crate) endpoint: &'a str,
    /// Whose calls no more than a part of all may be at once; `None` is the host itself.
    pub(crate) caller: Option<IpAddr>,
    pub(crate) concurrency: usize,
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub(crate) admitted: usize,
    pub(crate) running: usize,
    pub(crate) queued: usize,
}
