//! The sandbox's work for each tool since this process started, which shows the tools that use most of it.

use std::{collections::HashMap, sync::Arc};

use tollhouse_base::{id::EndpointId, lock::Lock};
use tollhouse_pool::{CompletedRun, PoolError};
use tollhouse_protocol::Outcome;

/// The sandbox's work for a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    /// Number of calls in the sandbox or in its queue.
    pub running: u64,
    /// Number of calls that ran, whatever their outcome.
    pub calls: u64,
    /// Number of calls that had to load their handler.
    pub cold_calls: u64,
    /// Number of calls that were stopped at a limit.
    pub stops: u64,
    /// Number of calls that got no slot, because the host was busy or their tool was held.
    pub refused: u64,
    /// Processor time of all calls, in microseconds.
    pub cpu_us: u64,
}

/// The sandbox's work for all tools.
#[derive(Debug, Default)]
pub struct SandboxCounts(Lock<HashMap<EndpointId, EndpointCounts>>);

/// A call that counts as running until this is dropped.
pub(super) struct RunGuard {
    tally: Arc<SandboxCounts>,
    endpoint: EndpointId,
}

impl SandboxCounts {
    /// Returns the counts of each tool that was called.
    pub fn counts(&self) -> Vec<(EndpointId, EndpointCounts)> {
        self.0.lock().iter().map(|(id, counts)| (id.clone(), *counts)).collect()
    }

    pub(super) fn begin(self: &Arc<Self>, endpoint: &EndpointId) -> RunGuard {
        self.0.lock().entry(endpoint.clone()).or_default().running += 1;
        RunGuard { tally: Arc::clone(self), endpoint: endpoint.clone() }
    }
}

impl RunGuard {
    /// Counts the outcome of the call.
    pub(super) fn ended(self, ran: &Result<CompletedRun, PoolError>) {
        let mut all = self.tally.0.lock();
        let counts = all.entry(self.endpoint.clone()).or_default();
        match ran {
            Ok(ran) => {
                counts.calls += 1;
                counts.cold_calls += u64::from(ran.cold);
                counts.stops += u64::from(matches!(ran.outcome, Outcome::Stopped(_)));
                counts.cpu_us += ran.spent.cpu_us;
            }
            Err(PoolError::Busy { .. } | PoolError::Held { .. } | PoolError::Slowed { .. }) => counts.refused += 1,
            // A handler that cannot be loaded or started has not run.
            Err(PoolError::Load(_) | PoolError::Schema(_) | PoolError::Stopped(_) | PoolError::FewUsers { .. } | PoolError::Spawn(_)) => {}
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if let Some(counts) = self.tally.0.lock().get_mut(&self.endpoint) {
            counts.running -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollhouse_protocol::{Spent, StopReason};

    use super::*;

    #[test]
    fn a_call_is_counted_from_start_to_end() {
        let (tally, id) = (Arc::new(SandboxCounts::default()), EndpointId::generate());
        let counts = || tally.counts().first().map(|(_, counts)| *counts).unwrap();
        let spent = Spent { cpu_us: 7, ..Spent::default() };
        let given_up = tally.begin(&id);
        for cold in [true, false] {
            tally.begin(&id).ended(&Ok(CompletedRun { outcome: Outcome::Stopped(StopReason::Deadlock), spent, cold, background: None }));
        }
        tally.begin(&id).ended(&Err(PoolError::Busy { retry_after: Duration::ZERO }));
        assert_eq!(counts(), EndpointCounts { running: 1, calls: 2, cold_calls: 1, stops: 2, refused: 1, cpu_us: 14 });
        drop(given_up);
        assert_eq!(counts().running, 0, "whoever hangs up");
    }
}
