//! Secrets of tools: encrypted in the store, decrypted for one call at a time.
//!
//! A value is encrypted with AES-256-GCM-SIV and a key for its tool, which is derived by HKDF-SHA256 from the master key. It is bound to
//! master key, owner, tool, name and visibility: a record that is moved elsewhere cannot be decrypted. A tool's first call reads its
//! encrypted secrets into a cache of limited size, so that later calls do not read the store, whether the tool has secrets or not.
//!
//! Each tool has a count of the names ever added to its secrets, which every commit that adds one increments. So hosts that add names
//! concurrently keep the limit together. The commit that deletes the tool closes the count, after which no host can add a name.
//!
//! Values and keys are wiped from memory when they are dropped. The buffers between host and worker, and copies that a handler makes, are
//! *not* wiped.

pub(super) mod added_count;
mod error;
mod granted;
mod master;
mod name;
mod process_memory;
mod rotate;
mod scope;
mod sealed;
mod substitute;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use serde_json::json;
use tokio::sync::Mutex;
use tollhouse_base::{
    boxed,
    cache::{Cache, CacheKey},
    clock::Clock,
    id::EndpointId,
    plural::plural,
};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_store::{
    Batch, CommittedChange, CountedText, Direction, Durability, Range, Store, StoreError, Table, Tx, UpdatePlan, schema, update,
};
use tollhouse_tool::{Endpoint, Owner, Slug};
use zeroize::Zeroizing;

use self::{
    added_count::ADDED,
    scope::MIN_VALUE_BYTES,
    sealed::{SealContext, SealedSecret},
};
pub use tollhouse_api::{Secret as SecretInfo, SecretPlace, SecretVisibility as Visibility};

pub(crate) use self::substitute::{Destination, FilledRequest};
pub use self::{
    error::SecretError,
    granted::{Placeholder, Secret},
    master::{KeyError, Keyring, MasterKey},
    name::SecretName,
    process_memory::keep_private,
    scope::SecretScope,
    substitute::{Placeholders, SubstituteError},
};
use crate::AllowedHosts;

pub(super) const SECRETS: Table<Key, SealedSecret> = schema::SECRETS.holding();
tollhouse_store::json_values!(SealedSecret);

type Key = (CountedText<EndpointId>, String);

/// Number of records read from the store at once, more than a tool can have.
const PAGE: usize = 200;

/// Number of tools whose secrets are read concurrently.
const AT_ONCE: usize = 16;

/// Approximate memory, in bytes, that a tool's cached secrets take besides the encrypted data, and again for each secret.
const OVERHEAD_BYTES: usize = 256;

/// The tool that a secret is set for.
#[derive(Debug, Clone)]
pub struct SecretOwner {
    pub id: EndpointId,
    pub owner: Owner,
    pub slug: Slug,
    /// Maximum number of secrets.
    pub names: u64,
    /// Maximum length of a value, in bytes.
    pub value_bytes: u64,
}

type EndpointSecrets = BTreeMap<SecretName, SealedSecret>;

/// The cached secrets of a tool, shared by its calls.
#[derive(Clone)]
struct Cached(Arc<EndpointSecrets>);

impl CacheKey for Cached {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES + self.0.iter().map(|(name, sealed)| OVERHEAD_BYTES + name.as_str().len() + sealed.bytes()).sum::<usize>()
    }

    fn is_in_use(&self) -> bool {
        false
    }
}

pub struct Secrets {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    ring: ArcSwap<Keyring>,
    /// Encrypted secrets of the most recently called tools.
    held: Cache<EndpointId, Cached>,
    /// Number of changes to cacheable data. A value that was read before a change is not cached after it.
    changes: AtomicU64,
    /// Serializes changes on this host. Calls and the follower of other hosts never take it, because it is held during commits.
    changing: Mutex<()>,
    rotating: Mutex<()>,
}

impl Secrets {
    /// Returns keys for a purpose other than secrets, one derived from each master key, the current one first.
    pub fn derived(&self, what: &str) -> Vec<Zeroizing<[u8; 32]>> {
        self.ring.load().all().map(|key| key.derived(what)).collect()
    }

    /// Returns the id of the current key.
    pub fn key_id(&self) -> String {
        self.ring.load().current().id().to_owned()
    }

