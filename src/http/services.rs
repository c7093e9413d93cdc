//! The services of handlers. Each group of handlers gets only the services that it needs.

use std::{ops::Deref, sync::Arc, time::Duration};

use axum::extract::FromRef;
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

use super::{documents::Documents, record_extras::RecordExtras};

/// The services of the HTTP API, grouped by handlers.
pub struct Services {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// For calls.
    pub calling: Arc<CallServices>,
    /// For public information about the host and its catalog.
    pub offering: Arc<DiscoveryServices>,
    /// For quotes.
    pub desk: Arc<QuoteDesk>,
    /// For receipts and payments.
    pub proving: Arc<ReceiptServices>,
    /// The simulated ledger, if it is the facilitator.
    pub ledger: Option<Arc<Ledger>>,
    /// For builder accounts.
    pub accounts: Arc<AccountServices>,
    /// For changes of tools.
    pub publishing: Arc<CatalogServices>,
    /// For lists and live streams.
    pub watching: Arc<FeedServices>,
    /// For revenue, payouts, refunds and credits.
    pub earning: Arc<MoneyServices>,
    /// For the audit trail.
    pub auditing: Arc<AuditServices>,
    /// For secrets of tools.
    pub sealing: Arc<SecretServices>,
    /// For health and metrics.
    pub operating: Arc<HealthServices>,
}

/// Services for calls.
pub struct CallServices {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The tools that can be inspected.
    pub catalog: Arc<Catalog>,
    /// Performs calls.
    pub calls: Arc<Calls>,
    /// Receipts, which are returned with answers.
    pub receipts: Arc<Receipts>,
    /// Public data beyond records.
    pub about: Arc<RecordExtras>,
    /// Public URL, which handlers see.
    pub base_url: String,
    /// Wall-clock limit above which a call is long-running, in milliseconds.
    pub long_running_ms: u64,
    /// Interval of `progress` events of a streamed call.
    pub progress: Duration,
}

/// Services for public information about the host.
pub struct DiscoveryServices {
    /// The tools that can be called.
    pub catalog: Arc<Catalog>,
    /// Payments.
    pub payments: Arc<Payments>,
    /// Runs handlers.
    pub pool: Pool,
    /// Scans uploads.
    pub scanner: Arc<Scanner>,
    /// The contact for reports of abuse.
    pub abuse_contact: Option<String>,
    /// Signs offers and receipts.
    pub signer: Arc<ReceiptSigner>,
    /// The contact of the operator.
    pub contact: Option<String>,
    /// Public data beyond records.
    pub about: Arc<RecordExtras>,
    /// The cached documents.
    pub documents: Documents,
    /// The fee that the host keeps of a builder's sales.
    pub fee: FeeBps,
    /// Public URL, as in records.
    pub base_url: String,
}

/// Services for receipts and payments.
pub struct ReceiptServices {
    /// All receipts.
    pub receipts: Arc<Receipts>,
    /// The states of payments.
    pub payments: Arc<Payments>,
    /// The public keys of receipts.
    pub keys: Arc<PublishedKeys>,
    /// Refunds, which are returned with receipts.
    pub refunds: Arc<Refunds>,
}

/// Services for builder accounts.
pub struct AccountServices {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The builders.
    pub builders: Arc<Builders>,
    /// Sessions of the dashboard.
    pub sessions: Arc<Sessions>,
    /// Public URL.
    pub base_url: String,
    /// Performs registrations, which are paid like calls.
    pub calls: Arc<Calls>,
    /// The catalog, whose tools a suspension stops.
    pub catalog: Arc<Catalog>,
    /// Publishes events about builders.
    pub events: Arc<Events>,
    /// The price of a registration.
    pub registration: Arc<CallTerms>,
}

