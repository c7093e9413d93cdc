//! What the front takes of the host.

use std::sync::Arc;

use super::settings::Mcp;
use crate::{
    base::clock::Clock,
    call::{Calls, QuoteDesk, Receipts},
    catalog::Catalog,
    front::Shared,
    money::Gate,
    replica::Replica,
    store::Store,
};

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
