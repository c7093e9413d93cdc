//! `ctx.kv`: JSON values by key for each tool, with quotas.
//!
//! Invariant: the usage record of a tool is the number and size of its entries in the store. Every commit that changes
//! one changes the other and checks both. Only [`EndpointKv::transact`] writes entries for a call, and only
//! [`EndpointKv::reclaim`] removes expired ones.
//!
//! The commit that deletes a tool sets its usage to [`Usage::CLOSED`], so that calls that still run on another host can
//! store nothing after it. A write that does not change the usage replaces or removes an existing entry, so it fails
//! once that entry is gone.
//!
//! An expired entry is invisible to readers but counts toward the quota until it is removed, which happens when its key
//! is written or when the tool reaches its quota. Writes are [`Durability::Buffered`].

mod entry;
pub(super) mod list;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::value::RawValue;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EndpointId,
    lock::Lock,
    plural::plural,
};
use tollhouse_protocol::{AtomicCheck, AtomicWrite, Limits, OpFailure, OpValue, limits::LIST_BYTES};
use tollhouse_store::{Batch, CountedText, Direction, Durability, Row, Store, StoreError, Table, Tx, UpdatePlan, schema, update};
use tollhouse_tool::Owner;

pub(super) use self::entry::Entry;
use self::entry::{apply, holds};
use super::{
    failure::{self, UpdateError, invalid_argument, quota_exceeded},
    usage::{Usage, UsageTable, WriteTurns},
};

pub(super) const KV: Table<Key, Entry> = schema::KV.holding();
pub(super) const KV_USAGE: Table<CountedText<EndpointId>, Usage> = schema::KV_USAGE.holding();
pub(super) const USAGE: UsageTable = UsageTable(&KV_USAGE);

/// The tool and the handler's own key.
pub(super) type Key = (CountedText<EndpointId>, String);

/// Maximum number of checks, and of writes, in one `atomic`.
const ATOMIC_LIMIT: usize = 100;
/// Maximum `ttlMs`: 10 years.
const MAX_TTL_MS: u64 = 10 * 365 * 24 * 3_600 * 1_000;
/// Number of entries read at once while listing or sweeping. A read ends with the entry that exceeds [`LIST_BYTES`].
const SCAN: usize = 64;
/// Maximum number of concurrent changes of all owners.
const CHANGES: usize = 128;
/// Minimum time between two sweeps of one tool, so that not every write at the quota causes a scan.
const RECLAIM_EVERY_MS: u64 = 1_000;

/// The keys and values of all tools.
pub struct Kv {
    store: Arc<dyn Store>,
    clock: Clock,
    turns: Arc<WriteTurns>,
    /// When each tool was last swept for expired entries.
    reclaimed: Lock<HashMap<EndpointId, Timestamp>>,
}

impl Kv {
    /// Creates the keys and values of this store.
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, turns: WriteTurns::new(CHANGES), reclaimed: Lock::default() }
    }

    pub(super) fn scoped<'a>(&'a self, owner: &'a Owner, endpoint: &'a EndpointId, limits: &'a Limits) -> EndpointKv<'a> {
        EndpointKv { kv: self, owner, endpoint, limits }
    }

    pub(super) async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        KV.clear(&*self.store, &KV.under(&CountedText(endpoint.clone())), u64::MAX).await?;
        USAGE.forget(&*self.store, endpoint).await?;
        self.reclaimed.lock().remove(endpoint);
        Ok(())
    }

    /// Returns whether `endpoint` may be swept now. If so, it counts as swept.
    fn begin_reclaim(&self, endpoint: &EndpointId, now: Timestamp) -> bool {
        let mut reclaimed = self.reclaimed.lock();
        reclaimed.retain(|_, at| at.plus_millis(RECLAIM_EVERY_MS) > now);
        if reclaimed.contains_key(endpoint) {
            return false;
        }
        reclaimed.insert(endpoint.clone(), now);
        true
    }
}

/// The kv of one tool, with one call's limits.
pub(super) struct EndpointKv<'a> {
    kv: &'a Kv,
    owner: &'a Owner,
    endpoint: &'a EndpointId,
    limits: &'a Limits,
}

