//! What the handlers take: each group the few services that it needs, and no other.

use std::{ops::Deref, sync::Arc, time::Duration};

use axum::extract::FromRef;
use tollhouse_account::{audit::Audit, builder::Builders, session::Sessions, token::Token};
use tollhouse_base::{clock::Clock, rate::ConcurrencyLimit};
use tollhouse_call::{Calls, History, Metrics, QuoteDesk, Receipts};
use tollhouse_capability::{CapabilityServices, secret::Secrets};
use tollhouse_catalog::{Catalog, safety::Scanner};
use tollhouse_event::Events;
use tollhouse_front::Shared;
use tollhouse_money::{
    Gate, Ledger, Terms,
    payout::Payouts,
    receipt::{FreeReceipts, PublishedKeys, Signer},
    refund::Refunds,
    sale::{FeeBps, Sales},
};
use tollhouse_operate::disk::Disk;
use tollhouse_pool::Pool;
use tollhouse_replica::Replica;
use tollhouse_store::Store;
use tollhouse_telemetry::Gather;

use super::{about::About, documents::Documents};

/// The services of the front, by the handlers that take them.
pub struct Services {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// Of calls.
    pub calling: Arc<Calling>,
    /// Of what is told of the host and its catalogue.
    pub offering: Arc<Offering>,
    /// Of quotes.
    pub desk: Arc<QuoteDesk>,
    /// Of receipts and payments.
    pub proving: Arc<Proving>,
    /// The simulated ledger, where that settles.
    pub ledger: Option<Arc<Ledger>>,
    /// Of who is a builder.
    pub accounts: Arc<Accounts>,
    /// Of changes of endpoints.
    pub publishing: Arc<Publishing>,
    /// Of what is followed live.
    pub watching: Arc<Watching>,
    /// Of what was earned, and is to be spent.
    pub earning: Arc<Earning>,
    /// Of the audit trail.
    pub auditing: Arc<Auditing>,
    /// Of endpoints' secrets.
    pub sealing: Arc<Sealing>,
    /// Of the host's health.
    pub operating: Arc<Operating>,
}

/// What calls take.
pub struct Calling {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// What can be inspected.
    pub catalog: Arc<Catalog>,
    /// Performs calls.
    pub calls: Arc<Calls>,
    /// Told beside the answers.
    pub receipts: Arc<Receipts>,
    /// Told beside records.
    pub about: Arc<About>,
    /// Public URL, as handlers are told of it.
    pub base_url: String,
    /// Wall limit above which a call is long-running, in milliseconds.
    pub long_running_ms: u64,
    /// Between `progress` events of a streamed call.
    pub progress: Duration,
}

/// What the host tells of itself.
pub struct Offering {
    /// What can be called.
    pub catalog: Arc<Catalog>,
    /// What is paid with.
    pub gate: Arc<Gate>,
    /// What runs handlers.
    pub pool: Pool,
    /// Reads what builders upload.
    pub scanner: Arc<Scanner>,
    /// Where to report abuse.
    pub abuse_contact: Option<String>,
    /// Whose offers and receipts they are.
    pub signer: Arc<Signer>,
    /// How to reach who runs the host.
    pub contact: Option<String>,
    /// Told beside records.
    pub about: Arc<About>,
    /// What programs read, as it was made last.
    pub documents: Documents,
    /// What the host keeps of each sale of a builder's.
    pub fee: FeeBps,
    /// Public URL, as it stands in records.
    pub base_url: String,
}

/// What became of calls and payments.
pub struct Proving {
    /// All receipts.
    pub receipts: Arc<Receipts>,
    /// Knows the states of payments.
    pub gate: Arc<Gate>,
    /// What receipts are checked with.
    pub keys: Arc<PublishedKeys>,
    /// Told beside the receipts.
    pub refunds: Arc<Refunds>,
}

