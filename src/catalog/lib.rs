//! The catalog: publish, find, change, review, retire.
//!
//! Readers see one immutable value behind an atomic pointer. A call takes what it needs from it
//! once, and keeps that version to its end. Changes of a host are serialized: validated, committed
//! with their events, then made visible. Changes of other hosts become visible independently, and
//! wait for no commit: a host that cannot show them in time [accepts no calls](tollhouse_replica).
//!
//! Invariants: only an admin can restore what an admin revoked ([`entitlements`] decides, `review`
//! records). Builders' content that the rules hold back answers no call ([`scan`] holds,
//! [`Endpoint::availability`] reports it to every front end).

mod bundle;
mod change;
mod check;
mod commit;
mod consistency;
mod deletion;
mod draft;
mod entitlements;
mod entry;
mod error;
mod examine;
mod find;
mod follow;
mod limits;
mod live;
mod live_builder;
mod narrow;
mod nearest;
mod object_sample;
mod open;
mod order;
mod owned;
mod patch;
mod policy;
mod publish;
mod rescan;
mod retired;
mod review;
pub mod safety;
mod scan;
mod schedule_check;
mod schedules;
mod schema_validation;
pub mod search;
pub mod seed_tools;
mod snapshot;
mod snapshot_builder;
mod sorted_set;
mod source;
mod suspend;
mod tag_index;
mod trial;
mod version;
mod warnings;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tollhouse_account::builder::{BuilderStanding, Builders};
use tollhouse_api::PolicyDraft;
use tollhouse_base::{
    boxed,
    cache::Cache,
    clock::Clock,
    id::BuilderId,
    lock::Lock,
    rate_limit::{ConcurrencyLimit, Permit},
};
use tollhouse_capability::{AllowedHosts, CapabilityServices, Granted};
use tollhouse_event::Events;
use tollhouse_fair::FairSemaphore;
use tollhouse_money::PaymentConfig;
use tollhouse_objects::Objects;
use tollhouse_pool::Pool;
use tollhouse_protocol::Tier;
use tollhouse_store::{Durability, Store, Table, schema, update};
use tollhouse_tool::{Endpoint, Owner, Slug};

pub use self::{
    bundle::SPECIFIER,
    check::{CheckBody, CheckedUpload},
    consistency::check_catalogue,
    draft::{Draft, HandlerDraft, KeepsResponse},
    entitlements::ChangedBy,
    entry::Entry,
    error::{FindError, PublishError},
    find::{EndpointPage, ListProgress},
    live::{FixedAnswer, FrontForm, LiveEndpoint, MakeForm, ShownEndpoint},
    object_sample::sample_sources,
    order::{Order, OrderPosition},
    patch::Patch,
    policy::{Policy, PolicyInForce},
    retired::DeletedEndpoint,
    review::ReviewQueuePosition,
    schedule_check::{MAX_SCHEDULES, MAX_SCHEDULES_OF_BUILDER},
    schedules::{DueSchedule, DueSchedules, ScheduleClaim, ScheduleTurn},
    schema_validation::{ValidationError, ValidationSubject, validate},
    snapshot::{CatalogCounts, EndpointFilter, IndexLoading, Snapshot},
    source::{object_of, response_hash},
    trial::TrialTarget,
};
use crate::{safety::Scanner, source::Sources};

/// Maximum concurrent uploads and changes of one builder in the sandbox.
const MAX_UPLOADS: usize = 2;

/// Maximum uploads that are scanned, or whose schemas are measured, at the same time.
const MAX_UPLOAD_READS: usize = 4;

const POLICY: Table<(), PolicyInForce> = schema::POLICY.holding();
tollhouse_store::json_values!(PolicyInForce);

/// Dependencies of a catalog.
pub struct CatalogParts {
    pub clock: Clock,
    pub pool: Pool,
    pub services: Arc<CapabilityServices>,
    pub events: Arc<Events>,
    pub scanner: Arc<Scanner>,
    pub builders: Arc<Builders>,
    pub base_url: String,
    pub payment: PaymentConfig,
    pub make_form: MakeForm,
    /// Maximum number of endpoints, and memory for caches.
    pub room: CatalogCapacity,
    pub objects: Arc<Objects>,
}

