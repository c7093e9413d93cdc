//! Tollhouse: a host for paid JavaScript tools.
//!
//! The life of a call, module by module:
//!
//! ```text
//! front: listener, limits, who asks, what is offered
//!   │
//! http ─┬▶ call: find ─▶ admit ─▶ check ─▶ run ─▶ check ─▶ settle ─▶ receipt ─▶ http, mcp ─▶ front: faults
//! mcp ──┘        │         │        │       │                │
//!            catalog     money    tool   call/run      money, money/receipt
//!               │         │                │ ├─ builtin
//!               └─ store ─┴─ facilitator   │ └─ sandbox/pool ══ tollhouse-worker
//!                                          capability: what `ctx` asks for, each behind its grant
//! ```
//!
//! `http` and `mcp` do not know each other, nor [`app`], which gives each the few services that it takes: what they share is
//! in [`front`]. [`web`] makes pages of what `http` answers, which it asks like everybody else, inside the process. Beside the call: [`account`] (who someone is), [`event`] (what builders are told), [`operate`] (what an operator
//! looks at), [`replica`] (who else serves the store), [`objects`] (what is too large for it), [`backup`] (copies of it, and where it moves), [`config`] (the settings), [`telemetry`] (what is counted and traced).
//!
//! Invariants, and who keeps them:
//! - One payment authorisation buys at most one run and one answer: [`money`].
//! - Nothing is charged before the result has passed its schema: [`call`].
//! - Uploaded code never runs in this process: [`call::run`]; what it asks for is decided here, by its
//!   endpoint's grant: [`capability`].
//! - A receipt is stored in the commit that ends its payment: [`money::gate`](money), [`money::receipt`].
//! - Whatever is refused is a row of one table, and carries what is asked for where it is to be paid: [`front`].
//! - The host evaluates no schema, and reads no long text on a thread of its runtime: [`tool`], [`base`].
//! - What is handed out of what the host measures has names of closed lists, and nothing that a caller sent: [`telemetry`].
//! - A secret is in clear only while a call of its endpoint runs: [`capability::secret`].

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
