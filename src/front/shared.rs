//! What every front takes.

use tokio_util::task::TaskTracker;

use super::{caller::Callers, forwarded::Proxies, intake::Intake, limits::Limits, shutdown::Shutdown};

/// What every front takes.
#[derive(Debug)]
pub struct Shared {
    /// Those who have a credential.
    pub callers: Callers,
    /// Of each client address.
    pub limits: Limits,
    /// Connections, bodies and answers, within their limits.
    pub intake: Intake,
    /// Proxies that are trusted to name the client's address.
    pub proxies: Proxies,
    /// Whether the host has been told to end.
    pub shutdown: Shutdown,
    /// What goes on when whoever asked for it hangs up, such as a change that was begun: waited for when the host ends.
    pub background: TaskTracker,
}
