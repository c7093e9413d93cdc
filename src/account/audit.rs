//! The audit trail: what admins and builders did or tried to do.
//!
//! An entry is on disk before its action begins, and gets its outcome when the action has ended. An entry without an
//! outcome means that the host ended during the action. Entries contain only names, never a submitted value or a
//! credential. They are removed when they are too old. If there are too many, the oldest entries of actors with more
//! than an equal share are removed.

use std::{collections::HashMap, hash::Hash, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use tollhouse_api::AuditOutcome;
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::{AuditId, BuilderId, RequestId},
};
use tollhouse_store::{Batch, Direction, Durability, Space, Store, StoreError, Table, schema};
use tollhouse_tool::Slug;

/// How many entries are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Maximum number of entries. Above it, the oldest entries of actors with more than an equal share are removed. A
    /// tenth more, and those of the last minute, may exist until they are trimmed. Default: 1,000,000.
    pub count: u64,
    /// Maximum age of an entry, in milliseconds. Default: 400 days, for operators who look once a year.
    pub age_ms: u64,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { count: 1_000_000, age_ms: 400 * 24 * 3_600 * 1_000 }
    }
}

/// The audit trail of a host.
pub struct Audit {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: AuditSettings,
}

impl Audit {
    /// Creates a trail with these retention settings.
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: AuditSettings) -> Self {
        Self { store, clock, settings }
    }

    /// Records an action that is about to begin. It must not begin unless this succeeds.
    #[boxed]
    pub async fn begin(&self, action: Action) -> Result<Entry, StoreError> {
        let at = self.clock.now();
        let entry = Entry { id: AuditId::of_time(at), at, action, outcome: None };
        entry.stored().commit(&*self.store, Durability::Durable).await?;
        Ok(entry)
    }

    /// Records how an action ended.
    #[boxed]
    pub async fn end(&self, mut entry: Entry, status: u16, code: Option<&str>) -> Result<(), StoreError> {
        entry.outcome = Some(AuditOutcome { at: self.clock.now(), status, code: code.map(str::to_owned) });
        entry.stored().commit(&*self.store, Durability::Durable).await.map(|_| ())
    }

    /// Removes entries that are too old or too many.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next call tries the rest again.
    #[boxed]
    pub async fn sweep(&self) -> Result<(), StoreError> {
        AUDIT.expire(&*self.store, &AUDIT.all().before(&self.oldest())).await?;
        // The store's own count may be wrong after a crash. It only decides when to count.
        let about = self.store.sizes().spaces.get(&Space::Audit).map_or(0, |size| size.entries);
        if about > self.settings.count.saturating_add(self.settings.count / 10) {
            self.trim().await?;
        }
        Ok(())
    }

    /// Returns the time before which entries are no longer kept.
    fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }
}

/// A query for entries.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only entries of this actor. Default: of everybody.
    pub by: Option<Actor>,
    pub slug: Option<Slug>,
    /// Maximum number of entries in the answer.
    pub limit: usize,
    /// The cursor from the previous page.
    pub before: Option<AuditId>,
}

/// A page of entries, newest first.
#[derive(Debug, Clone, Default)]
pub struct AuditPage {
    pub entries: Vec<Entry>,
    /// The cursor for the next page, if there may be more.
    pub next: Option<AuditId>,
}

impl Audit {
    /// Returns the entries that match `query`.
    #[boxed]
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let oldest = self.oldest().max(query.since.unwrap_or(Timestamp(0)));
        let mut range = AUDIT.all().from(&oldest);
        if let Some(before) = &query.before {
            range = range.before(&key(before));
        }
        let (entries, next) = AUDIT.newest(&*self.store, range, query.limit, |entry| query.wants(entry)).await?;
        Ok(AuditPage { entries, next: next.map(|(_, id)| id) })
    }
}

impl AuditQuery {
    fn wants(&self, entry: &Entry) -> bool {
        self.by.as_ref().is_none_or(|by| *by == entry.action.actor)
            && self.slug.as_ref().is_none_or(|slug| entry.action.slug.as_ref() == Some(slug))
    }
}

/// Parses `admin`, or the id of a builder.
impl FromStr for Actor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "admin" => Ok(Self::Admin),
            id => id.parse().map(|builder_id| Self::Builder { builder_id }).map_err(|_| "`actor` must be `admin` or the id of a builder"),
        }
    }
}

