//! Tollhouse: a host for paid JavaScript tools.
//!
//! This package re-exports the crates of the host, and is the binary. `ARCHITECTURE.md` shows the crates, the paths
//! through them, and the invariants with the tests that keep them.

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
