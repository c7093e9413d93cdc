//! The services of the host, created once.

use std::{sync::Arc, time::Duration};

use tollhouse_account::{audit::Audit, builder::Builders, session::Sessions, token::Token};
use tollhouse_base::clock::Clock;
use tollhouse_call::{Calls, History, Metrics, QuoteDesk, Receipts, WriteBehind};
use tollhouse_capability::{CapabilityServices, secret::Secrets};
use tollhouse_catalog::{Catalog, safety::Scanner};
use tollhouse_event::Events;
use tollhouse_front::Limits;
use tollhouse_mcp::McpOptions;
use tollhouse_money::{
    CallTerms, Ledger, Payments,
    payout::Payouts,
    receipt::{FreeReceipts, PublishedKeys, ReceiptSigner},
    refund::Refunds,
    sale::{FeeBps, Sales},
};
use tollhouse_objects::Objects;
use tollhouse_operate::disk::Disk;
use tollhouse_pool::Pool;
use tollhouse_replica::Replica;
use tollhouse_store::Store;

/// The services that front ends use.
pub(super) struct Services {
    /// Public URL, as in records and payments.
    pub(super) base_url: String,
    /// The clock that all services use.
    pub(super) clock: Clock,
    /// Audit log of admins' and builders' changes.
    pub(super) audit: Arc<Audit>,
    /// Builders, who own endpoints.
    pub(super) builders: Arc<Builders>,
    /// Dashboard sessions.
    pub(super) sessions: Arc<Sessions>,
    /// Terms of registering as a builder.
    pub(super) registration: Arc<CallTerms>,
    /// Events, live and stored.
    pub(super) events: Arc<Events>,
    /// Encrypted secrets of endpoints.
    pub(super) secrets: Arc<Secrets>,
    /// The catalog of endpoints.
    pub(super) catalog: Arc<Catalog>,
    /// Scanner of uploads.
    pub(super) scanner: Arc<Scanner>,
    /// Contact for abuse reports.
    pub(super) abuse_contact: Option<String>,
    /// Contact of the host's operator.
    pub(super) contact: Option<String>,
    /// The call pipeline.
    pub(super) calls: Arc<Calls>,
    /// Issues quotes.
    pub(super) desk: Arc<QuoteDesk>,
    /// The host's fee for each sale.
    pub(super) fee: FeeBps,
    /// Writes records of calls in the background.
    pub(super) write_behind: Arc<WriteBehind>,
    /// Receipts of free calls.
    pub(super) free_receipts: Arc<FreeReceipts>,
    /// All receipts.
    pub(super) receipts: Arc<Receipts>,
    /// Records of calls.
    pub(super) history: Arc<History>,
    /// Aggregated metrics of calls.
    pub(super) metrics: Arc<Metrics>,
    /// Revenue of calls.
    pub(super) sales: Arc<Sales>,
    /// Payouts to builders.
    pub(super) payouts: Arc<Payouts>,
    pub(super) refunds: Arc<Refunds>,
    /// Accepts and settles payments.
    pub(super) payments: Arc<Payments>,
    /// The simulated ledger, if that is used for settlement.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// Worker processes.
    pub(super) pool: Pool,
    /// Services behind the capabilities of handlers.
    pub(super) capabilities: Arc<CapabilityServices>,
    /// Signs receipts and payouts.
    pub(super) signer: Arc<ReceiptSigner>,
    /// Public keys for verifying signatures.
    pub(super) receipt_keys: Arc<PublishedKeys>,
    /// Free space of the data folder.
    pub(super) disk: Arc<Disk>,
    /// Whether local clients can read `/metrics` without a token.
    pub(super) metrics_here: bool,
    pub(super) metrics_token: Option<Token>,
    /// The store.
    pub(super) store: Arc<dyn Store>,
    /// Objects that are too large for the store.
    pub(super) objects: Arc<Objects>,
    /// This process among the hosts of the store.
    pub(super) replica: Arc<Replica>,
    /// An endpoint with a higher wall limit counts as long-running.
    pub(super) long_running_ms: u64,
    /// Maximum concurrent checks and dry runs of one owner.
    pub(super) dry_runs: usize,
    /// Interval of `progress` events of a streamed call.
    pub(super) progress: Duration,
    /// Effective settings of the MCP front end.
    pub(super) mcp: Arc<McpOptions>,
}

impl Services {
    /// Shares counters about callers with the other hosts of the store.
    pub(super) fn exchange(&self, limits: &Limits) {
        let tallies = limits.tallies().into_iter().chain(self.mcp.tallies()).chain(self.payments.tallies());
        self.replica.exchange(self.clock.clone(), tallies.collect());
    }
}
