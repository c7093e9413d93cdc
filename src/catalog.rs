//! The catalogue: publish, find, change, review, retire.
//!
//! Readers see one immutable value behind an atomic pointer; a call takes what it needs from it once
//! and keeps that version to its end. Changes go one at a time: checked, committed with the events
//! that tell of them, then shown.
//!
//! Invariants: what an admin took away comes back by an admin only ([`standing`] decides, `review`
//! records). Content of a builder's that the rules hold back answers no call ([`scan`] holds,
//! [`Endpoint::availability`] says so to every front).

mod bundle;
mod change;
mod check;
mod commit;
mod draft;
mod error;
mod fit;
mod follow;
mod limits;
mod list;
mod live;
mod narrow;
mod nearest;
mod order;
mod patch;
mod policy;
mod publish;
mod rescan;
mod review;
pub mod safety;
mod scan;
pub mod search;
mod shipped;
mod snapshot;
mod standing;
mod suspend;
mod trial;
mod version;
mod warn;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tollhouse_fair::{Fair, Share};
use tollhouse_pool::Pool;
use tollhouse_protocol::{Bundle, Tier};

pub use self::{
    check::Checked,
    draft::{Draft, HandlerDraft},
    error::PublishError,
    fit::{Asker, Unfit},
    list::Page,
    live::{Fixed, Form, Live, MakeForm},
    order::{Order, Place},
    patch::Patch,
    policy::{Policy, PolicyDraft, PolicyInForce},
    rescan::Rescanned,
    review::{Verdict, WaitingPlace},
    snapshot::{Counts, Filter, Snapshot},
    standing::By,
    trial::Tried,
};
use crate::{
    account::builder::{Builders, Judged},
    base::{
        clock::Clock,
        id::BuilderId,
        rate::{ConcurrencyLimit, Permit},
        share::UsualCost,
    },
    capability::{AllowedHosts, CapabilityServices, Grant, Granted},
    catalog::safety::Scanner,
    event::Events,
    money::{PaymentConfig, SignedOffers, Terms},
    store::{Direction, Durability, Store, Table, schema, update},
    tool::{self, Endpoint, Owner, Runs, Shape},
};

/// How long an authorisation must at least stay valid, in seconds: what x402 v2 clients expect.
const MIN_TIMEOUT_SECS: u64 = 300;

/// Time to settle after a handler has used its whole wall limit, in seconds.
const SETTLE_SECS: u64 = 120;

/// Endpoints in one catalogue at most; all are held in memory.
const MAX_ENDPOINTS: usize = 100_000;

/// Uploads and changes of one builder that the sandbox looks at, at once.
const MAX_UPLOADS: usize = 2;

/// Uploads that are read at once: scanned, or their schemas counted.
const READINGS: usize = 4;

/// Endpoints that are given new limits without a pause.
const AT_A_TIME: usize = 32;

const POLICY: Table<(), PolicyInForce> = schema::POLICY.holding();
const ENDPOINTS: Table<String, Endpoint> = schema::ENDPOINTS.holding();
crate::store::json_values!(PolicyInForce, Endpoint);

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
}

/// All endpoints of a host.
pub struct Catalog {
    store: Arc<dyn Store>,
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
    snapshot: ArcSwap<Snapshot>,
    /// One change at a time. Never taken by a call, nor held while a worker works or an upload is read.
    changing: tokio::sync::Mutex<()>,
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
    /// Reads the policy and the stored endpoints.
    ///
    /// # Errors
    ///
    /// The store's, or a record that does not read.
    pub async fn open(store: Arc<dyn Store>, parts: CatalogParts) -> Result<Self, PublishError> {
        let CatalogParts { clock, pool, services, events, scanner, builders, base_url, payment, make_form } = parts;
        let policy = POLICY.get(&*store, &()).await?.unwrap_or_default();
        let judged = builders.judged().await?;
        let catalog = Self {
            store,
            clock,
            pool,
            services,
            events,
            scanner,
            base_url,
            payment,
            policy: ArcSwap::from_pointee(policy),
            builders,
            judged: ArcSwap::from_pointee(judged),
            make_form,
            snapshot: ArcSwap::default(),
            changing: tokio::sync::Mutex::new(()),
            readings: Fair::new(READINGS, Share::AllBut(READINGS / 2)),
            uploads: ConcurrencyLimit::new(MAX_UPLOADS),
            changes: watch::Sender::new(0),
        };
        let mut snapshot = Snapshot::default();
        for row in ENDPOINTS.page(&*catalog.store, &ENDPOINTS.all(), MAX_ENDPOINTS, Direction::Forward).await? {
            let made = catalog.make_stored(row.value, None).await?;
            made.grant.set(granted(&made.endpoint)?);
            snapshot.put(Arc::new(made));
        }
        catalog.snapshot.store(Arc::new(snapshot));
        Ok(catalog)
    }