/// What builders' accounts take.
pub struct Accounts {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// Who owns endpoints.
    pub builders: Arc<Builders>,
    /// Who signs in to the dashboard.
    pub sessions: Arc<Sessions>,
    /// Public URL.
    pub base_url: String,
    /// Registers builders, who pay for it like for a call.
    pub calls: Arc<Calls>,
    /// Whose endpoints a suspension stops.
    pub catalog: Arc<Catalog>,
    /// Tells builders of changes of theirs.
    pub events: Arc<Events>,
    /// What it costs to become a builder.
    pub registration: Arc<Terms>,
}

/// What changes of endpoints take.
pub struct Publishing {
    /// What is changed.
    pub catalog: Arc<Catalog>,
    /// Whose it may be.
    pub builders: Arc<Builders>,
    /// Told beside records.
    pub about: Arc<About>,
    /// Tries drafts.
    pub calls: Arc<Calls>,
    /// Holds what is stopped again and again.
    pub pool: Pool,
    /// May be sealed under a key that is lost.
    pub secrets: Arc<Secrets>,
    /// Checks and dry runs of each owner.
    pub dry_runs: ConcurrencyLimit<String>,
    /// Public URL, as it stands in records.
    pub base_url: String,
}

/// What is listed in pages, or followed live.
pub struct Watching {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// The time that `since` counts back from.
    pub clock: Clock,
    /// What happened to endpoints and money.
    pub events: Arc<Events>,
    /// What handlers may reach: here for their logs.
    pub capabilities: Arc<CapabilityServices>,
    /// How calls ended.
    pub history: Arc<History>,
    /// How calls went, in sums.
    pub metrics: Arc<Metrics>,
}

/// What money takes that nobody spends on a call.
pub struct Earning {
    /// The time that `since` counts back from.
    pub clock: Clock,
    /// What was earned.
    pub sales: Arc<Sales>,
    /// What of it is paid out.
    pub payouts: Arc<Payouts>,
    /// What of it is given back.
    pub refunds: Arc<Refunds>,
    /// Who may be suspended.
    pub builders: Arc<Builders>,
    /// Keeps the credits.
    pub gate: Arc<Gate>,
    /// Has the ledger.
    pub store: Arc<dyn Store>,
}

/// What the audit trail takes.
pub struct Auditing {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// What admins and builders changed.
    pub audit: Arc<Audit>,
    /// Who hears of it.
    pub replica: Arc<Replica>,
    /// The time that `since` counts back from.
    pub clock: Clock,
}

/// What endpoints' secrets take.
pub struct Sealing {
    /// Sealed values of endpoints.
    pub secrets: Arc<Secrets>,
    /// Who may be suspended.
    pub builders: Arc<Builders>,
    /// Whose workers may have kept a value.
    pub pool: Pool,
    /// Who else has the master key.
    pub replica: Arc<Replica>,
}

/// What the host's health is made of.
pub struct Operating {
    /// What every front takes.
    pub shared: Arc<Shared>,
    /// Of whom there is so much to keep.
    pub store: Arc<dyn Store>,
    /// Who else has it.
    pub replica: Arc<Replica>,
    /// Who settles.
    pub gate: Arc<Gate>,
    /// What runs handlers.
    pub pool: Pool,
    /// Of the data folder.
    pub disk: Arc<Disk>,
    /// Of which there may be many.
    pub receipts: Arc<FreeReceipts>,
    /// What is measured.
    pub gather: Gather,
    /// Whether that is for who asks from this machine, too.
    pub metrics_here: bool,
    /// What opens that and nothing else, if anything does.
    pub metrics_token: Option<Token>,
}

/// The state of the routes: cheap to clone, as each request does.
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
    calling: Arc<Calling>,
    offering: Arc<Offering>,
    desk: Arc<QuoteDesk>,
    proving: Arc<Proving>,
    ledger: Option<Arc<Ledger>>,
    accounts: Arc<Accounts>,
    publishing: Arc<Publishing>,
    watching: Arc<Watching>,
    earning: Arc<Earning>,
    auditing: Arc<Auditing>,
    sealing: Arc<Sealing>,
    operating: Arc<Operating>,
}
