//! Builders and their keys.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use tollhouse_api as api;
pub use tollhouse_api::{BuilderDecision, BuilderVerdict, Suspension};
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::BuilderId,
    lock::Lock,
};
use tollhouse_protocol::Tier;
use tollhouse_store::{Batch, CommittedChange, Direction, Durability, Row, Store, StoreError, Table, schema, update};
use tollhouse_tool::{
    ANY_PUBLIC_HOST,
    public_texts::{MAX_BUILDER_CONTACT, MAX_BUILDER_NAME, MAX_DECISION_REASON},
};

pub use super::first_key::KEY_PREFIX;
use crate::{
    credential::{self, SecretHash},
    first_key::{FirstKeys, key_of},
};

const BUILDERS: Table<BuilderId, Builder> = schema::BUILDERS.holding();
tollhouse_store::json_values!(Builder);

/// Number of builders read from the store at once.
const PAGE: usize = 500;

/// A third party who owns tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Builder {
    pub id: BuilderId,
    pub name: String,
    /// How admins reach the builder. Shown only to admins and to the builder.
    pub contact: Option<String>,
    pub created_at: Timestamp,
    /// When the current key was created.
    pub key_created_at: Timestamp,
    /// Set while an admin suspends the builder: their key can change nothing, and their tools accept no calls.
    pub suspended: Option<Suspension>,
    /// The least strict tier for the builder's tools, as set by an admin. The first tier imposes nothing.
    pub tier: Tier,
    /// Whether an admin lets the builder's tools list [`ANY_PUBLIC_HOST`] without approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_public_host: bool,
    key_sha256: SecretHash,
    /// Whether the key has never been used. It may have been lost with the response that contained it.
    key_unused: bool,
}

/// The decisions about a builder that affect calls of their tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuilderStanding {
    /// Whether the builder's tools accept no calls.
    pub suspended: bool,
    /// The least strict tier for the builder's tools.
    pub tier: Tier,
    /// Whether the builder's tools may list any public host.
    pub any_public_host: bool,
}

/// Why a builder could not be created or their key could not be changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BuilderError {
    /// `pointer` names the invalid field.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("no builder has this id")]
    Unknown,
    #[error("the builder is {0}")]
    WrongState(&'static str),
    #[error("no random bytes are available: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Builder {
    /// Creates a builder, who is not stored yet, and their first key. Only a hash of the key is kept.
    pub fn new(name: &str, contact: Option<&str>, now: Timestamp, keys: &FirstKeys) -> Result<(Self, String), BuilderError> {
        let field = |pointer, message| BuilderError::Field { pointer, message };
        if name.trim().is_empty() || name.chars().count() > MAX_BUILDER_NAME || name.chars().any(char::is_control) {
            return Err(field("/name", format!("a name must have 1 to {MAX_BUILDER_NAME} characters and no control characters")));
        }
        if contact.is_some_and(|text| text.chars().count() > MAX_BUILDER_CONTACT || text.chars().any(char::is_control)) {
            return Err(field(
                "/contact",
                format!("a contact must have at most {MAX_BUILDER_CONTACT} characters and no control characters"),
            ));
        }
        let id = BuilderId::generate();
        let (key, key_sha256) = keys.make(&id);
        let contact = contact.map(str::to_owned);
        Ok((
            Self {
                id,
                name: name.to_owned(),
                contact,
                created_at: now,
                key_created_at: now,
                suspended: None,
                tier: Tier::default(),
                any_public_host: false,
                key_sha256,
                key_unused: true,
            },
            key,
        ))
    }

    /// Returns the record for the builder and for admins.
    pub fn own(&self) -> api::Builder {
        api::Builder {
            builder_id: self.id.clone(),
            name: self.name.clone(),
            contact: self.contact.clone(),
            created_at: self.created_at,
            key_created_at: self.key_created_at,
            suspended: self.suspended.clone(),
            tier: self.tier,
            allowed_hosts: self.any_public_host.then(|| ANY_PUBLIC_HOST.to_owned()).into_iter().collect(),
        }
    }

    /// Returns the decisions about the builder that affect calls.
    pub fn standing(&self) -> BuilderStanding {
        BuilderStanding { suspended: self.suspended.is_some(), tier: self.tier, any_public_host: self.any_public_host }
    }

    #[must_use]
    pub fn stored(&self) -> Batch {
        BUILDERS.put(&self.id, self)
    }
}

