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
    pub shared: Arc<FrontServices>,
    pub settings: Arc<McpOptions>,
    pub catalog: Arc<Catalog>,
    pub calls: Arc<Calls>,
    pub receipts: Arc<Receipts>,
    pub desk: Arc<QuoteDesk>,
    /// Payments, which show how a task ended whose process is gone.
    pub payments: Arc<Payments>,
    pub replica: Arc<Replica>,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    /// Public URL, as in results.
    pub base_url: String,
    /// Wall-clock limit above which a tool is long-running, in milliseconds.
    pub long_running_ms: u64,
}
