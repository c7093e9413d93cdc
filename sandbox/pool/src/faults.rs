//! What a stop means for the pool: what it counts as, and whether it counts against its endpoint.

use tollhouse_protocol::{LoadError, LoadFault, Outcome, Side, StopReason};

use crate::{core::Core, error::PoolError, status::count};

/// What a worker was at when it was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// With nothing but what its owner wrote.
    Load,
    Call,
}

impl Core {
    /// Counts a call that ran.
    pub(crate) fn note_end(&self, endpoint: &str, outcome: &Outcome) {
        count(&self.counters.calls);
        if let Outcome::Stopped(reason) = outcome {
            self.note_stop(endpoint, reason, Phase::Call);
        }
    }

    /// Counts a stop, and holds its endpoint if there were too many.
    fn note_stop(&self, endpoint: &str, reason: &StopReason, phase: Phase) {
        count(if matches!(reason, StopReason::Crashed) { &self.counters.crashes } else { &self.counters.stops });
        if counts_against_endpoint(reason, phase) && self.scheduler.note_kill(endpoint) {
            tracing::warn!(endpoint, "endpoint is held after repeated faults");
        }
    }

    /// What a load that failed is to its call.
    pub(crate) fn load_error(&self, endpoint: &str, fault: LoadFault) -> PoolError {
        match fault {
            LoadFault::Handler(error) => PoolError::Load(error),
            LoadFault::Schema(fault) => PoolError::Schema(fault),
            LoadFault::Stopped(reason) => {
                self.note_stop(endpoint, &reason, Phase::Load);
                match reason {
                    StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. } => PoolError::Stopped(reason),
                    reason => PoolError::Load(LoadError { message: format!("while loading, {reason}"), line: None, column: None }),
                }
            }
        }
    }
}

/// Only stops that a process does not survive in good order count, and none that a caller's input brought about.
fn counts_against_endpoint(reason: &StopReason, phase: Phase) -> bool {
    match reason {
        StopReason::Crashed | StopReason::CpuTime { .. } | StopReason::WallTime { .. } | StopReason::Memory { .. } => true,
        StopReason::SchemaTime { side, .. } | StopReason::SchemaMemory { side, .. } => phase == Phase::Load || *side == Side::Output,
        // A misfit by the time it is weighed.
        StopReason::Unlisted { .. } => false,
        StopReason::OutputSize { .. } | StopReason::OutputDepth { .. } | StopReason::Ops { .. } | StopReason::Deadlock => false,
    }
}