fn new_key(id: &BuilderId) -> Result<(String, SecretHash), BuilderError> {
    let secret = credential::random_secret().map_err(|error| BuilderError::Random(error.to_string()))?;
    Ok(key_of(id, &secret))
}

pub struct Builders {
    store: Arc<dyn Store>,
    clock: Clock,
    seen: LastSeenTimes,
    first_keys: FirstKeys,
    /// Cache of names, which never change.
    names: Lock<HashMap<BuilderId, Arc<str>>>,
    /// Number of changes that can end the access of a key.
    revision: AtomicU64,
}

impl fmt::Debug for Builders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builders").finish_non_exhaustive()
    }
}

impl Builders {
    pub fn new(store: Arc<dyn Store>, clock: Clock, first_keys: FirstKeys) -> Self {
        Self {
            seen: LastSeenTimes::new(Arc::clone(&store), clock.clone()),
            store,
            clock,
            first_keys,
            names: Lock::default(),
            revision: AtomicU64::new(0),
        }
    }

    pub fn first_keys(&self) -> &FirstKeys {
        &self.first_keys
    }

    /// Returns the builders that a change affects.
    pub fn changed(change: &CommittedChange) -> impl Iterator<Item = BuilderId> + use<'_> {
        BUILDERS.changed(change)
    }

    /// Returns a number that changes with every new key and every decision about a builder, also those on other hosts of
    /// the store. Read it before the builder whose changes you want to notice.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Records that a builder may have changed in the store.
    pub fn note_change(&self) {
        self.revision.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the builder with this key. Unknown ids and wrong secrets give the same result.
    pub async fn by_key(&self, key: &str) -> Result<Option<Builder>, StoreError> {
        let Some((id, secret)) = credential::parts(KEY_PREFIX, key) else { return Ok(None) };
        let Ok(id) = format!("{}{id}", BuilderId::PREFIX).parse::<BuilderId>() else { return Ok(None) };
        let known = match self.get(&id).await?.filter(|builder| builder.key_sha256.matches(secret)) {
            Some(builder) if builder.key_unused => self.used(&id, secret).await?,
            known => known,
        };
        if known.is_some() {
            self.seen.note(&id).await;
        }
        Ok(known)
    }

    /// Returns when a builder's key was last used, to about an hour, or `None` if never.
    #[boxed]
    pub async fn seen(&self, id: &BuilderId) -> Result<Option<Timestamp>, StoreError> {
        self.seen.of(id).await
    }

    /// Records that the key was used, durably and before it grants access. From then on no payment yields another key.
    async fn used(&self, id: &BuilderId, secret: &str) -> Result<Option<Builder>, StoreError> {
        let noting = update(&*self.store, Durability::Durable, |mut tx| async move {
            let Some(row) = tx.row(&BUILDERS, id).await?.filter(|row| row.value.key_sha256.matches(secret)) else {
                return tx.answer::<_, StoreError>(None);
            };
            let builder = Builder { key_unused: false, ..row.value.clone() };
            tx.replace(&BUILDERS, &row, &builder);
            tx.answer(Some(builder))
        });
        noting.await
    }

    /// Returns a builder's first key again if it has never been used, and writes the batch from `reported`. Returns
    /// `None` if it has been used. The caller must have verified that the same payment paid for the registration. A key
    /// that can no longer be derived, because the master key was rotated, is replaced by a new one.
    pub async fn complete(&self, id: &BuilderId, reported: impl Fn(Timestamp) -> Batch) -> Result<Option<String>, BuilderError> {
        let reported = &reported;
        let completing = update(&*self.store, Durability::Durable, |mut tx| async move {
            let Some(row) = tx.row(&BUILDERS, id).await?.filter(|row| row.value.key_unused) else {
                return tx.answer::<_, BuilderError>(None);
            };
            let key = match self.first_keys.find(id, |hash| *hash == row.value.key_sha256) {
                Some(key) => key,
                None => {
                    let (key, hash) = self.first_keys.make(id);
                    let builder = Builder { key_sha256: hash, key_created_at: self.clock.now(), ..row.value.clone() };
                    tx.replace(&BUILDERS, &row, &builder);
                    key
                }
            };
            tx.append(reported(self.clock.now()));
            tx.answer(Some(key))
        });
        completing.await
    }

    pub async fn get(&self, id: &BuilderId) -> Result<Option<Builder>, StoreError> {
        BUILDERS.get(&*self.store, id).await
    }

    #[boxed]
    pub async fn name(&self, id: &BuilderId) -> Result<Option<Arc<str>>, StoreError> {
        let names = || self.names.lock();
        if let Some(name) = names().get(id) {
            return Ok(Some(Arc::clone(name)));
        }
        let Some(builder) = self.get(id).await? else { return Ok(None) };
        let name: Arc<str> = builder.name.into();
        names().insert(id.clone(), Arc::clone(&name));
        Ok(Some(name))
    }

    /// Gives the builder a new key and writes `event`. The old key becomes invalid.
    ///
    /// # Errors
    ///
    /// [`BuilderError::Unknown`], no randomness, or an error of the store, which is `Conflict` for two rotations at
    /// once.
    #[boxed]
    pub async fn rotate(&self, id: &BuilderId, event: Batch) -> Result<(Builder, String), BuilderError> {
        let before = BUILDERS.row(&*self.store, id).await?.ok_or(BuilderError::Unknown)?;
        let mut builder = before.value.clone();
        let (key, hash) = new_key(id)?;
        builder.key_sha256 = hash;
        builder.key_created_at = self.clock.now();
        builder.key_unused = false;
        self.replace(&before, &builder, event).await?;
        Ok((builder, key))
    }

    /// Suspends or restores the builder, or sets their tier or hosts, and writes `event`.
    ///
    /// # Errors
    ///
    /// [`BuilderError::Unknown`], a reason that is too long, [`BuilderError::WrongState`] if there is nothing to do, or
    /// an error of the store, which is `Conflict` if the key changed at the same time.
    #[boxed]
    pub async fn set_standing(&self, id: &BuilderId, verdict: &BuilderVerdict, event: Batch) -> Result<Builder, BuilderError> {
        if verdict.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_DECISION_REASON) {
            return Err(BuilderError::Field {
                pointer: "/reason",
                message: format!("a reason must have at most {MAX_DECISION_REASON} characters"),
            });
        }
        if (verdict.decision == BuilderDecision::Tier) != verdict.tier.is_some() {
            return Err(BuilderError::Field {
                pointer: "/tier",
                message: "send `tier` with the decision `tier`, and only with it".to_owned(),
            });
        }
        let is_of_hosts = matches!(verdict.decision, BuilderDecision::Grant | BuilderDecision::Revoke);
        if is_of_hosts != (verdict.allowed_hosts == [ANY_PUBLIC_HOST]) || !is_of_hosts && !verdict.allowed_hosts.is_empty() {
            return Err(BuilderError::Field {
                pointer: "/allowedHosts",
                message: "send `allowedHosts` as `[\"*\"]` with the decisions `grant` and `revoke`, and only with them".to_owned(),
            });
        }
        let before = BUILDERS.row(&*self.store, id).await?.ok_or(BuilderError::Unknown)?;
        let mut builder = before.value.clone();
        match (verdict.decision, &builder.suspended) {
            (BuilderDecision::Suspend, None) => {
                builder.suspended = Some(Suspension { since: self.clock.now(), reason: verdict.reason.clone() });
            }
            (BuilderDecision::Restore, Some(_)) => builder.suspended = None,
            (BuilderDecision::Suspend, Some(_)) => return Err(BuilderError::WrongState("already suspended")),
            (BuilderDecision::Restore, None) => return Err(BuilderError::WrongState("not suspended")),
            (BuilderDecision::Tier, _) if verdict.tier == Some(builder.tier) => {
                return Err(BuilderError::WrongState("already in this tier"));
            }
            (BuilderDecision::Tier, _) => builder.tier = verdict.tier.unwrap_or(builder.tier),
            (BuilderDecision::Grant, _) if builder.any_public_host => {
                return Err(BuilderError::WrongState("already allowed to reach any public host"));
            }
            (BuilderDecision::Revoke, _) if !builder.any_public_host => {
                return Err(BuilderError::WrongState("not allowed to reach any public host"));
            }
            (BuilderDecision::Grant | BuilderDecision::Revoke, _) => builder.any_public_host = verdict.decision == BuilderDecision::Grant,
        }
        self.replace(&before, &builder, event).await?;
        Ok(builder)
    }

    /// Returns the builders with decisions that affect calls.
    #[boxed]
    pub async fn standing(&self) -> Result<HashMap<BuilderId, BuilderStanding>, StoreError> {
        let (mut judged, mut after) = (HashMap::new(), None);
        loop {
            let page = self.list(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(judged) };
            after = Some(last.id.clone());
            let all = page.into_iter().map(|builder| (builder.standing(), builder.id));
            judged.extend(all.filter(|(judged, _)| *judged != BuilderStanding::default()).map(|(judged, id)| (id, judged)));
        }
    }

    /// Lists up to `limit` builders after `after`, in order of id, which is from the oldest.
    #[boxed]
    pub async fn list(&self, after: Option<&BuilderId>, limit: usize) -> Result<Vec<Builder>, StoreError> {
        let range = after.map_or_else(|| BUILDERS.all(), |id| BUILDERS.all().after(id));
        let rows = BUILDERS.page(&*self.store, &range, limit, Direction::Forward).await?;
        Ok(rows.into_iter().map(|row| row.value).collect())
    }

    async fn replace(&self, before: &Row<BuilderId, Builder>, builder: &Builder, mut event: Batch) -> Result<(), StoreError> {
        event.replace(&BUILDERS, before, builder);
        let replaced = event.commit(&*self.store, Durability::Durable).await.map(|_| ());
        // Even after an error, because the store may have committed it.
        self.note_change();
        replaced
    }
}

