//! The host's side of the sandbox: starts workers, leases them to calls, enforces budgets, kills.
//!
//! Invariant: a worker that overran any part of its budget never serves a second call. `exchange`
//! creates the proof that a call ended normally, `Lease::recycle` and `Lease::hand_over` require
//! it, and `Lease::is_fit` asserts the other conditions when a worker is leased.
//!
//! ```text
//! Pool::run ─▶ scheduler    a running slot, a process, fairness, the queue, the breaker
//!              ahead        or a place behind another call of a handler that takes microseconds: `pipeline`
//!           ─▶ checkout     a warm worker, or a spare that loads the handler, or a new process: `spare_workers`, `process_slots`, `spawner`, `zygote`, `cgroups`
//!           ─▶ exchange     frames out and in, ops, `call_account` checks every claim, `flow` holds ops until their bytes fit
//!              background   places of calls that work after their answer
//!              watchdog     kills at limit + grace by the host's own clocks: `budget`, `usage`
//!           ─▶ lease        idle again and ready for the next call, or ended and reaped by `reaper`
//! core                      shared state
//! maintenance               off the path of calls: replacement by age and memory, watchdog rounds, `cpu_turns` of slowed calls, shutdown
//! ```
//!
//! Each module uses only modules further down this list: `pool`, `maintenance`, `send_ahead`,
//! `checkout`, `spare_workers`, `worker_lease`, `blame`, `core`, `idle`, `exchange`, `flow`, `call_account`,
//! `spawner`, `zygote`, `cpu_turns`, `process`, `reaper`, `process_slots`, `cgroups`, `pipeline`, `watchdog`,
//! `scheduler`, and modules that use none of these.

#![warn(missing_docs)]

mod background;
mod blame;
mod breaker;
mod budget;
mod call_account;
mod cgroups;
mod checkout;
mod code_cache;
mod config;
mod core;
mod cpu_turns;
mod error;
mod exchange;
mod flow;
mod idle;
mod job;
mod machine;
mod maintenance;
mod namespace;
mod pipeline;
mod pool;
mod process;
mod process_slots;
mod reaper;
mod scheduler;
mod send_ahead;
mod spare_workers;
mod spawner;
mod status;
mod tiers;
mod usage;
mod users;
mod watchdog;
mod watchdog_alarm;
mod wire;
mod worker_lease;
mod zygote;

pub use crate::{
    background::BackgroundEnd,
    config::PoolConfig,
    error::PoolError,
    job::{CompletedRun, Job, OpHost},
    machine::Machine,
    pool::Pool,
    status::{RefusedLayer, Status, TierStatus, Totals},
    users::{InvalidUserRange, Users},
};
