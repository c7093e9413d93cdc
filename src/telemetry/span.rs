//! Spans: the part of a trace that this host performed, with durations.

use std::time::Duration;

use super::{context::Context, stage::Stage};

/// A traced call that has ended.
#[derive(Debug)]
pub(super) struct TracedCall {
    /// The call's own span.
    pub(super) context: Context,
    /// The caller's span, if there is one.
    pub(super) parent: Option<[u8; 8]>,
    /// The caller's `tracestate`.
    pub(super) state: Option<String>,
    /// When it began, in nanoseconds since 1970.
    pub(super) started: u64,
    pub(super) elapsed: Duration,
    /// The stages that it went through, in order.
    pub(super) stages: Vec<PassedStage>,
    /// How it ended: `ok`, or an error code.
    pub(super) outcome: &'static str,
    /// Further attributes, with names from a fixed list.
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// A stage that a call went through.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassedStage {
    pub(super) stage: Stage,
    pub(super) span: [u8; 8],
    /// Start of the stage, relative to the start of the call.
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl TracedCall {
    /// Returns the number of spans that represent the call.
    pub(super) fn spans(&self) -> u64 {
        self.stages.len() as u64 + 1
    }
}