/// Maximum number of endpoints, and memory for caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogCapacity {
    /// Maximum number of endpoints. Further ones are refused.
    pub max_endpoints: usize,
    /// Approximate memory for sources, schemas, records and secrets that are ready for calls and
    /// lists, in bytes.
    pub ready_bytes: usize,
}

impl CatalogCapacity {
    /// Returns the part for encrypted secrets.
    pub fn secrets_bytes(self) -> usize {
        self.ready_bytes / 8
    }
}

impl Default for CatalogCapacity {
    fn default() -> Self {
        Self { max_endpoints: 1_000_000, ready_bytes: 256 << 20 }
    }
}

/// All endpoints of a host.
pub struct Catalog {
    store: Arc<dyn Store>,
    sources: Sources,
    parts: CatalogParts,
    policy: ArcSwap<PolicyInForce>,
    builder_standing: ArcSwap<HashMap<BuilderId, BuilderStanding>>,
    /// Summary of every endpoint.
    snapshot: ArcSwap<Snapshot>,
    /// Caches for calls and for lists, with the most recently used endpoints.
    ready: Cache<Slug, Arc<LiveEndpoint>>,
    shown_cache: Cache<Slug, Arc<ShownEndpoint>>,
    /// Counts changes of what endpoints depend on besides their records: the policy, and admins'
    /// decisions about owners.
    rebuild: AtomicU64,
    /// Endpoints that the last scan with the current rules left out, because their sources could
    /// not be read.
    unscanned: Lock<Option<Vec<Slug>>>,
    /// Serializes changes of this host. Not taken by calls or by notifications of other hosts'
    /// changes, because it is held during commits, which may be slow. Never held while a worker
    /// runs, an upload or source is read, or data of a deleted endpoint is removed.
    changing: tokio::sync::Mutex<()>,
    /// Serializes reading and showing, so that older state never replaces newer. Held only during
    /// short reads of the store, never during a commit. Taken after `changing` if both are needed.
    showing: tokio::sync::Mutex<()>,
    /// Permits to read uploads. One owner gets at most half of them.
    reads: Arc<FairSemaphore<Owner>>,
    /// Uploads of each owner in the sandbox.
    uploads: ConcurrencyLimit<String>,
    changes: watch::Sender<u64>,
}