/// Services for changes of tools.
pub struct CatalogServices {
    /// The catalog to change.
    pub catalog: Arc<Catalog>,
    /// The builders who can own tools.
    pub builders: Arc<Builders>,
    /// Public data beyond records.
    pub about: Arc<RecordExtras>,
    /// Runs drafts.
    pub calls: Arc<Calls>,
    /// Holds back tools that are stopped repeatedly.
    pub pool: Pool,
    /// Shows whether secrets can be decrypted.
    pub secrets: Arc<Secrets>,
    /// Limits concurrent checks and dry runs of each owner.
    pub dry_runs: ConcurrencyLimit<String>,
    /// Public URL, as in records.
    pub base_url: String,
}

/// Services for lists and live streams.
pub struct FeedServices {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The clock that `since` counts back from.
    pub clock: Clock,
    /// Events about tools and money.
    pub events: Arc<Events>,
    /// Capability services, used for logs.
    pub capabilities: Arc<CapabilityServices>,
    /// The history of calls.
    pub history: Arc<History>,
    /// Aggregated metrics of calls.
    pub metrics: Arc<Metrics>,
}

/// Services for revenue, payouts, refunds and credits.
pub struct MoneyServices {
    /// The clock that `since` counts back from.
    pub clock: Clock,
    /// Sales.
    pub sales: Arc<Sales>,
    /// Payouts.
    pub payouts: Arc<Payouts>,
    /// Refunds.
    pub refunds: Arc<Refunds>,
    /// The builders, who can be suspended.
    pub builders: Arc<Builders>,
    /// Payments, which include developer credits.
    pub payments: Arc<Payments>,
    /// The store of the ledger.
    pub store: Arc<dyn Store>,
}

/// Services for the audit trail.
pub struct AuditServices {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The entries.
    pub audit: Arc<Audit>,
    /// The other hosts of the store, which must apply a change before its response.
    pub replica: Arc<Replica>,
    /// The clock that `since` counts back from.
    pub clock: Clock,
}

/// Services for secrets of tools.
pub struct SecretServices {
    /// The encrypted values.
    pub secrets: Arc<Secrets>,
    /// The builders, who can be suspended.
    pub builders: Arc<Builders>,
    /// The workers, which may have kept a value.
    pub pool: Pool,
    /// The other hosts of the store, which also have the master key.
    pub replica: Arc<Replica>,
}

/// Services for health and metrics.
pub struct HealthServices {
    /// The state shared by all front ends.
    pub shared: Arc<FrontServices>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The other hosts of the store.
    pub replica: Arc<Replica>,
    /// Payments and facilitators.
    pub payments: Arc<Payments>,
    /// Runs handlers.
    pub pool: Pool,
    /// Disk use of the data folder.
    pub disk: Arc<Disk>,
    /// Receipts of free calls, which are counted separately.
    pub receipts: Arc<FreeReceipts>,
    /// Gathers metrics.
    pub gather: Gather,
    /// Whether clients on this machine can read metrics without a token.
    pub metrics_here: bool,
    /// The token that grants access to metrics only, if there is one.
    pub metrics_token: Option<Token>,
}

/// The state of the routes. Each request clones it, which is cheap.
#[derive(Clone)]
pub(super) struct Http(Arc<Services>);

impl Http {
    pub(super) fn new(services: Services) -> Self {
        Self(Arc::new(services))
    }
}

impl Deref for Http {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.0
    }
}

macro_rules! groups {
    ($($field:ident: $group:ty,)*) => {
        $(impl FromRef<Http> for $group {
            fn from_ref(http: &Http) -> Self {
                http.0.$field.clone()
            }
        })*
    };
}

groups! {
    calling: Arc<CallServices>,
    offering: Arc<DiscoveryServices>,
    desk: Arc<QuoteDesk>,
    proving: Arc<ReceiptServices>,
    ledger: Option<Arc<Ledger>>,
    accounts: Arc<AccountServices>,
    publishing: Arc<CatalogServices>,
    watching: Arc<FeedServices>,
    earning: Arc<MoneyServices>,
    auditing: Arc<AuditServices>,
    sealing: Arc<SecretServices>,
    operating: Arc<HealthServices>,
}
