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

use super::object_check::ObjectCheck;

/// The services that front ends use.
pub(super) struct Services {
    /// Public URL, as in records and payments.
    pub(super) base_url: String,
    pub(super) clock: Clock,
    pub(super) audit: Arc<Audit>,
    pub(super) builders: Arc<Builders>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) registration: Arc<CallTerms>,
    pub(super) events: Arc<Events>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) scanner: Arc<Scanner>,
    /// Contact for abuse reports.
    pub(super) abuse_contact: Option<String>,
    /// Contact of the host's operator.
    pub(super) contact: Option<String>,
    pub(super) calls: Arc<Calls>,
    pub(super) desk: Arc<QuoteDesk>,
    /// The host's fee for each sale.
    pub(super) fee: FeeBps,
    pub(super) write_behind: Arc<WriteBehind>,
    pub(super) free_receipts: Arc<FreeReceipts>,
    pub(super) receipts: Arc<Receipts>,
    pub(super) history: Arc<History>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) sales: Arc<Sales>,
    pub(super) payouts: Arc<Payouts>,
    pub(super) refunds: Arc<Refunds>,
    pub(super) payments: Arc<Payments>,
    /// The simulated ledger, if that is used for settlement.
    pub(super) ledger: Option<Arc<Ledger>>,
    pub(super) pool: Pool,
    pub(super) capabilities: Arc<CapabilityServices>,
    pub(super) signer: Arc<ReceiptSigner>,
    pub(super) receipt_keys: Arc<PublishedKeys>,
    /// Free space of the data folder.
    pub(super) disk: Arc<Disk>,
    /// Whether local clients can read `/metrics` without a token.
    pub(super) metrics_here: bool,
    pub(super) metrics_token: Option<Token>,
    pub(super) store: Arc<dyn Store>,
    pub(super) objects: Arc<Objects>,
    /// Whether objects that rows name can be read here.
    pub(super) object_check: Arc<ObjectCheck>,
    pub(super) replica: Arc<Replica>,
    /// An endpoint with a higher wall limit counts as long-running.
    pub(super) long_running_ms: u64,
    /// Maximum concurrent checks and dry runs of one owner.
    pub(super) dry_runs: usize,
    /// Interval of `progress` events of a streamed call.
    pub(super) progress: Duration,
    pub(super) mcp: Arc<McpOptions>,
}

impl Services {
    /// Shares counters about callers with the other hosts of the store.
    pub(super) fn exchange(&self, limits: &Limits) {
        let tallies = limits.tallies().into_iter().chain(self.mcp.tallies()).chain(self.payments.tallies());
        self.replica.exchange(self.clock.clone(), tallies.collect());
    }
}
