//! The services of all rooms, as they are put together once.

use std::{sync::Arc, time::Duration};

use tollhouse_account::{audit::Audit, builder::Builders, session::Sessions, token::Token};
use tollhouse_base::clock::Clock;
use tollhouse_call::{Calls, History, Metrics, QuoteDesk, Receipts, WriteBehind};
use tollhouse_capability::{CapabilityServices, secret::Secrets};
use tollhouse_catalog::{Catalog, safety::Scanner};
use tollhouse_event::Events;
use tollhouse_front::Limits;
use tollhouse_mcp::Mcp;
use tollhouse_money::{
    Gate, Ledger, Terms,
    payout::Payouts,
    receipt::{FreeReceipts, PublishedKeys, Signer},
    refund::Refunds,
    sale::{FeeBps, Sales},
};
use tollhouse_objects::Objects;
use tollhouse_operate::disk::Disk;
use tollhouse_pool::Pool;
use tollhouse_replica::Replica;
use tollhouse_store::Store;

/// What fronts are made of.
pub(super) struct Rooms {
    /// Public URL, as it stands in records and payments.
    pub(super) base_url: String,
    /// The time, for all of it.
    pub(super) clock: Clock,
    /// What admins and builders changed.
    pub(super) audit: Arc<Audit>,
    /// Who owns endpoints.
    pub(super) builders: Arc<Builders>,
    /// Who is signed in to the dashboard.
    pub(super) sessions: Arc<Sessions>,
    /// What it costs to become a builder.
    pub(super) registration: Arc<Terms>,
    /// What happened, live and kept.
    pub(super) events: Arc<Events>,
    /// Sealed values of endpoints.
    pub(super) secrets: Arc<Secrets>,
    /// What can be called.
    pub(super) catalog: Arc<Catalog>,
    /// Reads what builders upload.
    pub(super) scanner: Arc<Scanner>,
    /// Where to report abuse.
    pub(super) abuse_contact: Option<String>,
    /// How to reach who runs the host.
    pub(super) contact: Option<String>,
    /// The pipeline.
    pub(super) calls: Arc<Calls>,
    /// Where quotes are asked for.
    pub(super) desk: Arc<QuoteDesk>,
    /// What the host keeps of each sale.
    pub(super) fee: FeeBps,
    /// Writes what calls leave.
    pub(super) write_behind: Arc<WriteBehind>,
    /// Receipts of free calls.
    pub(super) free_receipts: Arc<FreeReceipts>,
    /// All receipts.
    pub(super) receipts: Arc<Receipts>,
    /// Records of calls.
    pub(super) history: Arc<History>,
    /// What calls add up to.
    pub(super) metrics: Arc<Metrics>,
    /// What calls brought in.
    pub(super) sales: Arc<Sales>,
    /// What builders are paid.
    pub(super) payouts: Arc<Payouts>,
    pub(super) refunds: Arc<Refunds>,
    /// Where payments are admitted and settled.
    pub(super) gate: Arc<Gate>,
    /// The simulated ledger, where that settles.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// Worker processes.
    pub(super) pool: Pool,
    /// What handlers may reach.
    pub(super) capabilities: Arc<CapabilityServices>,
    /// Signs receipts and packets.
    pub(super) signer: Arc<Signer>,
    /// What is signed is checked with them.
    pub(super) receipt_keys: Arc<PublishedKeys>,
    /// Of the data folder.
    pub(super) disk: Arc<Disk>,
    /// Whether `/metrics` is for who asks from this machine, too.
    pub(super) metrics_here: bool,
    pub(super) metrics_token: Option<Token>,
    /// Everything that lasts.
    pub(super) store: Arc<dyn Store>,
    /// What is too large for it.
    pub(super) objects: Arc<Objects>,
    /// This process among those that have the store.
    pub(super) replica: Arc<Replica>,
    /// An endpoint with a wall limit above this is long-running.
    pub(super) long_running_ms: u64,
    /// Checks and dry runs of one owner at once.
    pub(super) dry_runs: usize,
    /// Between `progress` events of a streamed call.
    pub(super) progress: Duration,
    /// The MCP front's settings, as they work out here.
    pub(super) mcp: Arc<Mcp>,
}

impl Rooms {
    /// Has what is counted of callers count at every host of the store.
    pub(super) fn exchange(&self, limits: &Limits) {
        let tallies = limits.tallies().into_iter().chain(self.mcp.tallies()).chain(self.gate.tallies());
        self.replica.exchange(self.clock.clone(), tallies.collect());
    }
}
