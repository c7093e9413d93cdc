//! The catalogue: publish, find, change, review, retire.
//!
//! Readers see one immutable value behind an atomic pointer; a call takes what it needs from it once
//! and keeps that version to its end. Changes of a host go one at a time: checked, committed with the
//! events that tell of them, then shown. What other hosts have changed is shown beside that, and waits
//! for no commit: a host that cannot show it in time [takes no calls](tollhouse_replica).
//!
//! Invariants: what an admin took away comes back by an admin only ([`standing`] decides, `review`
//! records). Content of a builder's that the rules hold back answers no call ([`scan`] holds,
//! [`Endpoint::availability`] says so to every front).

#![warn(missing_docs)]

mod agrees;
mod bundle;
mod change;
mod check;
mod commit;
mod deletion;
mod draft;
mod entry;
mod error;
mod find;
mod fit;
mod follow;
mod gathered;
mod limits;
mod list;
mod live;
mod made;
mod narrow;
mod nearest;
mod open;
mod order;
mod orphans;
mod owned;
mod patch;
mod policy;
mod publish;
mod rescan;
mod retired;
mod review;
pub mod safety;
mod scan;
pub mod search;
pub mod shipped;
mod snapshot;
mod sorted;
mod source;
mod standing;
mod suspend;
mod tagged;
mod trial;
mod version;
mod warn;
mod words;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tollhouse_account::builder::{Builders, Judged};
use tollhouse_base::{
    clock::Clock,
    id::BuilderId,
    rate::{ConcurrencyLimit, Permit},
    ready::Ready,
};
use tollhouse_capability::{AllowedHosts, CapabilityServices, Granted};
use tollhouse_event::Events;
use tollhouse_fair::Fair;
use tollhouse_money::PaymentConfig;
use tollhouse_objects::Objects;
use tollhouse_pool::Pool;
use tollhouse_protocol::Tier;
use tollhouse_replica::Replica;
use tollhouse_store::{Durability, Store, Table, schema, update};
use tollhouse_tool::{Endpoint, Owner, Slug};

pub use self::{
    agrees::check_catalogue,
    bundle::SPECIFIER,
    check::Checked,
    draft::{Draft, HandlerDraft},
    entry::Entry,
    error::PublishError,
    find::Filled,
    fit::{Asker, Unfit},
    list::Page,
    live::{Fixed, Form, Live, MakeForm, Shown},
    order::{Order, Place},
    patch::Patch,
    policy::{Policy, PolicyDraft, PolicyInForce},
    rescan::Rescanned,
    retired::Deleted,
    review::{Verdict, WaitingPlace},
    snapshot::{Counts, Filter, Reading, Snapshot},
    source::object_of,
    standing::By,
    trial::Tried,
};
use crate::{safety::Scanner, source::Sources};

/// Uploads and changes of one builder that the sandbox looks at, at once.
const MAX_UPLOADS: usize = 2;

/// Uploads that are read at once: scanned, or their schemas counted.
const READINGS: usize = 4;

const POLICY: Table<(), PolicyInForce> = schema::POLICY.holding();
tollhouse_store::json_values!(PolicyInForce);

/// What a catalogue is made from.
pub struct CatalogParts {
    /// The time.
    pub clock: Clock,
    /// Evaluates schemas and loads handlers.
    pub pool: Pool,
    /// What grants are about.
    pub services: Arc<CapabilityServices>,
    /// Where changes are told.
    pub events: Arc<Events>,
    /// Reads uploads.
    pub scanner: Arc<Scanner>,
    /// Who owns endpoints, and what admins have decided about them.
    pub builders: Arc<Builders>,
    /// Public URL of the host.
    pub base_url: String,
    /// What payments the host takes.
    pub payment: PaymentConfig,
    /// Makes of an endpoint what the MCP front lists.
    pub make_form: MakeForm,
    /// How many endpoints there may be, and how much of them is kept in memory.
    pub room: CatalogRoom,
    /// Where long sources are.
    pub objects: Arc<Objects>,
    /// This process among those that have the store.
    pub replica: Arc<Replica>,
}

/// How many endpoints there may be, and how much of them is kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogRoom {
    /// No more are published.
    pub max_endpoints: usize,
    /// What sources, schemas, records and sealed secrets take in memory that are ready for calls and for lists, in bytes, about.
    pub ready_bytes: usize,
}

impl CatalogRoom {
    /// What of it is for what is called.
    fn called_bytes(self) -> usize {
        self.ready_bytes / 2
    }

