//! The services of the HTTP API.

use std::{sync::Arc, time::Duration};

use tollhouse_account::{audit::Audit, builder::Builders, session::Sessions, token::Token};
use tollhouse_base::{clock::Clock, rate_limit::ConcurrencyLimit};
use tollhouse_call::{Calls, History, Metrics, QuoteDesk, Receipts};
use tollhouse_capability::{CapabilityServices, secret::Secrets};
use tollhouse_catalog::{Catalog, safety::Scanner};
use tollhouse_event::Events;
use tollhouse_front::FrontServices;
use tollhouse_money::{
    CallTerms, Ledger, Payments,
    payout::Payouts,
    receipt::{FreeReceipts, PublishedKeys, ReceiptSigner},
    refund::Refunds,
    sale::{FeeBps, Sales},
};
use tollhouse_operate::disk::Disk;
use tollhouse_pool::Pool;
use tollhouse_replica::Replica;
use tollhouse_store::Store;
use tollhouse_telemetry::Gather;

use super::documents::Documents;

/// The state of the routes, which each request shares.
pub(super) type Http = Arc<Services>;

/// The services of the HTTP API.
pub struct Services {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The clock that `since` counts back from.
    pub clock: Clock,
    /// The store, of the ledger too.
    pub store: Arc<dyn Store>,
    /// The other hosts of the store, which must apply a change before its response.
    pub replica: Arc<Replica>,
    /// Public URL, as in records and for handlers.
    pub base_url: String,
    /// The contact of the operator.
    pub contact: Option<String>,
    /// The contact for reports of abuse.
    pub abuse_contact: Option<String>,
    /// The cached documents.
    pub documents: Documents,
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// Scans uploads.
    pub scanner: Arc<Scanner>,
    /// Performs calls, dry runs and registrations.
    pub calls: Arc<Calls>,
    /// The history of calls.
    pub history: Arc<History>,
    /// Aggregated metrics of calls.
    pub metrics: Arc<Metrics>,
    /// Wall-clock limit above which a call is long-running, in milliseconds.
    pub long_running_ms: u64,
    /// Interval of `progress` events of a streamed call.
    pub progress: Duration,
    /// Limits concurrent checks and dry runs of each owner.
    pub dry_runs: ConcurrencyLimit<String>,
    /// Runs handlers, and holds back tools that are stopped repeatedly.
    pub pool: Pool,
    /// Capability services, used for logs.
    pub capabilities: Arc<CapabilityServices>,
    /// Secrets of tools, encrypted.
    pub secrets: Arc<Secrets>,
    /// Builder accounts and their keys.
    pub builders: Arc<Builders>,
    /// The price of a registration.
    pub registration: Arc<CallTerms>,
    /// Sessions of the dashboard.
    pub sessions: Arc<Sessions>,
    /// Events about builders, their tools and their money.
    pub events: Arc<Events>,
    /// The audit trail.
    pub audit: Arc<Audit>,
    /// Quotes.
    pub desk: Arc<QuoteDesk>,
    /// Payments, which include developer credits and facilitators.
    pub payments: Arc<Payments>,
    /// The simulated ledger, if it is the facilitator.
    pub ledger: Option<Arc<Ledger>>,
    /// The fee that the host keeps of a builder's sales.
    pub fee: FeeBps,
    /// Sums of sales, by day and tool.
    pub sales: Arc<Sales>,
    /// Payouts to builders.
    pub payouts: Arc<Payouts>,
    /// Refunds of receipts.
    pub refunds: Arc<Refunds>,
    /// All receipts.
    pub receipts: Arc<Receipts>,
    /// Receipts of free calls, which are counted separately.
    pub free_receipts: Arc<FreeReceipts>,
    /// Signs offers and receipts.
    pub signer: Arc<ReceiptSigner>,
    /// The public keys of receipts.
    pub receipt_keys: Arc<PublishedKeys>,
    /// Disk use of the data folder.
    pub disk: Arc<Disk>,
    /// Returns a warning if objects that rows name cannot be found on this host.
    pub objects_warning: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Gathers metrics of the host.
    pub gather: Gather,
    /// Whether clients on this machine can read those metrics without a token.
    pub metrics_here: bool,
    /// The token that grants access to those metrics only, if there is one.
    pub metrics_token: Option<Token>,
}
