//! The state shared by all front ends.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::{
    caller::Authenticator, forwarded::Proxies, memory_budget::MemoryBudget, rate_limits::Limits, shutdown::Shutdown, spool::Spool,
};

/// The state shared by all front ends.
#[derive(Debug)]
pub struct FrontServices {
    /// Authentication of callers.
    pub callers: Arc<Authenticator>,
    /// Limits of each client address.
    pub limits: Limits,
    /// Limits of connections, bodies and answers.
    pub intake: MemoryBudget,
    /// Bodies of calls that are not JSON.
    pub spool: Spool,
    /// Proxies trusted to name the client's address.
    pub proxies: Proxies,
    /// The shutdown state of the host.
    pub shutdown: Shutdown,
    /// Tasks that continue after their caller hangs up, such as a change in progress. Shutdown waits for them.
    pub background: TaskTracker,
}