    /// What of it is for what is listed.
    fn told_bytes(self) -> usize {
        self.ready_bytes / 8 * 3
    }

    /// What of it is for sealed secrets.
    #[must_use]
    pub fn secrets_bytes(self) -> usize {
        self.ready_bytes / 8
    }
}

impl Default for CatalogRoom {
    fn default() -> Self {
        Self { max_endpoints: 1_000_000, ready_bytes: 256 << 20 }
    }
}

/// All endpoints of a host.
pub struct Catalog {
    store: Arc<dyn Store>,
    sources: Sources,
    clock: Clock,
    pool: Pool,
    services: Arc<CapabilityServices>,
    events: Arc<Events>,
    scanner: Arc<Scanner>,
    base_url: String,
    payment: PaymentConfig,
    policy: ArcSwap<PolicyInForce>,
    builders: Arc<Builders>,
    judged: ArcSwap<HashMap<BuilderId, Judged>>,
    make_form: MakeForm,
    /// What is known of every endpoint.
    snapshot: ArcSwap<Snapshot>,
    max_endpoints: usize,
    /// What calls take, and what lists tell: of the endpoints that were asked for last.
    ready: Ready<Slug, Arc<Live>>,
    told: Ready<Slug, Arc<Shown>>,
    /// Counts changes of what endpoints are made with beside their records: of the policy, and of what admins have decided about owners.
    remade: AtomicU64,
    /// Builders' endpoints that the last scan by the rules in force has left: their sources could not be read.
    unscanned: Mutex<Option<Vec<Slug>>>,
    /// One change of this host at a time. Taken by no call, and by nothing that hears what other hosts change: it is held over commits, which
    /// may take as long as the store does. Never held while a worker works, an upload or a source is read, or what a deleted endpoint kept
    /// is removed.
    changing: tokio::sync::Mutex<()>,
    /// Whoever shows something reads it, and shows it, before the next one reads: so nothing older takes the place of anything newer. Held over
    /// short reads of the store, and over no commit. Taken after `changing`, where both are.
    showing: tokio::sync::Mutex<()>,
    /// Turns at reading uploads, one owner's at half of them at most.
    readings: Arc<Fair<Owner>>,
    /// Uploads of each owner that the sandbox looks at.
    uploads: ConcurrencyLimit<String>,
    changes: watch::Sender<u64>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("endpoints", &self.snapshot.load().len()).finish_non_exhaustive()
    }
}

