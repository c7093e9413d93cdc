//! The protocol between the host and a `tollhouse-worker`.
//!
//! A worker is one process with one socket. Both directions carry frames (see [`frame`]): the host
//! sends [`ToWorker`], the worker sends [`ToHost`]. Every byte from a worker is hostile input: the
//! host checks order, sizes and counts again, and kills the worker on the first breach.
//!
//! ```text
//! worker                          host
//!   │  Ready{jail}          ──▶    │   the worker is a blank spare
//!   │  ◀── Load(Bundle)            │   once in a worker's life
//!   │  Loaded(Ok|Err)       ──▶    │
//!   │  ◀── Call(Start)             │   any number of times; they run one at a time
//!   │  Begun                ──▶    │   if the host requested it
//!   │  Op{..} Log{..} Waiting ──▶  │   buffered, and written together
//!   │  ◀── Reply{..}               │   one for each Op, in any order
//!   │  Declined             ──▶    │   a Call that arrived while this one waits
//!   │  Answered{..}         ──▶    │   if the call goes on after its answer
//!   │  Done{outcome, spent} ──▶    │   the worker is idle again, or at the next Call
//! ```
//!
//! A worker that was stopped and cannot send the reason uses its exit status instead, see [`exit`].
//!
//! This crate does no IO and has no notion of prices, identities, or HTTP.

#![warn(missing_docs)]

pub mod exit;
pub mod frame;
#[cfg(test)]
mod fuzz;
mod heap_size;
mod jail;
pub mod limits;
mod message;
mod op;
mod outcome;
mod schema;
mod tier;

pub use jail::{JailLayer, JailReport, LayerRefusal};
pub use limits::Limits;
pub use message::{
    Bundle, Checked, Isolation, Language, Load, LoadError, LoadFault, Loaded, LogLevel, LogLine, ProgressMessage, Source, Start, ToHost,
    ToWorker, Work,
};
pub use op::{AtomicCheck, AtomicWrite, HeaderFromEnv, OpFailure, OpRequest, OpValue, RedirectMode};
pub use outcome::{FAILED, Outcome, ReplyBody, STRUCTURED, Spent, StopReason, Thrown, ToolReply, are_blocks};
pub use schema::{MAX_PROBLEMS, Problem, SchemaFault, Schemas, Side};
pub use tier::Tier;