impl EndpointKv<'_> {
    pub(super) async fn get(&self, key: String) -> Result<OpValue, OpFailure> {
        self.check_key(&key)?;
        let entry = KV.get(&*self.kv.store, &self.key(&key)).await.map_err(failure::store)?;
        let now = self.kv.clock.now();
        Ok(entry.filter(|entry| entry.live(now)).map_or(OpValue::None, |entry| OpValue::Json(entry.json)))
    }

    pub(super) async fn set(&self, key: String, value: Bytes, ttl_ms: Option<u64>) -> Result<OpValue, OpFailure> {
        self.transact(&[], &[AtomicWrite::Set { key, value, ttl_ms }]).await?;
        Ok(OpValue::None)
    }

    pub(super) async fn delete(&self, key: String) -> Result<OpValue, OpFailure> {
        self.transact(&[], &[AtomicWrite::Delete { key }]).await?;
        Ok(OpValue::None)
    }

    pub(super) async fn atomic(&self, checks: Vec<AtomicCheck>, writes: Vec<AtomicWrite>) -> Result<OpValue, OpFailure> {
        if checks.len() > ATOMIC_LIMIT || writes.len() > ATOMIC_LIMIT {
            return Err(invalid_argument(format!(
                "atomic has {} checks and {} writes, and the maximum is {ATOMIC_LIMIT} of each",
                checks.len(),
                writes.len()
            )));
        }
        let ok = self.transact(&checks, &writes).await?;
        Ok(OpValue::Json(Bytes::from_static(if ok { br#"{"ok":true}"# } else { br#"{"ok":false}"# })))
    }

    /// Applies `writes` in order if all `checks` hold, and otherwise returns false.
    async fn transact(&self, checks: &[AtomicCheck], writes: &[AtomicWrite]) -> Result<bool, OpFailure> {
        for check in checks {
            self.check_key(&check.key)?;
        }
        for write in writes {
            self.check_write(write)?;
        }
        let _turn = self.kv.turns.take(self.owner, self.endpoint).await;
        loop {
            match update(&*self.kv.store, Durability::Buffered, |tx| self.attempt(tx, checks, writes)).await.map_err(|error| error.0)? {
                Attempt::Decided => return Ok(true),
                Attempt::CheckFailed => return Ok(false),
                Attempt::OverQuota(refusal) => {
                    if !self.reclaim().await? {
                        return Err(refusal);
                    }
                }
            }
        }
    }

    async fn attempt<'a>(
        &self,
        mut tx: Tx<'a>,
        checks: &[AtomicCheck],
        writes: &[AtomicWrite],
    ) -> Result<UpdatePlan<'a, Attempt>, UpdateError> {
        let now = self.kv.clock.now();
        let mut touched: BTreeMap<&str, TouchedKey> = BTreeMap::new();
        for key in checks.iter().map(|check| check.key.as_str()).chain(writes.iter().map(written_key)) {
            if !touched.contains_key(key) {
                let row = tx.row(&KV, &self.key(key)).await?;
                touched.insert(key, TouchedKey::new(row, now));
            }
        }
        for check in checks {
            let current = touched.get(check.key.as_str()).and_then(|touched| touched.after.as_ref());
            if !holds(check.value.as_deref(), current.map(|entry| entry.json.as_ref())) {
                return tx.answer(Attempt::CheckFailed);
            }
        }
        if touched.len() > 1 {
            tx.confirms();
        }
        for write in writes {
            let slot = touched.get_mut(written_key(write)).expect("every written key was read above");
            slot.written = true;
            slot.after = apply(write, slot.after.take(), now)?;
        }
        self.decide(tx, touched).await
    }

    async fn decide<'a>(&self, mut tx: Tx<'a>, touched: BTreeMap<&str, TouchedKey>) -> Result<UpdatePlan<'a, Attempt>, UpdateError> {
        let own = CountedText(self.endpoint.clone());
        // The commit depends on the usage only if it changes.
        let stored = KV_USAGE.row(tx.store(), &own).await?;
        let before = stored.as_ref().map_or(Usage::default(), |row| row.value);
        if before.is_closed() {
            return Err(failure::deleted().into());
        }
        let mut after = before;
        for (key, touched) in touched.iter().filter(|(_, touched)| touched.written) {
            let size = |entry: &Entry| (key.len() + entry.json.len()) as u64;
            after = after.replaced(touched.row.as_ref().map(|row| size(&row.value)), touched.after.as_ref().map(size));
        }
        if let Some(refusal) = self.over_quota(before, after) {
            return tx.answer(Attempt::OverQuota(refusal));
        }
        for (key, touched) in touched.iter().filter(|(_, touched)| touched.written) {
            match (&touched.row, &touched.after) {
                (Some(row), Some(entry)) => _ = tx.replace(&KV, row, entry),
                (Some(row), None) => _ = tx.remove(&KV, row),
                (None, Some(entry)) => _ = tx.put_new(&KV, &self.key(key), entry),
                (None, None) => {}
            }
        }
        if after != before {
            tx.replace_or_insert(&KV_USAGE, stored.as_ref(), &own, &after);
        }
        tx.answer(Attempt::Decided)
    }

    fn key(&self, key: &str) -> Key {
        (CountedText(self.endpoint.clone()), key.to_owned())
    }

    /// Returns why `after` exceeds the quota. A change that does not grow is always allowed, so that a tool above a
    /// lowered quota can still shrink.
    fn over_quota(&self, before: Usage, after: Usage) -> Option<OpFailure> {
        if after.items > self.limits.kv_keys && after.items > before.items {
            return Some(quota_exceeded(format!(
                "kv would hold {}, and the maximum is {}",
                plural(after.items, "key"),
                self.limits.kv_keys
            )));
        }
        if after.bytes > self.limits.kv_bytes && after.bytes > before.bytes {
            return Some(quota_exceeded(format!("kv would hold {} bytes, and the maximum is {}", after.bytes, self.limits.kv_bytes)));
        }
        None
    }

    /// Removes the tool's expired entries. Returns whether there were any.
    async fn reclaim(&self) -> Result<bool, OpFailure> {
        let now = self.kv.clock.now();
        if !self.kv.begin_reclaim(self.endpoint, now) {
            return Ok(false);
        }
        let mut range = KV.under(&CountedText(self.endpoint.clone())).within(LIST_BYTES);
        let mut any = false;
        loop {
            let rows = KV.page(&*self.kv.store, &range, SCAN, Direction::Forward).await.map_err(failure::store)?;
            let Some(last) = rows.last() else { return Ok(any) };
            range = range.after(&last.key);
            any |= self.remove_expired(rows.into_iter().filter(|row| !row.value.live(now)).collect()).await?;
        }
    }

    async fn remove_expired(&self, expired: Vec<Row<Key, Entry>>) -> Result<bool, OpFailure> {
        if expired.is_empty() {
            return Ok(false);
        }
        let own = CountedText(self.endpoint.clone());
        let stored = KV_USAGE.row(&*self.kv.store, &own).await.map_err(failure::store)?;
        let mut usage = stored.as_ref().map_or(Usage::default(), |row| row.value);
        if usage.is_closed() {
            return Err(failure::deleted());
        }
        let mut batch = Batch::new();
        for row in expired {
            usage = usage.replaced(Some((row.key.1.len() + row.value.json.len()) as u64), None);
            batch.remove(&KV, &row);
        }
        batch.replace_or_insert(&KV_USAGE, stored.as_ref(), &own, &usage);
        // If another host came first, the next attempt will see whether there is room now.
        batch.commit_if_unchanged(&*self.kv.store, Durability::Buffered).await.map_err(failure::store)?;
        Ok(true)
    }

    fn check_key(&self, key: &str) -> Result<(), OpFailure> {
        if key.is_empty() {
            return Err(invalid_argument("a kv key must not be empty"));
        }
        if key.len() as u64 > self.limits.kv_key_bytes {
            return Err(invalid_argument(format!("the kv key has {} bytes, and the maximum is {}", key.len(), self.limits.kv_key_bytes)));
        }
        Ok(())
    }

    fn check_write(&self, write: &AtomicWrite) -> Result<(), OpFailure> {
        self.check_key(written_key(write))?;
        let AtomicWrite::Set { value, ttl_ms, .. } = write else { return Ok(()) };
        if value.len() as u64 > self.limits.kv_value_bytes {
            return Err(quota_exceeded(format!(
                "the kv value has {} bytes, and the maximum is {}",
                value.len(),
                self.limits.kv_value_bytes
            )));
        }
        if ttl_ms.is_some_and(|ttl| !(1..=MAX_TTL_MS).contains(&ttl)) {
            return Err(invalid_argument(format!("ttlMs must be 1 to {MAX_TTL_MS}")));
        }
        serde_json::from_slice::<&RawValue>(value).map_err(|_| invalid_argument("a kv value must be JSON"))?;
        Ok(())
    }
}

enum Attempt {
    /// The writes are in the transaction.
    Decided,
    CheckFailed,
    OverQuota(OpFailure),
}

/// A key in a transaction: its stored row and its new value.
struct TouchedKey {
    /// The stored row, which counts toward the usage even if expired.
    row: Option<Row<Key, Entry>>,
    after: Option<Entry>,
    written: bool,
}

impl TouchedKey {
    fn new(row: Option<Row<Key, Entry>>, now: Timestamp) -> Self {
        let after = row.as_ref().map(|row| row.value.clone()).filter(|entry| entry.live(now));
        Self { row, after, written: false }
    }
}

fn written_key(write: &AtomicWrite) -> &str {
    match write {
        AtomicWrite::Set { key, .. } | AtomicWrite::Delete { key } | AtomicWrite::Add { key, .. } => key,
    }
}

#[cfg(test)]
mod tests;
