//! Secrets of endpoints: sealed in the store, opened for one call at a time.
//!
//! A value is sealed by AES-256-GCM-SIV under a key of its endpoint, derived by HKDF-SHA256 from the
//! master key, and bound to master key, owner, endpoint, name and visibility: a record moved anywhere
//! else does not open. What is sealed is held in memory, so that a call asks no store; an endpoint
//! without secrets costs its calls one look into a map.
//!
//! Values and keys are wiped from memory when they are dropped. It does *not* wipe the buffers
//! between host and worker, nor what a handler makes of a value.

mod error;
mod master;
mod memory;
mod name;
mod rotate;
mod sealed;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use arc_swap::ArcSwap;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use self::sealed::{Binding, Sealed};
pub use self::{
    error::SecretError,
    master::{KeyError, Keyring, MasterKey},
    memory::keep_private,
    name::SecretName,
    rotate::Rotated,
    sealed::Visibility,
};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::EndpointId,
    },
    event::{Events, Kind},
    store::{Batch, Change, Counted, Direction, Durability, Store, StoreError, Table, schema},
    tool::{Endpoint, Owner, Slug},
};

const SECRETS: Table<Key, Sealed> = schema::SECRETS.holding();
crate::store::json_values!(Sealed);

/// The endpoint, and the name.
type Key = (Counted<EndpointId>, String);

/// Records read from the store at once.
const PAGE: usize = 200;

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

/// One moment: the keys, and what is sealed under them.
#[derive(Clone)]
struct State {
    ring: Arc<Keyring>,
    sealed: HashMap<EndpointId, Arc<OfEndpoint>>,
}

/// The secrets of all endpoints.
pub struct Secrets {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    state: ArcSwap<State>,
    /// One change at a time. Never taken by a call.
    changing: Mutex<()>,
    /// One rotation at a time.
    rotating: Mutex<()>,
}

impl Secrets {
    /// A key for something else than secrets, of each master key in force, the current one first.
    #[must_use]
    pub fn derived(&self, what: &str) -> Vec<Zeroizing<[u8; 32]>> {
        self.state.load().ring.all().map(|key| key.derived(what)).collect()
    }

    /// The id of the key that seals.
    #[must_use]
    pub fn key_id(&self) -> String {
        self.state.load().ring.current().id().to_owned()
    }

