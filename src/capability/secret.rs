//! Secrets of endpoints: sealed in the store, opened for one call at a time.
//!
//! A value is sealed by AES-256-GCM-SIV under a key of its endpoint, derived by HKDF-SHA256 from the
//! master key, and bound to master key, owner, endpoint, name and visibility: a record moved anywhere
//! else does not open. What is sealed is read by an endpoint's first call and held in memory, as much of
//! it as there is room for: the calls behind it ask no store, with secrets or without.
//!
//! Each endpoint has a count of the names that were added to its secrets, which every commit that adds one raises: so hosts that add names
//! at the same time keep to the limit together. The commit that deletes the endpoint closes the count, and no host adds a name after it.
//!
//! Values and keys are wiped from memory when they are dropped. It does *not* wipe the buffers
//! between host and worker, nor what a handler makes of a value.

pub(super) mod added;
mod error;
mod master;
mod memory;
mod name;
mod rotate;
mod sealed;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EndpointId,
    ready::{Kept, Ready},
};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_store::{Batch, Change, Counted, Decided, Direction, Durability, Range, Store, StoreError, Table, Tx, schema, update};
use tollhouse_tool::{Endpoint, Owner, Slug};
use zeroize::Zeroizing;

use self::{
    added::ADDED,
    sealed::{Binding, Sealed},
};
pub use self::{
    error::SecretError,
    master::{KeyError, Keyring, MasterKey},
    memory::keep_private,
    name::SecretName,
    rotate::Rotated,
    sealed::Visibility,
};

pub(super) const SECRETS: Table<Key, Sealed> = schema::SECRETS.holding();
tollhouse_store::json_values!(Sealed);

/// The endpoint, and the name.
type Key = (Counted<EndpointId>, String);

/// Records read from the store at once: more than an endpoint may have.
const PAGE: usize = 200;

/// Endpoints whose secrets are read at once.
const AT_ONCE: usize = 16;

/// What the secrets of an endpoint take in memory besides what is sealed, and each of them, in bytes: about.
const BESIDES: usize = 256;

/// A secret as its owner sees it: never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretInfo {
    /// What it is called by.
    pub name: SecretName,
    /// Whether the handler may read it.
    pub visibility: Visibility,
    /// When its name was first set.
    pub created_at: Timestamp,
    /// When its value was.
    pub updated_at: Timestamp,
}

/// A secret opened for a call.
#[derive(Clone)]
pub struct Secret {
    /// What it is called by.
    pub name: String,
    /// In clear; wiped when the call ends.
    pub value: Zeroizing<String>,
    /// Whether the handler may read it.
    pub visibility: Visibility,
}

/// The endpoint that a secret is set for.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The endpoint.
    pub id: EndpointId,
    /// Whose it is.
    pub owner: Owner,
    /// What it is called by.
    pub slug: Slug,
    /// Most secrets it may have.
    pub names: u64,
    /// Most bytes of a value.
    pub value_bytes: u64,
}

/// The secrets of one endpoint.
type OfEndpoint = BTreeMap<SecretName, Sealed>;

/// The secrets of an endpoint that was called lately, shared by its calls.
#[derive(Clone)]
struct Cached(Arc<OfEndpoint>);

impl Kept for Cached {
    fn bytes(&self) -> usize {
        BESIDES + self.0.iter().map(|(name, sealed)| BESIDES + name.as_str().len() + sealed.bytes()).sum::<usize>()
    }

    fn is_in_use(&self) -> bool {
        false
    }
}

/// The secrets of all endpoints.
pub struct Secrets {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    ring: ArcSwap<Keyring>,
    /// What is sealed for the endpoints that were called last.
    held: Ready<EndpointId, Cached>,
    /// How often what may be held was changed: what was read before is not held then.
    changes: AtomicU64,
    /// One change of this host at a time. Never taken by a call, nor by what hears of other hosts: it is held over commits.
    changing: Mutex<()>,
    /// One rotation at a time.
    rotating: Mutex<()>,
}

impl Secrets {
    /// A key for something else than secrets, of each master key in force, the current one first.
    #[must_use]
    pub fn derived(&self, what: &str) -> Vec<Zeroizing<[u8; 32]>> {
        self.ring.load().all().map(|key| key.derived(what)).collect()
    }

    /// The id of the key that seals.
    #[must_use]
    pub fn key_id(&self) -> String {
        self.ring.load().current().id().to_owned()
    }