/// Number of entries examined at once.
const PAGE: usize = 1_000;

impl Audit {
    /// Removes entries beyond the limit. It reads all entries and is called rarely. It counts from the newest entry on,
    /// so that two hosts that trim at the same time remove the same entries.
    async fn trim(&self) -> Result<(), StoreError> {
        let has = self.tally().await?;
        let mut stays: HashMap<_, _> =
            beyond(&has, self.settings.count).into_iter().map(|(who, more)| (who.clone(), has[who].saturating_sub(more))).collect();
        let mut range = AUDIT.all();
        while !stays.is_empty() {
            let entries = AUDIT.page(&*self.store, &range, PAGE, Direction::Backward).await?;
            let Some(last) = entries.last() else { break };
            range = range.before(&last.key);
            let (mut batch, mut removed) = (Batch::new(), 0);
            for entry in &entries {
                match stays.get_mut(&entry.value.action.actor) {
                    Some(0) => {
                        batch.sweep(&AUDIT, entry);
                        removed += 1;
                    }
                    Some(more) => *more -= 1,
                    None => {}
                }
            }
            if !batch.changes_nothing() {
                batch.commit(&*self.store, Durability::Buffered).await?;
                AUDIT.expired(removed);
            }
        }
        Ok(())
    }

    /// Counts the entries of each actor.
    async fn tally(&self) -> Result<HashMap<Actor, u64>, StoreError> {
        let (mut tally, mut range) = (HashMap::new(), AUDIT.all());
        while let Some(entries) = AUDIT.sound(&*self.store, &mut range, PAGE).await? {
            entries.into_iter().for_each(|entry| *tally.entry(entry.value.action.actor).or_default() += 1);
        }
        Ok(tally)
    }
}

/// Returns how much each actor exceeds its share of `max`. Shares are equal, and what some leave unused is divided
/// equally among the others.
fn beyond<'a, K: Eq + Hash>(has: &'a HashMap<K, u64>, max: u64) -> HashMap<&'a K, u64> {
    let mut counts: Vec<_> = has.values().copied().collect();
    counts.sort_unstable();
    let (mut remaining, mut others) = (max, counts.len() as u64);
    for count in counts {
        let part = remaining / others;
        if count > part {
            let more = |(who, count): (&'a K, &u64)| Some((who, count.checked_sub(part)?)).filter(|(_, more)| *more > 0);
            return has.iter().filter_map(more).collect();
        }
        (remaining, others) = (remaining - count, others - 1);
    }
    HashMap::new()
}

const AUDIT: Table<(Timestamp, AuditId), Entry> = schema::AUDIT.holding();
tollhouse_store::json_values!(Entry);

/// The actor of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Actor {
    Admin,
    /// A builder, identified by their key.
    #[serde(rename_all = "camelCase")]
    Builder {
        builder_id: BuilderId,
    },
}

/// An action, as it is known before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    pub actor: Actor,
    pub method: String,
    /// Path of the request, without the query.
    pub path: String,
    pub slug: Option<Slug>,
    /// The builder that an admin named in the query.
    pub builder_id: Option<BuilderId>,
    /// The slug or id of the item that it is about. Absent if it is about the host.
    pub subject: Option<String>,
    /// The request id, which the response contains too.
    pub request_id: RequestId,
    /// Names of the body's fields.
    pub fields: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its id, which determines its place in the trail.
    pub id: AuditId,
    pub at: Timestamp,
    #[serde(flatten)]
    pub action: Action,
    /// The outcome. Absent while the action runs, and forever if the host ended during it.
    pub outcome: Option<AuditOutcome>,
}

impl Entry {
    /// Creates an entry for an action that succeeded at `at`.
    pub fn done(action: Action, at: Timestamp) -> Self {
        Self { id: AuditId::of_time(at), at, action, outcome: Some(AuditOutcome { at, status: 200, code: None }) }
    }

    #[must_use]
    pub fn stored(&self) -> Batch {
        AUDIT.put(&key(&self.id), self)
    }
}

fn key(id: &AuditId) -> (Timestamp, AuditId) {
    (id.made_at(), id.clone())
}

#[cfg(test)]
mod tests;