    /// The endpoint called `slug`, with the version that a call starting now runs on.
    #[must_use]
    pub fn find(&self, slug: &str) -> Option<Arc<Live>> {
        self.snapshot.load().get(slug).cloned()
    }

    /// The endpoint called `slug` as strangers may see it: not while an admin holds it back.
    #[must_use]
    pub fn find_listed(&self, slug: &str) -> Option<Arc<Live>> {
        self.find(slug).filter(|live| live.endpoint.listed())
    }

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
        self.show_policy().await?;
        set
    }

    /// Gives all endpoints the limits and the tier of the policy in force, some at a time: the thread is not only ours.
    async fn narrow_all(&self) {
        let all: Vec<_> = self.all().values().cloned().collect();
        for some in all.chunks(AT_A_TIME) {
            let narrowed: Vec<_> = some.iter().filter_map(|live| Some((live, self.narrowed(live)?))).collect();
            if !narrowed.is_empty() {
                self.show(|snapshot| narrowed.iter().for_each(|(_, live)| snapshot.put(Arc::clone(live))));
            }
            narrowed.iter().for_each(|(old, live)| self.leave_tier(&old.endpoint, &live.endpoint));
            tokio::task::yield_now().await;
        }
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
        let policy = match endpoint.owner {
            Owner::Platform => Tier::default(),
            Owner::Builder(_) => self.policy.load().policy.tier,
        };
        self.pool.tier().max(policy).max(self.judged(&endpoint.owner).tier).max(endpoint.tier_cap)
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
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        change(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
        self.changes.send_modify(|count| *count += 1);
    }

    /// Makes an endpoint ready for calls.
    ///
    /// # Errors
    ///
    /// A record whose handler is not one of its type.
    fn make_live(&self, endpoint: Endpoint, bundle: Option<Arc<Bundle>>, grant: Arc<Grant>) -> Result<Live, PublishError> {
        let runs = endpoint.runs()?;
        Ok(self.make(endpoint, runs, bundle, grant))
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

    /// An endpoint as policy and suspensions have it now.
    fn made_again(&self, live: &Live) -> Live {
        self.make(live.endpoint.clone(), live.runs.clone(), live.bundle.clone(), Arc::clone(&live.grant))
    }

    fn make(&self, mut endpoint: Endpoint, runs: Runs, bundle: Option<Arc<Bundle>>, grant: Arc<Grant>) -> Live {
        let (input, output) = (Shape::of(&endpoint.input_schema), Shape::of(&endpoint.output_schema));
        let bundle = bundle::with_schemas(bundle, &endpoint, tool::told(&endpoint.input_schema, &endpoint.output_schema));
        self.put_in_force(&mut endpoint);
        endpoint.owner_suspended = self.judged(&endpoint.owner).suspended;
        let terms = Arc::new(Terms {
            slug: endpoint.slug.clone(),
            endpoint_id: endpoint.id.clone(),
            version: endpoint.version.clone(),
            resource_url: format!("{}/tools/{}", self.base_url, endpoint.slug),
            description: endpoint.description.clone(),
            price: endpoint.most_usd(),
            metered: endpoint.metered(),
            accepts: endpoint.accepts.clone(),
            input_schema: Arc::clone(&endpoint.input_schema),
            output_schema: Arc::clone(&endpoint.output_schema),
            tags: endpoint.tags.clone(),
            wall: Duration::from_millis(endpoint.limits.wall_ms),
            timeout_secs: MIN_TIMEOUT_SECS.max(endpoint.limits.wall_ms / 1_000 + SETTLE_SECS),
            offers: SignedOffers::default(),
        });
        let record = endpoint.record(&self.base_url);
        let mut live = Live {
            endpoint,
            runs,
            input,
            output,
            bundle,
            fixed: OnceLock::new(),
            usual_cost: UsualCost::default(),
            grant,
            terms,
            record,
            form: None,
        };
        live.form = (self.make_form)(&live);
        live
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
