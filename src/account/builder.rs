//! Builders: who they are, and the keys they show.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::BuilderId,
};
use tollhouse_protocol::Tier;
use tollhouse_store::{Batch, Change, Direction, Durability, Row, Store, StoreError, Table, schema, update};
use tollhouse_tool::texts;

pub use super::first_key::KEY_PREFIX;
use crate::{
    credential::{self, SecretHash},
    first_key::{FirstKeys, key_of},
    seen::Seen,
};

const BUILDERS: Table<BuilderId, Builder> = schema::BUILDERS.holding();
tollhouse_store::json_values!(Builder);

/// Longest name, in characters.
const MAX_NAME: usize = texts::MAX_BUILDER_NAME;
/// Longest contact, in characters.
const MAX_CONTACT: usize = texts::MAX_BUILDER_CONTACT;
/// Longest reason of an admin's, in characters.
const MAX_REASON: usize = texts::MAX_DECISION_REASON;
/// Builders read from the store at once.
const PAGE: usize = 500;

/// A third party who owns endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Builder {
    /// Never given twice.
    pub id: BuilderId,
    /// As it was registered.
    pub name: String,
    /// How admins reach them; shown to admins and to the builder only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When the key in force was made.
    pub key_created_at: Timestamp,
    /// While an admin suspends them: their key changes nothing, and their endpoints take no calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// The least strict tier of their endpoints, as an admin set it; the first of them sets nothing.
    #[serde(default)]
    pub tier: Tier,
    key_sha256: SecretHash,
    /// Nobody has shown the key yet: it may be lost with the answer that had it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    key_unused: bool,
}

/// Since when a builder is suspended, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// When an admin decided.
    pub since: Timestamp,
    /// Shown to the builder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `POST /ai/admin/builders/{id}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// What an admin decided.
    pub decision: Decision,
    /// For `tier`, which.
    pub tier: Option<Tier>,
    /// Shown to the builder.
    pub reason: Option<String>,
}

/// What an admin can do about a builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Until it is undone.
    Suspend,
    /// Undoes a suspension.
    Restore,
    /// Sets the least strict tier of the builder's endpoints.
    Tier,
}

/// What is decided about a builder, as far as calls of their endpoints heed it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Whether their endpoints take no calls.
    pub suspended: bool,
    /// The least strict tier of their endpoints.
    pub tier: Tier,
}

/// Why a builder was not made, or their key not changed.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum BuilderError {
    /// `pointer` is the field.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("no builder has this id")]
    Unknown,
    #[error("the builder is {0}")]
    WrongState(&'static str),
    #[error("the system gave no randomness: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Builder {
    /// A builder who is not stored yet, and their first key, of which only a hash is kept.
    ///
    /// # Errors
    ///
    /// A name or contact that cannot be.
    pub fn new(name: &str, contact: Option<&str>, now: Timestamp, keys: &FirstKeys) -> Result<(Self, String), BuilderError> {
        let field = |pointer, message| BuilderError::Field { pointer, message };
        if name.trim().is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(field("/name", format!("a name has 1 to {MAX_NAME} characters, none of them a control character")));
        }
        if contact.is_some_and(|text| text.chars().count() > MAX_CONTACT || text.chars().any(char::is_control)) {
            return Err(field("/contact", format!("a contact has at most {MAX_CONTACT} characters, none of them a control character")));
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
                key_sha256,
                key_unused: true,
            },
            key,
        ))
    }

    /// The record for the builder and for admins.
    #[must_use]
    pub fn own(&self) -> Value {
        json!({
            "builderId": self.id,
            "name": self.name,
            "contact": self.contact,
            "createdAt": self.created_at,
            "keyCreatedAt": self.key_created_at,
            "suspended": self.suspended,
            "tier": self.tier,
        })
    }

    /// What is decided about them.
    #[must_use]
    pub fn judged(&self) -> Judged {
        Judged { suspended: self.suspended.is_some(), tier: self.tier }
    }

    /// What stores them, who are new.
    #[must_use]
    pub fn stored(&self) -> Batch {
        BUILDERS.put(&self.id, self)
    }
}

fn new_key(id: &BuilderId) -> Result<(String, SecretHash), BuilderError> {
    let secret = credential::random_secret().map_err(|error| BuilderError::Random(error.to_string()))?;
    Ok(key_of(id, &secret))
}

/// All builders of a host.
pub struct Builders {
    store: Arc<dyn Store>,
    clock: Clock,
    seen: Seen,
    first_keys: FirstKeys,
    /// Those that were asked for: nobody's changes.
    names: Mutex<HashMap<BuilderId, Arc<str>>>,
}

impl fmt::Debug for Builders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builders").finish_non_exhaustive()
    }
}