impl Catalog {
    /// All endpoints as they are now; also those that are not [`Endpoint::listed`].
    #[must_use]
    pub fn all(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Counts the changes of what [`Catalog::all`] answers, for those who wait for one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<PolicyInForce> {
        self.policy.load_full()
    }

    /// Puts a policy in force. Lower ceilings and a stricter tier narrow endpoints at once, for calls that start from now on.
    ///
    /// # Errors
    ///
    /// A field that cannot be; [`PublishError::Changed`] when `if_match` is another revision.
    pub async fn set_policy(&self, draft: PolicyDraft, if_match: Option<u64>) -> Result<Arc<PolicyInForce>, PublishError> {
        let policy = &draft.check()?;
        let _one = self.changing.lock().await;
        let setting = update(&*self.store, Durability::Durable, |mut tx| async move {
            let stored = tx.row(&POLICY, &()).await?;
            let revision = stored.as_ref().map_or(0, |row| row.value.revision);
            if if_match.is_some_and(|seen| seen != revision) {
                return Err(PublishError::Changed(revision));
            }
            let new = PolicyInForce { revision: revision + 1, policy: policy.clone() };
            match &stored {
                Some(row) => tx.replace(&POLICY, row, &new),
                None => tx.insert(&POLICY, &(), &new),
            };
            tx.answer(Arc::new(new))
        });
        let set = setting.await;
        // Also after an error: the store may have taken it all the same.
        self.follow_policy().await?;
        set
    }

    /// Gives those that are ready the limits and the tier of the policy in force. All others have them when they are made.
    pub(crate) fn narrow_ready(&self) {
        self.remade.fetch_add(1, Ordering::SeqCst);
        self.told.clear();
        for live in self.ready.all() {
            if let Some(narrowed) = self.narrowed(&live) {
                self.make_known(&narrowed);
                self.leave_tier(&live.endpoint, &narrowed.endpoint);
            }
        }
        self.changed();
    }

    /// An endpoint with the limits and the tier of the policy in force, if it has others.
    fn narrowed(&self, live: &Arc<Live>) -> Option<Arc<Live>> {
        let differs = self.limits_of(&live.endpoint) != live.endpoint.limits || self.tier_of(&live.endpoint) != live.endpoint.tier;
        differs.then(|| Arc::new(self.made_again(live)))
    }

    /// Ends the workers of an endpoint that run code in another tier than its calls do `now`.
    fn leave_tier(&self, before: &Endpoint, now: &Endpoint) {
        if before.tier != now.tier {
            self.pool.retire(now.id.as_str(), &before.version);
        }
    }

    /// Gives an endpoint the limits and the tier that are in force for it now.
    fn put_in_force(&self, endpoint: &mut Endpoint) {
        endpoint.limits = self.limits_of(endpoint);
        endpoint.tier = self.tier_of(endpoint);
    }

    fn limits_of(&self, endpoint: &Endpoint) -> tollhouse_protocol::Limits {
        let policy = self.policy.load();
        limits::limits_in_force(&endpoint.own_limits, &endpoint.owner, &policy.policy.limits, &endpoint.limit_caps)
    }

    fn tier_of(&self, endpoint: &Endpoint) -> Tier {
        self.tier_under(self.policy.load().policy.tier, &endpoint.owner, endpoint.tier_cap)
    }

    /// The tier that is in force under a policy's, and an admin's for the endpoint.
    fn tier_under(&self, policy: Tier, owner: &Owner, cap: Tier) -> Tier {
        let policy = match owner {
            Owner::Platform => Tier::default(),
            Owner::Builder(_) => policy,
        };
        self.pool.tier().max(policy).max(self.judged(owner).tier).max(cap)
    }

    /// What an admin has decided about an owner.
    fn judged(&self, owner: &Owner) -> Judged {
        match owner {
            Owner::Platform => Judged::default(),
            Owner::Builder(id) => self.judged.load().get(id).copied().unwrap_or_default(),
        }
    }

    /// A permit of `owner` for what an upload may cost the sandbox. Only builders' are counted.
    fn permit(&self, owner: &Owner, by: By) -> Result<Option<Permit<String>>, PublishError> {
        if by != By::Builder {
            return Ok(None);
        }
        let permit = self.uploads.take(owner.share().to_owned());
        permit.map(Some).ok_or_else(|| PublishError::Crowded(self.uploads.most()))
    }

    fn show(&self, change: impl FnOnce(&mut Snapshot)) {
        self.rearrange(change);
        self.changed();
    }

    /// Changes what is known, and nothing that is shown.
    fn rearrange(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        change(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Keeps nothing of an endpoint that is there no more.
    fn forget(&self, slug: &str) {
        self.told.remove(slug);
        self.ready.remove(slug);
    }

    /// Has calls from now on take an endpoint as it was made.
    fn make_known(&self, live: &Arc<Live>) {
        let slug = &live.endpoint.slug;
        self.told.remove(slug.as_str());
        self.let_rest(&self.ready.put(slug, Arc::clone(live)));
        // A list that was made between the two has it as it was.
        self.changed();
    }

    /// Whether an endpoint can be paid as its owner wants it: in what the host takes.
    fn payable(&self, accepts: &[String]) -> Result<(), PublishError> {
        let named = |place: usize| accepts[..place].contains(&accepts[place]);
        let unknown = (0..accepts.len()).find(|place| !self.payment.takes(&accepts[*place]) || named(*place));
        let Some(place) = unknown else { return Ok(()) };
        let taken: Vec<_> = self.payment.assets().map(|asset| format!("`{}/{}`", asset.network.caip2, asset.symbol)).collect();
        let message = format!("this host takes {}: name a network, or a network and a token, of these, each once", taken.join(", "));
        Err(PublishError::field(format!("/accepts/{place}"), message))
    }
}

/// What calls may touch. Nothing while an admin holds the endpoint back: calls that still run lose all.
fn granted(endpoint: &Endpoint) -> Result<Granted, PublishError> {
    if endpoint.held_back() {
        return Ok(Granted::default());
    }
    reach(endpoint)
}

/// What an endpoint was granted.
fn reach(endpoint: &Endpoint) -> Result<Granted, PublishError> {
    let hosts = AllowedHosts::parse(&endpoint.allowed_hosts).map_err(|error| PublishError::field("/allowedHosts", error.to_string()))?;
    Ok(Granted { capabilities: endpoint.capabilities, hosts })
}

#[cfg(test)]
mod tests;