    /// Opens the secrets with a cache of about `max_bytes` bytes. It decrypts nothing, and reads only enough to check that the keys match
    /// those that secrets were encrypted with.
    #[boxed]
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Clock,
        events: Arc<Events>,
        ring: Keyring,
        max_bytes: usize,
    ) -> Result<Self, StoreError> {
        let some = SECRETS.readable(&*store, &SECRETS.all(), PAGE, Direction::Forward).await?;
        if some.iter().filter_map(|(_, sealed)| sealed.as_ref()).any(|one| ring.get(&one.key_id).is_none()) {
            tracing::error!(
                "the master key of the stored secrets is missing: calls that need secrets are refused until you restore `master-key`"
            );
        }
        Ok(Self::with(store, clock, events, ring, max_bytes))
    }

    fn with(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, ring: Keyring, max_bytes: usize) -> Self {
        Self {
            store,
            clock,
            events,
            ring: ArcSwap::from_pointee(ring),
            held: Cache::new(max_bytes),
            changes: AtomicU64::default(),
            changing: Mutex::default(),
            rotating: Mutex::default(),
        }
    }

    /// Returns an empty set of secrets, for tests of other crates.
    #[cfg(any(test, feature = "testing"))]
    pub fn empty(store: Arc<dyn Store>) -> Self {
        let folder = tempfile::tempdir().expect("a test has a folder and a store in memory");
        let ring = Keyring::open(None, None, &folder.path().join("master-key")).expect("a test has a folder and a store in memory");
        let events = Arc::new(Events::new(Arc::clone(&store), Clock::default(), tollhouse_event::EventSettings::default()));
        Self::with(store, Clock::default(), events, ring, 1 << 20)
    }

    /// Returns the number of secrets that calls of a tool get, for tests of other crates.
    #[cfg(any(test, feature = "testing"))]
    pub async fn given(&self, endpoint: &EndpointId) -> usize {
        self.sealed(endpoint).await.expect("a test has a folder and a store in memory").len()
    }

    /// Lists the secrets of a tool by name, without their values.
    #[boxed]
    pub async fn list(&self, endpoint: &EndpointId) -> Result<Vec<SecretInfo>, StoreError> {
        let stored = SECRETS.readable(&*self.store, &of(endpoint), PAGE, Direction::Forward).await?;
        Ok(stored.into_iter().filter_map(|((_, name), sealed)| Some(info(&name.parse().ok()?, &sealed?))).collect())
    }

    /// Sets or replaces a secret. Its event is in the same commit.
    ///
    /// # Errors
    ///
    /// A value that is empty or too long, too many names, a value for the handler of a secret that it did not get, or an
    /// error of the store.
    pub async fn set(
        &self,
        to: &SecretOwner,
        name: SecretName,
        value: &str,
        scope: impl Into<SecretScope>,
    ) -> Result<SecretInfo, SecretError> {
        let scope = scope.into();
        self.set_in(to, name, value, &scope, false).await
    }

    /// Sets or replaces a secret like [`Self::set`], and gives the handler a value that it did not get before.
    ///
    /// # Errors
    ///
    /// The others of [`Self::set`].
    pub async fn set_exposed(
        &self,
        to: &SecretOwner,
        name: SecretName,
        value: &str,
        scope: impl Into<SecretScope>,
    ) -> Result<SecretInfo, SecretError> {
        let scope = scope.into();
        self.set_in(to, name, value, &scope, true).await
    }

    #[boxed]
    async fn set_in(
        &self,
        to: &SecretOwner,
        name: SecretName,
        value: &str,
        scope: &SecretScope,
        exposes: bool,
    ) -> Result<SecretInfo, SecretError> {
        let limit = to.value_bytes;
        if value.is_empty() || value.len() as u64 > limit {
            return Err(SecretError::field("/value", format!("a value must have 1 to {limit} bytes, and this one has {}", value.len())));
        }
        // Servers ignore white space around the value of a header, so they can repeat the value without it.
        if scope.visibility == Visibility::Hosts && value.trim().len() < MIN_VALUE_BYTES {
            let message =
                format!("a value for hosts must have at least {MIN_VALUE_BYTES} bytes, so that it can be hidden in their answers");
            return Err(SecretError::field("/value", message));
        }
        let _one = self.changing.lock().await;
        let setting = update(&*self.store, Durability::Durable, |tx| self.decide(tx, to, &name, value, scope, exposes));
        let set = setting.await;
        self.show_stored(&to.id).await;
        let (info, event) = set?;
        self.events.announce(&to.owner, event);
        Ok(info)
    }

    async fn decide<'a>(
        &self,
        mut tx: Tx<'a>,
        to: &SecretOwner,
        name: &SecretName,
        value: &str,
        scope: &SecretScope,
        exposes: bool,
    ) -> Result<UpdatePlan<'a, (SecretInfo, Event)>, SecretError> {
        let key = key(&to.id, name);
        let found = tx.found(&SECRETS, &key).await?.map(|found| SECRETS.read(found));
        if found.is_none() {
            let added = tx.get(&ADDED, &to.id).await?.unwrap_or_default();
            if added.is_closed() {
                return Err(SecretError::Deleted(to.slug.clone()));
            }
            let known = SECRETS.unread(tx.store(), &of(&to.id), PAGE, Direction::Forward).await?.len() as u64;
            if known >= to.names {
                return Err(SecretError::field(
                    "/name",
                    format!("the tool has {}, and the maximum is {}", plural(known, "secret"), to.names),
                ));
            }
            tx.put(&ADDED, &to.id, &added.one_more());
        }
        let (now, replaced) = (self.clock.now(), found.is_some());
        // A malformed record is overwritten.
        let stored = found.and_then(Result::ok);
        let kept = stored.as_ref().filter(|_| !exposes && scope.visibility == Visibility::Env);
        if let Some(reason) = kept.and_then(|row| row.value.scope().keeps_from_handler()) {
            return Err(SecretError::field("/visibility", reason));
        }
        let created = stored.as_ref().map_or(now, |row| row.value.created_at);
        let context = SealContext { owner: to.owner.share(), endpoint: to.id.as_str(), name: name.as_str() };
        let sealed =
            SealedSecret::seal(self.ring.load().current(), context, value, scope.clone(), [created, now]).ok_or(SecretError::Random)?;
        let data = json!({ "name": name, "visibility": scope.visibility, "replaced": replaced });
        let event = self.events.event(Kind::SecretSet, Some(&to.slug), data);
        tx.append(Events::stored(&to.owner, &event));
        tx.put(&SECRETS, &key, &sealed);
        tx.answer((info(name, &sealed), event))
    }

    /// Removes a secret. Its event is in the same commit.
    ///
    /// # Errors
    ///
    /// [`SecretError::Unknown`], or an error of the store.
    #[boxed]
    pub async fn remove(&self, of: &SecretOwner, name: &SecretName) -> Result<(), SecretError> {
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

    /// Removes all secrets of a deleted tool. Repeating it is safe.
    #[boxed]
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
        added_count::forget(&*self.store, endpoint).await?;
        self.evict(endpoint);
        Ok(())
    }

    /// Returns whether a tool has secrets whose key is missing or that are malformed. None of its calls can start then.
    #[boxed]
    pub async fn unreadable(&self, endpoint: &EndpointId) -> bool {
        let Ok(all) = self.sealed(endpoint).await else { return true };
        let ring = self.ring.load();
        all.values().any(|one| ring.get(&one.key_id).is_none())
    }

    /// Decrypts the secrets of a tool for one call.
    ///
    /// # Errors
    ///
    /// [`SecretError::Unopened`] if one cannot be decrypted, because a handler must not conclude that it does not exist. Errors of the
    /// store if they are not cached.
    #[boxed]
    pub async fn for_call(&self, endpoint: &EndpointId, owner: &Owner) -> Result<Vec<Secret>, SecretError> {
        let all = self.sealed(endpoint).await?;
        match self.opened(endpoint, owner, &all) {
            // A rotation may have ended meanwhile, so read again.
            Err(SecretError::Unopened) => {
                self.evict(endpoint);
                let all = self.sealed(endpoint).await?;
                self.opened(endpoint, owner, &all)
            }
            opened => opened,
        }
    }

    fn opened(&self, endpoint: &EndpointId, owner: &Owner, all: &EndpointSecrets) -> Result<Vec<Secret>, SecretError> {
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let ring = self.ring.load();
        let open = |(name, sealed): (&SecretName, &SealedSecret)| {
            let context = SealContext { owner: owner.share(), endpoint: endpoint.as_str(), name: name.as_str() };
            let value = sealed.open(&ring, context).ok_or(SecretError::Unopened)?;
            let hosts = AllowedHosts::parse(&sealed.hosts).map_err(|_| SecretError::Unopened)?;
            let placeholder = match sealed.visibility {
                Visibility::Hosts => Some(Placeholder::generate(hosts, sealed.places.clone()).ok_or(SecretError::Random)?),
                Visibility::Env | Visibility::Auth => None,
            };
            Ok(Secret { name: name.as_str().to_owned(), value, visibility: sealed.visibility, placeholder })
        };
        all.iter().map(open).collect()
    }

    /// Returns the encrypted secrets of a tool, from the cache or from the store.
    async fn sealed(&self, endpoint: &EndpointId) -> Result<Arc<EndpointSecrets>, SecretError> {
        match self.held.get(endpoint) {
            Some(Cached(all)) => Ok(all),
            // Boxed, so that the future stays small for the cached case.
            None => Box::pin(self.read(endpoint)).await,
        }
    }

    async fn read(&self, endpoint: &EndpointId) -> Result<Arc<EndpointSecrets>, SecretError> {
        let since = self.changes.load(SeqCst);
        let all = Arc::new(self.stored(endpoint).await?.ok_or(SecretError::Unopened)?);
        let stored = self.held.keep(endpoint, Cached(Arc::clone(&all)), || self.changes.load(SeqCst) == since);
        Ok(stored.map_or(all, |(Cached(stored), _)| stored))
    }

    /// Reads the secrets of a tool. Returns `None` if one is malformed.
    async fn stored(&self, endpoint: &EndpointId) -> Result<Option<EndpointSecrets>, StoreError> {
        let rows = SECRETS.readable(&*self.store, &of(endpoint), PAGE, Direction::Forward).await?;
        Ok(rows.into_iter().map(|((_, name), sealed)| Some((name.parse().ok()?, sealed?))).collect())
    }

    /// Updates the cache from the store after a commit, even if its outcome is unknown.
    async fn show_stored(&self, endpoint: &EndpointId) {
        if let Err(error) = self.refresh(endpoint).await {
            tracing::warn!(endpoint.id = %endpoint, %error, "a change of secrets could not be read; the next call reads it again");
        }
    }

    /// Returns the tools whose secrets a change affects.
    pub fn changed(change: &CommittedChange) -> impl Iterator<Item = EndpointId> + use<'_> {
        SECRETS.changed(change).map(|(CountedText(endpoint), _)| endpoint)
    }

    /// Updates the cache for a tool whose secrets another host may have changed. It does not wait for changes on this host. Malformed
    /// records are left for the next call to report.
    #[boxed]
    pub async fn refresh(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        self.evict(endpoint);
        let since = self.changes.load(SeqCst);
        let stored = self.stored(endpoint).await?;
        self.hold(endpoint, stored, since);
        Ok(())
    }

    /// Updates the whole cache: the tools in `known` are read now, the others by their next calls. Returns the tools in `known` whose
    /// secrets may have changed.
    #[boxed]
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

    /// Caches the secrets of a tool, unless anything has changed since `since`.
    fn hold(&self, endpoint: &EndpointId, stored: Option<EndpointSecrets>, since: u64) {
        if let Some(stored) = stored {
            self.held.keep(endpoint, Cached(Arc::new(stored)), || self.changes.load(SeqCst) == since);
        }
    }

    /// Removes a tool's secrets from the cache, and invalidates reads in progress.
    fn evict(&self, endpoint: &EndpointId) {
        self.changes.fetch_add(1, SeqCst);
        self.held.remove(endpoint);
    }
}

impl From<&Endpoint> for SecretOwner {
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

fn info(name: &SecretName, sealed: &SealedSecret) -> SecretInfo {
    SecretInfo {
        name: name.as_str().to_owned(),
        visibility: sealed.visibility,
        hosts: sealed.hosts.clone(),
        places: sealed.places.clone(),
        created_at: sealed.created_at,
        updated_at: sealed.updated_at,
    }
}

/// Returns the range of a tool's secrets.
fn of(endpoint: &EndpointId) -> Range<Key> {
    SECRETS.under(&CountedText(endpoint.clone()))
}

fn key(endpoint: &EndpointId, name: &SecretName) -> Key {
    (CountedText(endpoint.clone()), name.as_str().to_owned())
}

#[cfg(test)]
mod tests;
