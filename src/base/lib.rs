//! Common basics: time, ids, error formatting, long work, durable files, rate limits, deserializing JSON from clients,
//! and JSON whose numbers keep their text.

#![warn(missing_docs)]

pub mod amounts;
pub mod anchors;
pub mod attempts;
pub mod cache;
pub mod check_report;
pub mod clock;
pub mod clock_steadiness;
#[cfg(test)]
pub(crate) mod counted;
pub mod cpu_share;
pub mod deserialize_error;
pub mod diff;
pub mod error_chain;
pub mod exact;
pub mod failure_limiter;
pub mod fair_queue;
pub mod forwarded_for;
pub mod fsync_dir;
pub mod gcra;
pub mod id;
pub mod invisible_chars;
pub mod lexer;
pub mod log_gate;
pub mod offload;
pub mod piles;
pub mod plural;
pub mod rate_limit;
pub mod sentence;
pub mod time_param;

/// Makes an async function return a boxed future.
///
/// A plain async function is compiled in every crate that awaits it, with everything that it awaits. A boxed one is
/// compiled once, in its own crate. So large public async functions are boxed. The allocation costs about 50 ns per
/// call.
pub use async_recursion::async_recursion as boxed;
pub use tollhouse_fair::lock;