impl Builders {
    /// Builders of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, first_keys: FirstKeys) -> Self {
        Self { seen: Seen::new(Arc::clone(&store), clock.clone()), store, clock, first_keys, names: Mutex::default() }
    }

    /// What first keys are derived from.
    #[must_use]
    pub fn first_keys(&self) -> &FirstKeys {
        &self.first_keys
    }

    /// Who is another since this change.
    pub fn changed(change: &Change) -> impl Iterator<Item = BuilderId> + use<'_> {
        BUILDERS.changed(change)
    }

    /// Whose key this is. Unknown ids and wrong secrets look the same.
    ///
    /// # Errors
    ///
    /// The store's.
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

    /// When a builder's key was last shown, to about an hour; `None` where it never was.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn seen(&self, id: &BuilderId) -> Result<Option<Timestamp>, StoreError> {
        self.seen.of(id).await
    }

    /// Notes that the key was shown. On disk before it opens anything: from then on no payment is given another one.
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

    /// Gives the first key of a builder again, which nobody has used, and writes what tells of it; `None` where somebody has. Nobody
    /// but who paid for the registration may ask. A key that cannot be derived any more gives way to another: the master key was rotated,
    /// or an earlier version made it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn complete(&self, id: &BuilderId, told: impl Fn(Timestamp) -> Batch) -> Result<Option<String>, BuilderError> {
        let told = &told;
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
            tx.append(told(self.clock.now()));
            tx.answer(Some(key))
        });
        completing.await
    }

    /// The builder with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn get(&self, id: &BuilderId) -> Result<Option<Builder>, StoreError> {
        BUILDERS.get(&*self.store, id).await
    }

    /// What the builder with this id is called.
    ///
    /// # Errors
    ///
    /// The store's, where nobody asked before.
    pub async fn name(&self, id: &BuilderId) -> Result<Option<Arc<str>>, StoreError> {
        let names = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names().get(id) {
            return Ok(Some(Arc::clone(name)));
        }
        let Some(builder) = self.get(id).await? else { return Ok(None) };
        let name: Arc<str> = builder.name.into();
        names().insert(id.clone(), Arc::clone(&name));
        Ok(Some(name))
    }

    /// Gives the builder a new key, and the event that tells of it; the old key is worth nothing from now on.
    ///
    /// # Errors
    ///
    /// [`BuilderError::Unknown`], no randomness, or the store's, with `Conflict` for two at once.
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

    /// Suspends the builder, restores them, or sets their tier, and writes the event that tells of it.
    ///
    /// # Errors
    ///
    /// [`BuilderError::Unknown`], a reason that is too long, [`BuilderError::WrongState`] where there is nothing to do, or the
    /// store's, with `Conflict` for a key that changed at the same time.
    pub async fn judge(&self, id: &BuilderId, verdict: &Verdict, event: Batch) -> Result<Builder, BuilderError> {
        if verdict.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(BuilderError::Field { pointer: "/reason", message: format!("a reason has at most {MAX_REASON} characters") });
        }
        if (verdict.decision == Decision::Tier) != verdict.tier.is_some() {
            return Err(BuilderError::Field { pointer: "/tier", message: "the decision `tier` names one, and no other does".to_owned() });
        }
        let before = BUILDERS.row(&*self.store, id).await?.ok_or(BuilderError::Unknown)?;
        let mut builder = before.value.clone();
        match (verdict.decision, &builder.suspended) {
            (Decision::Suspend, None) => {
                builder.suspended = Some(Suspension { since: self.clock.now(), reason: verdict.reason.clone() });
            }
            (Decision::Restore, Some(_)) => builder.suspended = None,
            (Decision::Suspend, Some(_)) => return Err(BuilderError::WrongState("suspended already")),
            (Decision::Restore, None) => return Err(BuilderError::WrongState("not suspended")),
            (Decision::Tier, _) if verdict.tier == Some(builder.tier) => return Err(BuilderError::WrongState("in this tier already")),
            (Decision::Tier, _) => builder.tier = verdict.tier.unwrap_or(builder.tier),
        }
        self.replace(&before, &builder, event).await?;
        Ok(builder)
    }

    /// The builders about whom something is decided, and what.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn judged(&self) -> Result<HashMap<BuilderId, Judged>, StoreError> {
        let (mut judged, mut after) = (HashMap::new(), None);
        loop {
            let page = self.list(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(judged) };
            after = Some(last.id.clone());
            let all = page.into_iter().map(|builder| (builder.judged(), builder.id));
            judged.extend(all.filter(|(judged, _)| *judged != Judged::default()).map(|(judged, id)| (id, judged)));
        }
    }

    /// Builders by id, from the oldest; at most `limit` of those after `after`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list(&self, after: Option<&BuilderId>, limit: usize) -> Result<Vec<Builder>, StoreError> {
        let range = after.map_or_else(|| BUILDERS.all(), |id| BUILDERS.all().after(id));
        let rows = BUILDERS.page(&*self.store, &range, limit, Direction::Forward).await?;
        Ok(rows.into_iter().map(|row| row.value).collect())
    }

    async fn replace(&self, before: &Row<BuilderId, Builder>, builder: &Builder, mut event: Batch) -> Result<(), StoreError> {
        event.replace(&BUILDERS, before, builder);
        event.commit(&*self.store, Durability::Durable).await.map(|_| ())
    }
}
