//! What the host counts and measures of itself, and how a call is followed through it.
//!
//! ```text
//! rooms ──▶ counted (atomics) ──┐
//! app ────▶ what there is now ──┴▶ samples ─┬▶ text: `/metrics`
//! a call ─▶ course: stages ─┬▶ histograms ──┘└▶ otlp ──▶ a collector
//!                           └▶ spans, where it is traced ──▶ otlp
//! ```
//!
//! Every metric is a row of [`table`], and its labels have values of closed lists: no name that a stranger chose, no text of a body. A
//! call is measured by atomics and its own task's memory; it allocates for this only where it is traced. What is handed out waits in
//! bounded room, is dropped and counted where there is none, and holds up no call.

#![warn(missing_docs)]

mod context;
pub mod counted;
mod course;
mod histogram;
pub mod log;
mod otlp;
mod sample;
mod span;
mod stage;
pub mod table;
mod text;
mod tracer;

pub use self::course::note;
pub use self::{
    course::{Followed, answering, enter, follow, onward},
    otlp::{Destination, Exporter, OtlpSettings},
    sample::{Gather, Samples},
    stage::Stage,
    table::Metric,
    text::Format,
    tracer::TraceSettings,
};
