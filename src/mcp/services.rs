//! What the front takes of the host.

use std::sync::Arc;

use tollhouse_base::clock::Clock;
use tollhouse_call::{Calls, QuoteDesk, Receipts};
use tollhouse_catalog::Catalog;
use tollhouse_front::Shared;
use tollhouse_money::Gate;
use tollhouse_replica::Replica;
use tollhouse_store::Store;

use super::settings::Mcp;

/// The services of the front.
pub struct Services {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// The front's own settings.
    pub settings: Arc<Mcp>,
    /// What is listed.
    pub catalog: Arc<Catalog>,
    /// Performs calls.
    pub calls: Arc<Calls>,
    /// What `get_receipt` finds.
    pub receipts: Arc<Receipts>,
    /// What `quote_tool` asks.
    pub desk: Arc<QuoteDesk>,
    /// Knows how the payment of a task ended whose process is gone.
    pub gate: Arc<Gate>,
    /// Who runs which task.
    pub replica: Arc<Replica>,
    /// Where tasks are kept.
    pub store: Arc<dyn Store>,
    /// The time of tasks.
    pub clock: Clock,
    /// Public URL, as it stands in results.
    pub base_url: String,
    /// An endpoint with a wall limit above this is long-running.
    pub long_running_ms: u64,
}