const BUILDER_SEEN: Table<BuilderId, LastSeen> = schema::BUILDER_SEEN.holding();
tollhouse_store::json_values!(LastSeen);

/// Minimum time between two writes for one builder, in milliseconds.
const WRITE_INTERVAL_MS: u64 = 3_600_000;

/// When a builder's key was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct LastSeen {
    at: Timestamp,
}

/// When each builder's key was last used.
struct LastSeenTimes {
    store: Arc<dyn Store>,
    clock: Clock,
    /// The times that this process has written, so that a request costs the store nothing.
    written: Lock<HashMap<BuilderId, Timestamp>>,
}

impl LastSeenTimes {
    fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, written: Lock::default() }
    }

    /// Records that a builder's key is in use. If the write fails, the next use tries again.
    async fn note(&self, id: &BuilderId) {
        let at = self.clock.now();
        {
            let mut written = self.written.lock();
            if written.get(id).is_some_and(|before| at.0 < before.0.saturating_add(WRITE_INTERVAL_MS)) {
                return;
            }
            written.insert(id.clone(), at);
        }
        if let Err(error) = BUILDER_SEEN.put(id, &LastSeen { at }).commit(&*self.store, Durability::Buffered).await {
            tracing::debug!(%error, "the last use of a builder's key could not be recorded");
            self.written.lock().remove(id);
        }
    }

    async fn of(&self, id: &BuilderId) -> Result<Option<Timestamp>, StoreError> {
        Ok(BUILDER_SEEN.get(&*self.store, id).await?.map(|seen| seen.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_store::memory::MemoryStore;

    #[tokio::test]
    async fn last_use_is_recorded_hourly() {
        let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000)));
        let seen = LastSeenTimes::new(Arc::clone(&store) as _, clock.clone());
        let id = BuilderId::generate();
        assert_eq!(seen.of(&id).await.unwrap(), None);
        for (at, reported) in
            [(1_000, 1_000), (1_000 + WRITE_INTERVAL_MS - 1, 1_000), (1_000 + WRITE_INTERVAL_MS, 1_000 + WRITE_INTERVAL_MS)]
        {
            clock.set(Timestamp(at));
            seen.note(&id).await;
            assert_eq!(seen.of(&id).await.unwrap(), Some(Timestamp(reported)));
        }
        assert_eq!(
            LastSeenTimes::new(store, clock).of(&id).await.unwrap(),
            Some(Timestamp(1_000 + WRITE_INTERVAL_MS)),
            "also after a restart"
        );
    }
}
