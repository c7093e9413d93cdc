//! Tests of a pool with real workers, driven as the host drives it.
//!
//! `TOLLHOUSE_WORKER` must be the path of the `tollhouse-worker` binary.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may panic")]

mod crowds;
mod ends;
mod groups;
mod limits;
mod memory;
mod pipeline;
mod test_pool;
mod tiers;
mod traces;
mod workers;
mod zygotes;
