//! Tollhouse: a host for paid JavaScript tools.
//!
//! The life of a call, module by module:
//!
//! ```text
//! http ─┬▶ call: find ─▶ admit ─▶ check ─▶ run ─▶ check ─▶ settle ─▶ receipt ─▶ http, mcp
//! mcp ──┘        │         │        │       │                 │
//!            catalog   payment    tool   runner           payment, receipt
//!               │         │                │ ├─ builtin       │
//!               └─ store ─┴─ facilitator   │ └─ sandbox/pool ══ tollhouse-worker
//!                                          capability: kv, files, env, httpGetJson, log
//! ```
//!
//! Invariants, and who keeps them:
//! - One payment authorisation buys at most one run and one answer: [`payment`].
//! - Nothing is charged before the result has passed its schema: [`call`].
//! - Uploaded code never runs in this process: [`runner`]; what it asks for is decided here, by its
//!   endpoint's grant: [`capability`].
//! - A receipt is stored in the commit that ends its payment: [`payment`], [`receipt`].
//! - The host evaluates no schema, and reads no long text on a thread of its runtime: [`tool`], [`aside`].
//! - A secret is in clear only while a call of its endpoint runs: [`secret`].

pub mod admin;
pub mod app;
mod aside;
pub mod audit;
pub mod builder;
pub mod call;
pub mod capability;
pub mod catalog;
pub mod clock;
pub mod config;
pub mod credential;
pub mod cursor;
pub mod disk;
pub mod event;
pub mod feed;
pub mod http;
pub mod id;
pub mod mcp;
mod misfit;
pub mod payment;
pub mod payout;
#[cfg(test)]
mod random;
pub mod rate;
pub mod readiness;
pub mod receipt;
pub mod runner;
pub mod safety;
pub mod sale;
pub mod search;
pub mod secret;
pub mod share;
pub mod store;
pub mod tool;
