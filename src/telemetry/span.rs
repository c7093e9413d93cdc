//! Spans: what of a trace was done here, and for how long.

use std::time::Duration;

use super::{context::Context, stage::Stage};

/// A traced call that has ended.
#[derive(Debug)]
pub(super) struct Traced {
    /// Its own span.
    pub(super) context: Context,
    /// The span of its caller, where it gave one.
    pub(super) parent: Option<[u8; 8]>,
    /// As its caller gave it.
    pub(super) state: Option<String>,
    /// When it began, in nanoseconds since 1970.
    pub(super) begun: u64,
    pub(super) took: Duration,
    /// The stages that it went through, one after the other.
    pub(super) stages: Vec<Passed>,
    /// How it ended: `ok`, or a code.
    pub(super) outcome: &'static str,
    /// What is told beside: names of a closed list, and their values.
    pub(super) told: Vec<(&'static str, String)>,
}

/// A stage that a call went through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    pub(super) stage: Stage,
    pub(super) span: [u8; 8],
    /// From the call's beginning on.
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Traced {
    /// How many spans it is told in.
    pub(super) fn spans(&self) -> u64 {
        self.stages.len() as u64 + 1
    }
}
