//! The host's side of the sandbox: starts workers, leases them to calls, enforces budgets, kills.
//!
//! Invariant: a worker that overran any part of its budget never serves a second call. `exchange`
//! creates the proof that a call ended normally, `Lease::recycle` and `Lease::hand_over` require
//! it, and `Lease::is_fit` asserts the other conditions when a worker is leased.
//!
//! ```text
//! Pool::run ─▶ scheduler    a running slot, a process, fairness, the queue, the breaker
//!              ahead        or a place behind another call of a handler that takes microseconds: `pipeline`
//!           ─▶ checkout     a warm worker, or a spare that loads the handler, or a new process: `spares`, `places`, `spawner`, `zygote`, `groups`
//!           ─▶ exchange     frames out and in, ops, `ledger` checks every claim, `flow` holds ops until their bytes fit
//!              watchdog     kills at limit + grace by the host's own clocks: `budget`, `usage`
//!           ─▶ lease        idle again and ready for the next call, or ended and reaped by `reaper`
//! core                      shared state
//! maintenance               off the path of calls: replacement by age and memory, watchdog rounds, `turns` of slowed calls, shutdown
//! ```
//!
//! Each module uses only modules further down this list: `pool`, `maintenance`, `ahead`,
//! `checkout`, `spares`, `lease`, `faults`, `core`, `idle`, `exchange`, `flow`, `ledger`,
//! `spawner`, `zygote`, `turns`, `process`, `reaper`, `places`, `groups`, `pipeline`, `watchdog`,
//! `scheduler`, and modules that use none of these.

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