impl Catalog {
    /// Returns the current summary of all endpoints, including those that are not
    /// [`Endpoint::listed`].
    pub fn all(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns a counter that grows with each change of [`Catalog::all`], so that tasks can wait for the next change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub fn policy(&self) -> Arc<PolicyInForce> {
        self.policy.load_full()
    }

    /// Puts a policy in force. Lower ceilings and a stricter tier apply to existing endpoints at
    /// once, for calls that start from now on.
    ///
    /// # Errors
    ///
    /// A field is invalid; [`PublishError::Changed`] if `if_match` is another revision.
    #[boxed]
    pub async fn set_policy(&self, draft: PolicyDraft, if_match: Option<u64>) -> Result<Arc<PolicyInForce>, PublishError> {
        let policy = &Policy::of(draft)?;
        let _one = self.changing.lock().await;
        let setting = update(&*self.store, Durability::Durable, |mut tx| async move {
            let stored = tx.row(&POLICY, &()).await?;
            let revision = stored.as_ref().map_or(0, |row| row.value.revision);
            if if_match.is_some_and(|seen| seen != revision) {
                return Err(PublishError::Changed(revision));
            }
            let new = PolicyInForce { revision: revision + 1, policy: policy.clone() };
            tx.replace_or_insert(&POLICY, stored.as_ref(), &(), &new);
            tx.answer(Arc::new(new))
        });
        let set = setting.await;
        // Even after an error, because the store may have committed it.
        self.follow_policy().await?;
        set
    }

    /// Applies the limits and tier of the policy in force to cached endpoints. Others get them when
    /// they are created.
    pub(crate) fn narrow_cached(&self) {
        self.rebuild.fetch_add(1, Ordering::SeqCst);
        self.shown_cache.clear();
        for live in self.ready.all() {
            let before = &live.endpoint;
            if self.limits_of(before) != before.limits || self.tier_of(before) != before.tier {
                let narrowed = Arc::new(self.rebuild(&live));
                self.put_live(&narrowed);
                self.leave_tier(before, &narrowed.endpoint);
            }
        }
        self.changed();
    }

    /// Ends the workers of an endpoint if their tier has changed.
    fn leave_tier(&self, before: &Endpoint, now: &Endpoint) {
        if before.worker_tier() != now.worker_tier() {
            self.parts.pool.retire(now.id.as_str(), &before.version);
        }
    }

    /// Sets the effective limits and tier of an endpoint.
    fn apply_policy(&self, endpoint: &mut Endpoint) {
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

    /// Returns the effective tier, from the policy's and an admin's tier for the endpoint.
    fn tier_under(&self, policy: Tier, owner: &Owner, cap: Tier) -> Tier {
        let policy = match owner {
            Owner::Platform => Tier::default(),
            Owner::Builder(_) => policy,
        };
        self.parts.pool.tier().max(policy).max(self.builder_standing(owner).tier).max(cap)
    }

    /// Returns an admin's decisions about an owner.
    fn builder_standing(&self, owner: &Owner) -> BuilderStanding {
        match owner {
            Owner::Platform => BuilderStanding::default(),
            Owner::Builder(id) => self.builder_standing.load().get(id).copied().unwrap_or_default(),
        }
    }

    /// Takes a permit of `owner` for the sandbox cost of an upload. Only builders need one.
    fn permit(&self, owner: &Owner, by: ChangedBy) -> Result<Option<Permit<String>>, PublishError> {
        if by != ChangedBy::Builder {
            return Ok(None);
        }
        let permit = self.uploads.take(owner.share().to_owned());
        permit.map(Some).ok_or_else(|| PublishError::Crowded(self.uploads.max()))
    }

    fn show(&self, change: impl FnOnce(&mut Snapshot)) {
        self.rebuild_snapshot(change);
        self.changed();
    }

    /// Changes the summary without notifying anyone.
    fn rebuild_snapshot(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        change(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Removes a deleted endpoint from the caches.
    fn forget(&self, slug: &str) {
        self.shown_cache.remove(slug);
        self.ready.remove(slug);
    }

    /// Makes new calls use this version of an endpoint.
    fn put_live(&self, live: &Arc<LiveEndpoint>) {
        let slug = &live.endpoint.slug;
        self.shown_cache.remove(slug.as_str());
        self.evict(&self.ready.put(slug, Arc::clone(live)));
        // A list that was created in between contains the old version.
        self.changed();
    }

    /// Checks that the host accepts the ways to pay that the owner wants.
    fn check_accepts(&self, accepts: &[String]) -> Result<(), PublishError> {
        let named = |position: usize| accepts[..position].contains(&accepts[position]);
        let unknown = (0..accepts.len()).find(|position| !self.parts.payment.takes(&accepts[*position]) || named(*position));
        let Some(position) = unknown else { return Ok(()) };
        let taken: Vec<_> = self.parts.payment.assets().map(|asset| format!("`{}/{}`", asset.network.caip2, asset.symbol)).collect();
        let message = format!("this host accepts {}; list networks, or networks with a token, of these, each once", taken.join(", "));
        Err(PublishError::field(format!("/accepts/{position}"), message))
    }
}

/// Returns what calls may access. Nothing while an admin holds the endpoint back, so running calls
/// lose access as well.
fn granted(endpoint: &Endpoint) -> Result<Granted, PublishError> {
    if endpoint.held_back() {
        return Ok(Granted::default());
    }
    reach(endpoint)
}

/// Returns what an endpoint was granted, and what it has requested.
fn reach(endpoint: &Endpoint) -> Result<Granted, PublishError> {
    let hosts = AllowedHosts::parse(&endpoint.allowed_hosts).map_err(|error| PublishError::field("/allowedHosts", error.to_string()))?;
    let requested_hosts = AllowedHosts::parse(&endpoint.requested_hosts).unwrap_or_default();
    Ok(Granted { capabilities: endpoint.capabilities, hosts, requested: endpoint.requested_capabilities, requested_hosts })
}

#[cfg(test)]
mod tests;
