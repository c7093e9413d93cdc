//! Tollhouse: a host for paid JavaScript tools.
//!
//! The path of a call through the modules:
//!
//! ```text
//! front: listener, limits, callers, payment headers
//!   │
//! http ─┬▶ call: find ─▶ admit ─▶ check ─▶ run ─▶ check ─▶ settle ─▶ receipt ─▶ http, mcp ─▶ front: errors
//! mcp ──┘        │         │        │       │                │
//!            catalog     money    tool   call/run      money, money/receipt
//!               │         │                │ ├─ builtin
//!               └─ store ─┴─ facilitator   │ └─ sandbox/pool ══ tollhouse-worker
//!                                          capability: the methods of `ctx`, each behind its grant
//! ```
//!
//! `http` and `mcp` do not depend on each other or on [`app`], which gives each of them the few services that it needs.
//! They share [`front`]. [`web`] builds its pages from answers of `http`, which it calls inside the process like any
//! other client. Besides calls there are:
//!
//! - [`account`]: builders, sessions and the audit trail
//! - [`event`]: events about tools and money, for builders
//! - [`operate`]: checks for operators
//! - [`replica`]: the other hosts of a shared store
//! - [`objects`]: values too large for the store
//! - [`backup`]: copies of the store, and moving it
//! - [`config`]: the settings
//! - [`telemetry`]: metrics and traces
//!
//! Invariants, and the modules that keep them:
//! - One payment authorization buys at most one run and one answer: [`money`].
//! - Nothing is charged before the result has passed its schema, unless the tool charges before the run: [`call`].
//! - Uploaded code never runs in this process: [`call::run`]. The grant of its tool decides about each operation that
//!   it requests: [`capability`].
//! - A receipt is stored in the commit that ends its payment: [`money::payments`](money), [`money::receipt`].
//! - Every error is a row of one table, and a 402 has its challenge: [`front`].
//! - The host evaluates no schemas, and parses no long text on a runtime thread: [`tool`], [`base`].
//! - Published metrics have labels from closed lists, and contain nothing that a caller sent: [`telemetry`].
//! - A secret is decrypted only while a call of its tool runs: [`capability::secret`].

#![warn(missing_docs)]

pub use tollhouse_account as account;
pub use tollhouse_app as app;
pub use tollhouse_backup as backup;
pub use tollhouse_base as base;
pub use tollhouse_call as call;
pub use tollhouse_capability as capability;
pub use tollhouse_catalog as catalog;
pub use tollhouse_config as config;
pub use tollhouse_event as event;
pub use tollhouse_front as front;
pub use tollhouse_http as http;
pub use tollhouse_mcp as mcp;
pub use tollhouse_money as money;
pub use tollhouse_objects as objects;
pub use tollhouse_operate as operate;
pub use tollhouse_replica as replica;
pub use tollhouse_store as store;
pub use tollhouse_telemetry as telemetry;
pub use tollhouse_tool as tool;
pub use tollhouse_web as web;