    /// Holds what is sealed for as many endpoints as `most_bytes` have room for, about. Opens nothing, and reads no more than to see
    /// whether the keys are those that secrets were sealed with.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Clock,
        events: Arc<Events>,
        ring: Keyring,
        most_bytes: usize,
    ) -> Result<Self, StoreError> {
        let some = SECRETS.readable(&*store, &SECRETS.all(), PAGE, Direction::Forward).await?;
        if some.iter().filter_map(|(_, sealed)| sealed.as_ref()).any(|one| ring.get(&one.key_id).is_none()) {
            tracing::error!("the master key of stored secrets is not held: restore `master-key`; calls that need them are refused");
        }
        Ok(Self::with(store, clock, events, ring, most_bytes))
    }

    fn with(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, ring: Keyring, most_bytes: usize) -> Self {
        Self {
            store,
            clock,
            events,
            ring: ArcSwap::from_pointee(ring),
            held: Ready::new(most_bytes),
            changes: AtomicU64::default(),
            changing: Mutex::default(),
            rotating: Mutex::default(),
        }
    }

    /// None, for tests of others.
    #[cfg(any(test, feature = "testing"))]
    pub fn empty(store: Arc<dyn Store>) -> Self {
        let folder = tempfile::tempdir().expect("a test has a folder and a store in memory");
        let ring = Keyring::open(None, None, &folder.path().join("master-key")).expect("a test has a folder and a store in memory");
        let events = Arc::new(Events::new(Arc::clone(&store), Clock::default(), tollhouse_event::EventSettings::default()));
        Self::with(store, Clock::default(), events, ring, 1 << 20)
    }

    /// How many secrets of an endpoint calls are given, for tests of others.
    #[cfg(any(test, feature = "testing"))]
    pub async fn given(&self, endpoint: &EndpointId) -> usize {
        self.sealed(endpoint).await.expect("a test has a folder and a store in memory").len()
    }

    /// The secrets of an endpoint, by name, without their values.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list(&self, endpoint: &EndpointId) -> Result<Vec<SecretInfo>, StoreError> {
        let stored = SECRETS.readable(&*self.store, &of(endpoint), PAGE, Direction::Forward).await?;
        Ok(stored.into_iter().filter_map(|((_, name), sealed)| Some(info(&name.parse().ok()?, &sealed?))).collect())
    }

    /// Sets or replaces a secret. The event is in the same commit.
    ///
    /// # Errors
    ///
    /// A value that is empty or too long, one name too many, the store's.
    pub async fn set(&self, to: &Holder, name: SecretName, value: &str, visibility: Visibility) -> Result<SecretInfo, SecretError> {
        let limit = to.value_bytes;
        if value.is_empty() || value.len() as u64 > limit {
            return Err(SecretError::field("/value", format!("a value has 1 to {limit} bytes, this one {}", value.len())));
        }
        let _one = self.changing.lock().await;
        let setting = update(&*self.store, Durability::Durable, |tx| self.decide(tx, to, &name, value, visibility));
        let set = setting.await;
        self.show_stored(&to.id).await;
        let (info, event) = set?;
        self.events.announce(&to.owner, event);
        Ok(info)
    }

    async fn decide<'a>(
        &self,
        mut tx: Tx<'a>,
        to: &Holder,
        name: &SecretName,
        value: &str,
        visibility: Visibility,
    ) -> Result<Decided<'a, (SecretInfo, Event)>, SecretError> {
        let key = key(&to.id, name);
        let found = tx.found(&SECRETS, &key).await?.map(|found| SECRETS.read(found));
        if found.is_none() {
            let added = tx.get(&ADDED, &to.id).await?.unwrap_or_default();
            if added.is_closed() {
                return Err(SecretError::Deleted(to.slug.clone()));
            }
            let known = SECRETS.unread(tx.store(), &of(&to.id), PAGE, Direction::Forward).await?.len() as u64;
            if known >= to.names {
                return Err(SecretError::field("/name", format!("the endpoint has {known} secrets, limit {}", to.names)));
            }
            tx.put(&ADDED, &to.id, &added.one_more());
        }
        let (now, replaced) = (self.clock.now(), found.is_some());
        // One that does not read is written over.
        let stored = found.and_then(Result::ok);
        let created = stored.as_ref().map_or(now, |row| row.value.created_at);
        let place = Binding { owner: to.owner.share(), endpoint: to.id.as_str(), name: name.as_str() };
        let sealed = Sealed::seal(self.ring.load().current(), place, value, visibility, [created, now]).ok_or(SecretError::Random)?;
        let data = json!({ "name": name, "visibility": visibility, "replaced": replaced });
        let event = self.events.event(Kind::SecretSet, Some(&to.slug), data);
        tx.append(Events::stored(&to.owner, &event));
        tx.put(&SECRETS, &key, &sealed);
        tx.answer((info(name, &sealed), event))
    }

    /// Removes a secret. The event is in the same commit.
    ///
    /// # Errors
    ///
    /// [`SecretError::Unknown`], the store's.
    pub async fn remove(&self, of: &Holder, name: &SecretName) -> Result<(), SecretError> {
        let _one = self.changing.lock().await;
        let key = key(&of.id, name);
        let found = SECRETS.found(&*self.store, &key).await?.ok_or_else(|| SecretError::Unknown(name.as_str().to_owned()))?;
        let event = self.events.event(Kind::SecretRemoved, Some(&of.slug), json!({ "name": name }));
        let mut batch = Events::stored(&of.owner, &event);
        match SECRETS.read(found) {
            Ok(row) => batch.remove(&SECRETS, &row),
            Err(_) => batch.delete(&SECRETS, &key),
        };
        let removed = batch.commit(&*self.store, Durability::Durable).await;
        self.show_stored(&of.id).await;
        removed?;
        self.events.announce(&of.owner, event);
        Ok(())
    }

    /// Removes all secrets of a deleted endpoint. Calling it again is safe.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        loop {
            let rows = SECRETS.unread(&*self.store, &of(endpoint), PAGE, Direction::Forward).await?;
            if rows.is_empty() {
                break;
            }
            let mut batch = Batch::new();
            for row in &rows {
                batch.delete(&SECRETS, &SECRETS.key(row)?);
            }
            batch.commit(&*self.store, Durability::Durable).await?;
        }
        added::forget(&*self.store, endpoint).await?;
        self.let_go(endpoint);
        Ok(())
    }

    /// Whether an endpoint has secrets that are sealed under a key which is not held, or that do not read: no call of its is begun.
    pub async fn unreadable(&self, endpoint: &EndpointId) -> bool {
        let Ok(all) = self.sealed(endpoint).await else { return true };
        let ring = self.ring.load();
        all.values().any(|one| ring.get(&one.key_id).is_none())
    }

    /// The secrets of an endpoint, opened for one call.
    ///
    /// # Errors
    ///
    /// [`SecretError::Unopened`] when one does not open: a handler must not take its absence for a fact. The store's, where they are not
    /// held.
    pub async fn for_call(&self, endpoint: &EndpointId, owner: &Owner) -> Result<Vec<Secret>, SecretError> {
        let all = self.sealed(endpoint).await?;
        match self.opened(endpoint, owner, &all) {
            // A rotation may have ended meanwhile: as it is then.
            Err(SecretError::Unopened) => {
                self.let_go(endpoint);
                let all = self.sealed(endpoint).await?;
                self.opened(endpoint, owner, &all)
            }
            opened => opened,
        }
    }

    fn opened(&self, endpoint: &EndpointId, owner: &Owner, all: &OfEndpoint) -> Result<Vec<Secret>, SecretError> {
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let ring = self.ring.load();
        let open = |(name, sealed): (&SecretName, &Sealed)| {
            let place = Binding { owner: owner.share(), endpoint: endpoint.as_str(), name: name.as_str() };
            let value = sealed.open(&ring, place).ok_or(SecretError::Unopened)?;
            Ok(Secret { name: name.as_str().to_owned(), value, visibility: sealed.visibility })
        };
        all.iter().map(open).collect()
    }

    /// What is sealed for an endpoint: as it is held, or else as it is stored.
    async fn sealed(&self, endpoint: &EndpointId) -> Result<Arc<OfEndpoint>, SecretError> {
        match self.held.get(endpoint) {
            Some(Cached(all)) => Ok(all),
            // Boxed: the future of who finds them at once stays small.
            None => Box::pin(self.read(endpoint)).await,
        }
    }

    async fn read(&self, endpoint: &EndpointId) -> Result<Arc<OfEndpoint>, SecretError> {
        let since = self.changes.load(SeqCst);
        let all = Arc::new(self.stored(endpoint).await?.ok_or(SecretError::Unopened)?);
        let kept = self.held.keep(endpoint, Cached(Arc::clone(&all)), || self.changes.load(SeqCst) == since);
        Ok(kept.map_or(all, |(Cached(kept), _)| kept))
    }

    /// `None` where one of them does not read.
    async fn stored(&self, endpoint: &EndpointId) -> Result<Option<OfEndpoint>, StoreError> {
        let rows = SECRETS.readable(&*self.store, &of(endpoint), PAGE, Direction::Forward).await?;
        Ok(rows.into_iter().map(|((_, name), sealed)| Some((name.parse().ok()?, sealed?))).collect())
    }

    /// Shows calls what is stored of an endpoint's secrets after a commit, also where nobody knows what became of it.
    async fn show_stored(&self, endpoint: &EndpointId) {
        if let Err(error) = self.refresh(endpoint).await {
            tracing::warn!(endpoint.id = %endpoint, %error, "a change of secrets could not be read; the next call reads it");
        }
    }

    /// The endpoints whose secrets are others since this change.
    pub fn changed(change: &Change) -> impl Iterator<Item = EndpointId> + use<'_> {
        SECRETS.changed(change).map(|(Counted(endpoint), _)| endpoint)
    }

    /// Shows calls what is stored of an endpoint's secrets, as another host of the store may have changed it. It waits for no change that
    /// is under way here. What does not read is for the next call to tell.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn refresh(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        self.let_go(endpoint);
        let since = self.changes.load(SeqCst);
        let stored = self.stored(endpoint).await?;
        self.hold(endpoint, stored, since);
        Ok(())
    }

    /// The same of all: what is held of others than `known` is read again by their calls. Answers whose of `known` may have been others.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn refresh_all(&self, known: Vec<EndpointId>) -> Result<Vec<EndpointId>, StoreError> {
        let before: Vec<_> = known.iter().map(|endpoint| self.held.get(endpoint)).collect();
        let since = self.changes.fetch_add(1, SeqCst) + 1;
        self.held.clear();
        let (mut changed, mut known) = (Vec::new(), known.into_iter().zip(before));
        loop {
            let some: Vec<_> = known.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                return Ok(changed);
            }
            let stored = try_join_all(some.iter().map(|(endpoint, _)| self.stored(endpoint))).await?;
            for ((endpoint, before), stored) in some.into_iter().zip(stored) {
                let is_same = before.is_some_and(|before| stored.as_ref() == Some(&*before.0));
                self.hold(&endpoint, stored, since);
                if !is_same {
                    changed.push(endpoint);
                }
            }
        }
    }

    /// Holds what was read of an endpoint, unless anything has changed `since`.
    fn hold(&self, endpoint: &EndpointId, stored: Option<OfEndpoint>, since: u64) {
        if let Some(stored) = stored {
            self.held.keep(endpoint, Cached(Arc::new(stored)), || self.changes.load(SeqCst) == since);
        }
    }

    /// Holds what is sealed for an endpoint no more, nor what somebody reads of it at the moment.
    fn let_go(&self, endpoint: &EndpointId) {
        self.changes.fetch_add(1, SeqCst);
        self.held.remove(endpoint);
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl From<&Endpoint> for Holder {
    fn from(endpoint: &Endpoint) -> Self {
        Self {
            id: endpoint.id.clone(),
            owner: endpoint.owner.clone(),
            slug: endpoint.slug.clone(),
            names: endpoint.limits.env_names,
            value_bytes: endpoint.limits.env_value_bytes,
        }
    }
}

impl Secret {
    /// A secret in clear.
    #[must_use]
    pub fn new(name: &str, value: &str, visibility: Visibility) -> Self {
        Self { name: name.to_owned(), value: Zeroizing::new(value.to_owned()), visibility }
    }
}

/// Never shows the value.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("visibility", &self.visibility).finish_non_exhaustive()
    }
}

fn info(name: &SecretName, sealed: &Sealed) -> SecretInfo {
    SecretInfo { name: name.clone(), visibility: sealed.visibility, created_at: sealed.created_at, updated_at: sealed.updated_at }
}

/// All secrets of an endpoint.
fn of(endpoint: &EndpointId) -> Range<Key> {
    SECRETS.under(&Counted(endpoint.clone()))
}

fn key(endpoint: &EndpointId, name: &SecretName) -> Key {
    (Counted(endpoint.clone()), name.as_str().to_owned())
}

#[cfg(test)]
mod tests;
