//! Metrics of the host, and tracing of calls.
//!
//! ```text
//! crates ─▶ counted (atomics) ──┐
//! app ────▶ current values ─────┴▶ samples ─┬▶ text: `/metrics`
//! a call ─▶ course: stages ─┬▶ histograms ──┘└▶ otlp ──▶ a collector
//!                           └▶ spans, if it is traced ──▶ otlp
//! ```
//!
//! Every metric is a row of [`metric_table`]. Its labels have values from fixed lists, never a name chosen by a stranger or
//! text from a body. A call is measured with atomics and its own task's memory, and allocates for this only if it is
//! traced. Data to be sent waits in bounded queues. If a queue is full, data is dropped and counted, and no call waits.

#![warn(missing_docs)]

mod call_trace;
mod context;
pub mod counters;
mod histogram;
pub mod log;
pub mod metric_table;
mod otlp;
mod sample;
mod span;
mod stage;
mod text;
mod tracer;

pub use self::call_trace::note;
pub use self::{
    call_trace::{FollowedCall, answering, enter, follow, onward},
    metric_table::Metric,
    otlp::{Destination, Exporter, OtlpSettings},
    sample::{Gather, Samples},
    stage::Stage,
    text::Format,
    tracer::TraceSettings,
};
