//! The host's side of the sandbox: starts workers, leases them to calls, keeps budgets, kills.
//!
//! Invariant: a worker that overran any part of its budget never serves a second call.
//! `exchange` makes the proof that a call ended as it should, `Lease::recycle` and `Lease::hand_over`
//! take nothing else, and `Lease::is_fit` asserts the rest again when a worker is leased.
//!
//! ```text
//! Pool::run ─▶ scheduler    a running slot, a process, fairness, the queue, the breaker
//!              ahead        or a place behind another call of a handler that takes microseconds: `pipeline`
//!           ─▶ checkout     a warm worker, or a spare that loads the handler, or a new process: `spares`, `places`, `spawner`, `zygote`, `groups`
//!           ─▶ exchange     frames out and in, ops, `ledger` checks every claim, `flow` holds ops until their bytes fit
//!              watchdog     kills at limit + grace by the host's own clocks: `budget`, `usage`
//!           ─▶ lease        back to the idle for the next call, or ended, and reaped by `reaper`
//! core                      what all share
//! maintenance               age and memory, the watchdog's rounds and the slowed calls' `turns`, shutdown: off the path of calls
//! ```
//!
//! Each of these names only those further down in: `pool`, `maintenance`, `ahead`, `checkout`, `spares`, `lease`, `faults`,
//! `core`, `idle`, `exchange`, `flow`, `ledger`, `spawner`, `zygote`, `turns`, `process`, `reaper`, `places`, `groups`, `pipeline`, `watchdog`,
//! `scheduler`, and what knows of none.

#![warn(missing_docs)]

mod ahead;
mod alarm;
mod breaker;
mod budget;
mod checkout;
mod config;
mod core;
mod error;
mod exchange;
mod faults;
mod flow;
mod groups;
mod idle;
mod job;
mod lease;
mod ledger;
mod machine;
mod maintenance;
mod namespace;
mod pipeline;
mod places;
mod pool;
mod process;
mod reaper;
mod scheduler;
mod spares;
mod spawner;
mod status;
mod tiers;
mod turns;
mod usage;
mod users;
mod watchdog;
mod wire;
mod zygote;

pub use crate::{
    config::PoolConfig,
    error::PoolError,
    job::{Job, OpHost, Ran},
    machine::Machine,
    pool::Pool,
    status::{RefusedLayer, Status, TierStatus, Totals},
    users::{NoRange, Users},
};