    /// Reads what is sealed. Opens nothing.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn open(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, ring: Keyring) -> Result<Self, StoreError> {
        let state = ArcSwap::from_pointee(State { ring: Arc::new(ring), sealed: HashMap::new() });
        let secrets = Self { store, clock, events, state, changing: Mutex::default(), rotating: Mutex::default() };
        let sealed = secrets.read_all().await?;
        let ring = Arc::clone(&secrets.state.load().ring);
        let lost = sealed.values().flat_map(|all| all.values()).filter(|one| ring.get(&one.key_id).is_none()).count();
        if lost > 0 {
            tracing::error!(
                secrets = lost,
                "the master key of stored secrets is not held: restore `master-key`; calls that need them are refused"
            );
        }
        secrets.state.store(Arc::new(State { ring, sealed }));
        Ok(secrets)
    }

    /// None, for tests of others.
    #[cfg(test)]
    pub(crate) fn empty(store: Arc<dyn Store>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = Arc::new(Keyring::open(None, None, &folder.path().join("master-key")).unwrap());
        let events = Arc::new(Events::new(Arc::clone(&store), Clock::default(), crate::event::EventSettings::default()));
        let state = ArcSwap::from_pointee(State { ring, sealed: HashMap::new() });
        Self { store, clock: Clock::default(), events, state, changing: Mutex::default(), rotating: Mutex::default() }
    }

    /// The secrets of an endpoint, by name, without their values.
    #[must_use]
    pub fn list(&self, endpoint: &EndpointId) -> Vec<SecretInfo> {
        let state = self.state.load();
        state.sealed.get(endpoint).into_iter().flat_map(|all| all.iter()).map(|(name, sealed)| info(name, sealed)).collect()
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
        let key = key(&to.id, &name);
        let stored = SECRETS.row(&*self.store, &key).await?;
        let state = self.state.load_full();
        let known = state.sealed.get(&to.id).map_or(0, |all| all.len()) as u64;
        if stored.is_none() && known >= to.names {
            return Err(SecretError::field("/name", format!("the endpoint has {known} secrets, limit {}", to.names)));
        }
        let now = self.clock.now();
        let created = stored.as_ref().map_or(now, |row| row.value.created_at);
        let place = Binding { owner: to.owner.share(), endpoint: to.id.as_str(), name: name.as_str() };
        let sealed = Sealed::seal(state.ring.current(), place, value, visibility, [created, now]).ok_or(SecretError::Random)?;
        let data = json!({ "name": name, "visibility": visibility, "replaced": stored.is_some() });
        let event = self.events.event(Kind::SecretSet, Some(&to.slug), data);
        let mut batch = Events::stored(&to.owner, &event);
        match &stored {
            Some(row) => batch.replace(&SECRETS, row, &sealed),
            None => batch.insert(&SECRETS, &key, &sealed),
        };
        self.commit(&to.id, batch).await?;
        let told = info(&name, &sealed);
        self.show(&to.id, |all| _ = all.insert(name, sealed));
        self.events.announce(&to.owner, event);
        Ok(told)
    }

    /// Removes a secret. The event is in the same commit.
    ///
    /// # Errors
    ///
    /// [`SecretError::Unknown`], the store's.
    pub async fn remove(&self, of: &Holder, name: &SecretName) -> Result<(), SecretError> {
        let _one = self.changing.lock().await;
        let row = SECRETS.row(&*self.store, &key(&of.id, name)).await?.ok_or_else(|| SecretError::Unknown(name.as_str().to_owned()))?;
        let event = self.events.event(Kind::SecretRemoved, Some(&of.slug), json!({ "name": name }));
        let mut batch = Events::stored(&of.owner, &event);
        batch.remove(&SECRETS, &row);
        self.commit(&of.id, batch).await?;
        self.show(&of.id, |all| _ = all.remove(name));
        self.events.announce(&of.owner, event);
        Ok(())
    }

    /// Removes all secrets of a deleted endpoint. Calling it again is safe.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        let _one = self.changing.lock().await;
        loop {
            let rows = SECRETS.readable(&*self.store, &SECRETS.under(&Counted(endpoint.clone())), PAGE, Direction::Forward).await?;
            if rows.is_empty() {
                break;
            }
            let mut batch = Batch::new();
            rows.iter().for_each(|(key, _)| _ = batch.delete(&SECRETS, key));
            batch.commit(&*self.store, Durability::Durable).await?;
        }
        self.show(endpoint, BTreeMap::clear);
        Ok(())
    }

    /// Whether an endpoint has secrets that are sealed under a key which is not held: no call of its is begun.
    #[must_use]
    pub fn unreadable(&self, endpoint: &EndpointId) -> bool {
        let state = self.state.load();
        state.sealed.get(endpoint).is_some_and(|all| all.values().any(|one| state.ring.get(&one.key_id).is_none()))
    }

    /// The secrets of an endpoint, opened for one call.
    ///
    /// # Errors
    ///
    /// [`SecretError::Unopened`] when one does not open: a handler must not take its absence for a fact.
    pub fn for_call(&self, endpoint: &EndpointId, owner: &Owner) -> Result<Vec<Secret>, SecretError> {
        let state = self.state.load();
        let Some(all) = state.sealed.get(endpoint) else { return Ok(Vec::new()) };
        let open = |(name, sealed): (&SecretName, &Sealed)| {
            let place = Binding { owner: owner.share(), endpoint: endpoint.as_str(), name: name.as_str() };
            let value = sealed.open(&state.ring, place).ok_or(SecretError::Unopened)?;
            Ok(Secret { name: name.as_str().to_owned(), value, visibility: sealed.visibility })
        };
        all.iter().map(open).collect()
    }

    /// Commits a change of one endpoint's secrets. When nobody knows whether it happened, what is in
    /// the store counts.
    async fn commit(&self, endpoint: &EndpointId, batch: Batch) -> Result<(), StoreError> {
        let done = batch.commit(&*self.store, Durability::Durable).await;
        if done.is_err()
            && let Err(error) = self.show_stored(endpoint).await
        {
            tracing::warn!(endpoint.id = %endpoint, %error, "what became of a change of secrets could not be read");
        }
        done.map(|_| ())
    }

    /// The endpoints whose secrets are others since this change.
    pub fn changed(change: &Change) -> impl Iterator<Item = EndpointId> + use<'_> {
        SECRETS.changed(change).map(|(Counted(endpoint), _)| endpoint)
    }

    /// Shows calls what is stored of an endpoint's secrets, as another host of the store may have changed it. False where that is shown.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn refresh(&self, endpoint: &EndpointId) -> Result<bool, StoreError> {
        let _one = self.changing.lock().await;
        self.show_stored(endpoint).await
    }

    /// The same of all secrets; answers whose were others.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn refresh_all(&self) -> Result<Vec<EndpointId>, StoreError> {
        let _one = self.changing.lock().await;
        let sealed = self.read_all().await?;
        let before = self.state.load_full();
        let all = before.sealed.keys().chain(sealed.keys()).collect::<BTreeSet<_>>();
        let others = all.into_iter().filter(|id| before.sealed.get(id) != sealed.get(id)).cloned().collect();
        self.state.store(Arc::new(State { ring: Arc::clone(&before.ring), sealed }));
        Ok(others)
    }

    /// `changing` must be held.
    async fn show_stored(&self, endpoint: &EndpointId) -> Result<bool, StoreError> {
        let rows = SECRETS.readable(&*self.store, &SECRETS.under(&Counted(endpoint.clone())), PAGE, Direction::Forward).await?;
        let stored: OfEndpoint = rows.into_iter().filter_map(|((_, name), sealed)| Some((name.parse().ok()?, sealed?))).collect();
        let state = self.state.load();
        if state.sealed.get(endpoint).map_or(stored.is_empty(), |shown| **shown == stored) {
            return Ok(false);
        }
        self.show(endpoint, |all| *all = stored);
        Ok(true)
    }

    /// Shows calls what is sealed for an endpoint from now on. `changing` must be held.
    fn show(&self, endpoint: &EndpointId, change: impl FnOnce(&mut OfEndpoint)) {
        let mut state = State::clone(&self.state.load());
        let mut all = state.sealed.remove(endpoint).map(Arc::unwrap_or_clone).unwrap_or_default();
        change(&mut all);
        if !all.is_empty() {
            state.sealed.insert(endpoint.clone(), Arc::new(all));
        }
        self.state.store(Arc::new(state));
    }

    async fn read_all(&self) -> Result<HashMap<EndpointId, Arc<OfEndpoint>>, StoreError> {
        let mut found = HashMap::<EndpointId, OfEndpoint>::new();
        let mut range = SECRETS.all();
        loop {
            let rows = SECRETS.page(&*self.store, &range, PAGE, Direction::Forward).await?;
            let full = rows.len() == PAGE;
            for row in rows {
                range = range.after(&row.key);
                let (Counted(endpoint), name) = row.key;
                let name = name.parse().map_err(|_| StoreError::Away("the name of a secret does not read".to_owned()))?;
                found.entry(endpoint).or_default().insert(name, row.value);
            }
            if !full {
                return Ok(found.into_iter().map(|(endpoint, all)| (endpoint, Arc::new(all))).collect());
            }
        }
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

fn key(endpoint: &EndpointId, name: &SecretName) -> Key {
    (Counted(endpoint.clone()), name.as_str().to_owned())
}

#[cfg(test)]
mod tests;
