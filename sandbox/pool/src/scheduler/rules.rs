//! Limits of the scheduler, and its occupancy.

use std::{net::IpAddr, time::Duration};

use crate::breaker::BreakerRules;

/// The scheduler's limits. See [`PoolConfig`](crate::PoolConfig) for their meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) running: usize,
    pub(crate) processes: usize,
    /// Maximum computing calls and processes of one caller, whether others wait or not.
    pub(crate) caller_running: usize,
    pub(crate) caller_processes: usize,
    /// Maximum number of long computations that have released their slots.
    pub(crate) background: usize,
    /// Computing time after which a call counts as long.
    pub(crate) quantum: Duration,
    pub(crate) queue: usize,
    /// Part of the queue that one caller can use.
    pub(crate) caller_queue: usize,
    pub(crate) timeout: Duration,
    pub(crate) breaker: BreakerRules,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) owner: &'a str,
    pub(crate) endpoint: &'a str,
    /// The caller, for limits per caller. `None` means the host itself.
    pub(crate) caller: Option<IpAddr>,
    /// Places of the endpoint. A caller can have as many of them as it leaves free.
    pub(crate) concurrency: usize,
}

/// Current numbers of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub(crate) admitted: usize,
    pub(crate) running: usize,
    pub(crate) queued: usize,
}
