//! The services of the MCP front end.

use std::sync::Arc;

use tollhouse_base::clock::Clock;
use tollhouse_call::{Calls, QuoteDesk, Receipts};
use tollhouse_catalog::Catalog;
use tollhouse_front::FrontServices;
use tollhouse_money::Payments;
use tollhouse_replica::Replica;
use tollhouse_store::Store;

use super::settings::McpOptions;

/// The services of the MCP front end.
pub struct Services {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The settings.
    pub settings: Arc<McpOptions>,
    /// The catalog, which is listed.
    pub catalog: Arc<Catalog>,
    /// Performs calls.
    pub calls: Arc<Calls>,
    /// The receipts for `get_receipt`.
    pub receipts: Arc<Receipts>,
    /// The quotes for `quote_tool`.
    pub desk: Arc<QuoteDesk>,
    /// Payments, which show how a task ended whose process is gone.
    pub payments: Arc<Payments>,
    /// The replicas, which run tasks.
    pub replica: Arc<Replica>,
    /// Stores tasks.
    pub store: Arc<dyn Store>,
    /// The clock of tasks.
    pub clock: Clock,
    /// Public URL, as in results.
    pub base_url: String,
    /// Wall-clock limit above which a tool is long-running, in milliseconds.
    pub long_running_ms: u64,
}
