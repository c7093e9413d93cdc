//! `ctx.kv`: JSON values by key, scoped to one endpoint, with quotas.
//!
//! Invariant: the usage of an endpoint is the number and bytes of its entries in the store. Every
//! commit that changes one changes the other and checks both; [`Scoped::transact`] is the only
//! place that writes entries for a call, [`Scoped::reclaim`] the only one that removes expired ones.
//!
//! An expired entry is absent to every reader and counts until it is swept, which happens when its
//! key is written or the endpoint comes to its quota. Writes are [`Durability::Buffered`].

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Bound,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tollhouse_protocol::{AtomicCheck, AtomicWrite, Limits, OpFailure, OpValue, limits::LIST_LIMIT};

use super::{
    failure::{self, invalid_argument, quota_exceeded},
    scope::{self, ATTEMPTS, Turns, Usage, back_off},
};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::EndpointId,
    },
    store::{Check, Direction, Durability, KeyRange, Space, Store, StoreError, Write},
};

/// Most checks, and most writes, of one `atomic`.
const ATOMIC_LIMIT: usize = 100;
/// Longest `ttlMs`: 10 years.
const MAX_TTL_MS: u64 = 10 * 365 * 24 * 3_600 * 1_000;
/// A page of `list` ends at the first entry beyond this many bytes, well below a frame.
const PAGE_BYTES: usize = 1 << 20;
/// Entries read at once while listing or sweeping.
const SCAN: usize = 64;
/// Entries one `list` looks at, expired ones included.
const SCAN_LIMIT: usize = 4_000;
/// Least time between two sweeps of one endpoint, so that writing at the quota is not a scan each.
const RECLAIM_EVERY_MS: u64 = 1_000;
/// Integers that JavaScript tells apart from their neighbours.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The keys and values of all endpoints.
pub struct Kv {
    store: Arc<dyn Store>,
    clock: Clock,
    turns: Turns,
    /// Endpoint → when its expired entries were looked for last.
    reclaimed: Mutex<HashMap<EndpointId, Timestamp>>,
}

impl Kv {
    /// Keys of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, turns: Turns::default(), reclaimed: Mutex::default() }
    }

    pub(super) fn scoped<'a>(&'a self, endpoint: &'a EndpointId, limits: &'a Limits) -> Scoped<'a> {
        Scoped { kv: self, endpoint, limits }
    }

    /// Removes every entry of `endpoint`.
    pub(super) async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        let _turn = self.turns.take(endpoint).await;
        loop {
            let page = self.store.scan(Space::Kv, KeyRange::prefix(&scope::prefix(endpoint)), 500, Direction::Forward).await?;
            let done = page.is_empty();
            let mut writes: Vec<_> = page.into_iter().map(|(key, _)| Write::delete(Space::Kv, key)).collect();
            writes.push(Write::delete(Space::KvUsage, scope::prefix(endpoint)));
            self.store.commit(Vec::new(), writes, Durability::Buffered).await?;
            if done {
                self.reclaimed.lock().expect("no holder panics").remove(endpoint);
                return Ok(());
            }
        }
    }

    /// Whether `endpoint` may be swept now; if so, it counts as swept.
    fn begin_reclaim(&self, endpoint: &EndpointId, now: Timestamp) -> bool {
        let mut reclaimed = self.reclaimed.lock().expect("no holder panics");
        reclaimed.retain(|_, at| at.plus_millis(RECLAIM_EVERY_MS) > now);
        if reclaimed.contains_key(endpoint) {
            return false;
        }
        reclaimed.insert(endpoint.clone(), now);
        true
    }
}

impl fmt::Debug for Kv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kv").finish_non_exhaustive()
    }
}

/// The kv of one endpoint, under one call's limits.
pub(super) struct Scoped<'a> {
    kv: &'a Kv,
    endpoint: &'a EndpointId,
    limits: &'a Limits,
}

impl Scoped<'_> {
    pub(super) async fn get(&self, key: &str) -> Result<OpValue, OpFailure> {
        self.check_key(key)?;
        let (_, entry) = self.read(key).await?;
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

    pub(super) async fn atomic(&self, checks: &[AtomicCheck], writes: &[AtomicWrite]) -> Result<OpValue, OpFailure> {
        if checks.len() > ATOMIC_LIMIT || writes.len() > ATOMIC_LIMIT {
            return Err(invalid_argument(format!(
                "atomic has {} checks and {} writes, limit {ATOMIC_LIMIT} of each",
                checks.len(),
                writes.len()
            )));
        }
        let ok = self.transact(checks, writes).await?;
        Ok(OpValue::Json(Bytes::from_static(if ok { br#"{"ok":true}"# } else { br#"{"ok":false}"# })))
    }

    pub(super) async fn list(&self, prefix: &str, limit: u32, cursor: Option<&str>) -> Result<OpValue, OpFailure> {
        if !(1..=LIST_LIMIT).contains(&limit) {
            return Err(invalid_argument(format!("limit of list is {limit}, it must be 1 to {LIST_LIMIT}")));
        }
        let mut range = KeyRange::prefix(&scope::key(self.endpoint, prefix.as_bytes()));
        if let Some(cursor) = cursor {
            range.start = Bound::Excluded(scope::key(self.endpoint, &decode_cursor(cursor, prefix)?));
        }
        let now = self.kv.clock.now();
        let skip = scope::prefix(self.endpoint).len();
        let (mut page, mut bytes, mut seen, limit) = (Page::default(), 0, 0, limit as usize);
        loop {
            let rows = self.kv.store.scan(Space::Kv, range.clone(), SCAN, Direction::Forward).await.map_err(|e| failure::store(&e))?;
            let last = rows.len() < SCAN;
            for (stored_key, stored) in rows {
                seen += 1;
                let entry = Entry::decode(&stored)?;
                let key = String::from_utf8(stored_key[skip..].to_vec()).map_err(|_| failure::damaged("kv key"))?;
                if entry.live(now) {
                    if page.entries.len() == limit || (bytes + entry.json.len() > PAGE_BYTES && !page.entries.is_empty()) {
                        page.cursor = page.entries.last().map(|last| encode_cursor(&last.key));
                        return page.encode();
                    }
                    bytes += entry.json.len() + key.len();
                    let value = serde_json::from_slice(&entry.json).map_err(|_| failure::damaged("kv value"))?;
                    page.entries.push(Row { key: key.clone(), value });
                }
                if seen == SCAN_LIMIT {
                    page.cursor = Some(encode_cursor(&key));
                    return page.encode();
                }
                range.start = Bound::Excluded(stored_key);
            }
            if last {
                return page.encode();
            }
        }
    }

    /// Applies `writes`, in order, if all `checks` hold; false when one does not.
    async fn transact(&self, checks: &[AtomicCheck], writes: &[AtomicWrite]) -> Result<bool, OpFailure> {
        for check in checks {
            self.check_key(&check.key)?;
        }
        for write in writes {
            self.check_write(write)?;
        }
        let _turn = self.kv.turns.take(self.endpoint).await;
        let mut swept = false;
        for attempt in 0..ATTEMPTS {
            back_off(attempt).await;
            match self.attempt(checks, writes).await? {
                Attempt::Committed => return Ok(true),
                Attempt::CheckFailed => return Ok(false),
                Attempt::Conflict => {}
                Attempt::OverQuota(refusal) => {
                    if swept || !self.reclaim().await? {
                        return Err(refusal);
                    }
                    swept = true;
                }
            }
        }
        Err(failure::contended())
    }

    async fn attempt(&self, checks: &[AtomicCheck], writes: &[AtomicWrite]) -> Result<Attempt, OpFailure> {
        let now = self.kv.clock.now();
        let mut touched: BTreeMap<&str, Touched> = BTreeMap::new();
        for key in checks.iter().map(|check| check.key.as_str()).chain(writes.iter().map(written_key)) {
            if !touched.contains_key(key) {
                let (stored, entry) = self.read(key).await?;
                touched.insert(key, Touched::new(stored, entry, now));
            }
        }
        for check in checks {
            let current = touched.get(check.key.as_str()).and_then(|touched| touched.after.as_ref());
            if !holds(check.value.as_deref(), current.map(|entry| entry.json.as_ref())) {
                return Ok(Attempt::CheckFailed);
            }
        }
        for write in writes {
            let slot = touched.get_mut(written_key(write)).expect("every written key was read above");
            slot.written = true;
            slot.after = apply(write, slot.after.take(), now)?;
        }
        self.commit(touched).await
    }

    async fn commit(&self, touched: BTreeMap<&str, Touched>) -> Result<Attempt, OpFailure> {
        let usage_key = scope::prefix(self.endpoint);
        let stored = self.kv.store.get(Space::KvUsage, &usage_key).await.map_err(|e| failure::store(&e))?;
        let before = Usage::decode(stored.as_deref()).ok_or_else(|| failure::damaged("kv usage"))?;
        let mut after = before;
        for (key, touched) in touched.iter().filter(|(_, touched)| touched.written) {
            let size = |json: usize| (key.len() + json) as u64;
            after = after.replaced(touched.stored_json_bytes.map(size), touched.after.as_ref().map(|entry| size(entry.json.len())));
        }
        if let Some(refusal) = self.over_quota(before, after) {
            return Ok(Attempt::OverQuota(refusal));
        }
        let (mut all_checks, mut all_writes) = (Vec::new(), Vec::new());
        for (key, touched) in touched {
            let key = scope::key(self.endpoint, key.as_bytes());
            if touched.written {
                all_writes.push(Write { space: Space::Kv, key: key.clone(), value: touched.after.map(|entry| entry.encode()) });
            }
            all_checks.push(Check { space: Space::Kv, key, expected: touched.stored });
        }
        if after != before {
            all_checks.push(Check { space: Space::KvUsage, key: usage_key.clone(), expected: stored });
            all_writes.push(Write::put(Space::KvUsage, usage_key, after.encode()));
        }
        match self.kv.store.commit(all_checks, all_writes, Durability::Buffered).await {
            Ok(()) => Ok(Attempt::Committed),
            Err(StoreError::Conflict) => Ok(Attempt::Conflict),
            Err(error) => Err(failure::store(&error)),
        }
    }

    /// Why `after` is too much. What does not grow is always allowed, so that an endpoint above a
    /// lowered quota can still shrink.
    fn over_quota(&self, before: Usage, after: Usage) -> Option<OpFailure> {
        if after.items > self.limits.kv_keys && after.items > before.items {
            return Some(quota_exceeded(format!("kv would hold {} keys, limit {}", after.items, self.limits.kv_keys)));
        }
        if after.bytes > self.limits.kv_bytes && after.bytes > before.bytes {
            return Some(quota_exceeded(format!("kv would hold {} bytes, limit {}", after.bytes, self.limits.kv_bytes)));
        }
        None
    }

    /// Removes the endpoint's expired entries; whether there were any.
    async fn reclaim(&self) -> Result<bool, OpFailure> {
        let now = self.kv.clock.now();
        if !self.kv.begin_reclaim(self.endpoint, now) {
            return Ok(false);
        }
        let prefix = scope::prefix(self.endpoint);
        let mut range = KeyRange::prefix(&prefix);
        let mut any = false;
        loop {
            let rows = self.kv.store.scan(Space::Kv, range.clone(), SCAN, Direction::Forward).await.map_err(|e| failure::store(&e))?;
            let Some((last, _)) = rows.last() else { return Ok(any) };
            range.start = Bound::Excluded(last.clone());
            let mut expired = Vec::new();
            for (key, stored) in rows {
                let entry = Entry::decode(&stored)?;
                if !entry.live(now) {
                    let bytes = (key.len() - prefix.len() + entry.json.len()) as u64;
                    expired.push((key, stored, bytes));
                }
            }
            any |= self.remove_expired(expired).await?;
        }
    }

    async fn remove_expired(&self, expired: Vec<(Vec<u8>, Vec<u8>, u64)>) -> Result<bool, OpFailure> {
        if expired.is_empty() {
            return Ok(false);
        }
        let usage_key = scope::prefix(self.endpoint);
        let stored = self.kv.store.get(Space::KvUsage, &usage_key).await.map_err(|e| failure::store(&e))?;
        let mut usage = Usage::decode(stored.as_deref()).ok_or_else(|| failure::damaged("kv usage"))?;
        let mut checks = vec![Check { space: Space::KvUsage, key: usage_key.clone(), expected: stored }];
        let mut writes = Vec::new();
        for (key, stored, bytes) in expired {
            usage = usage.replaced(Some(bytes), None);
            writes.push(Write::delete(Space::Kv, key.clone()));
            checks.push(Check::holds(Space::Kv, key, stored));
        }
        writes.push(Write::put(Space::KvUsage, usage_key, usage.encode()));
        match self.kv.store.commit(checks, writes, Durability::Buffered).await {
            // Another host got there first: whether there is room now is for the next attempt to see.
            Ok(()) | Err(StoreError::Conflict) => Ok(true),
            Err(error) => Err(failure::store(&error)),
        }
    }

    /// The stored bytes at `key`, and the entry they are, expired or not.
    async fn read(&self, key: &str) -> Result<(Option<Vec<u8>>, Option<Entry>), OpFailure> {
        let stored = self.kv.store.get(Space::Kv, &scope::key(self.endpoint, key.as_bytes())).await.map_err(|e| failure::store(&e))?;
        let entry = stored.as_deref().map(Entry::decode).transpose()?;
        Ok((stored, entry))
    }

    fn check_key(&self, key: &str) -> Result<(), OpFailure> {
        if key.is_empty() {
            return Err(invalid_argument("a kv key is not empty"));
        }
        if key.len() as u64 > self.limits.kv_key_bytes {
            return Err(invalid_argument(format!("kv key is {} bytes, limit {}", key.len(), self.limits.kv_key_bytes)));
        }
        Ok(())
    }

    fn check_write(&self, write: &AtomicWrite) -> Result<(), OpFailure> {
        self.check_key(written_key(write))?;
        let AtomicWrite::Set { value, ttl_ms, .. } = write else { return Ok(()) };
        if value.len() as u64 > self.limits.kv_value_bytes {
            return Err(quota_exceeded(format!("kv value is {} bytes, limit {}", value.len(), self.limits.kv_value_bytes)));
        }
        if ttl_ms.is_some_and(|ttl| !(1..=MAX_TTL_MS).contains(&ttl)) {
            return Err(invalid_argument(format!("ttlMs must be 1 to {MAX_TTL_MS}")));
        }
        serde_json::from_slice::<&RawValue>(value).map_err(|_| invalid_argument("a kv value is JSON"))?;
        Ok(())
    }
}

enum Attempt {
    Committed,
    CheckFailed,
    Conflict,
    OverQuota(OpFailure),
}

/// A key of a transaction: what the store holds, and what it will hold.
struct Touched {
    /// The very bytes, for the commit's check.
    stored: Option<Vec<u8>>,
    /// Counts in the usage, expired or not.
    stored_json_bytes: Option<usize>,
    after: Option<Entry>,
    written: bool,
}

impl Touched {
    fn new(stored: Option<Vec<u8>>, entry: Option<Entry>, now: Timestamp) -> Self {
        let stored_json_bytes = entry.as_ref().map(|entry| entry.json.len());
        Self { stored, stored_json_bytes, after: entry.filter(|entry| entry.live(now)), written: false }
    }
}

/// A stored value: a format byte, the expiry in milliseconds since 1970 (0: never), JSON text.
struct Entry {
    expires: Timestamp,
    json: Bytes,
}

impl Entry {
    const FORMAT: u8 = 1;

    fn live(&self, now: Timestamp) -> bool {
        self.expires.0 == 0 || self.expires > now
    }

    fn encode(&self) -> Vec<u8> {
        [&[Self::FORMAT], &self.expires.0.to_be_bytes()[..], &self.json].concat()
    }

    fn decode(stored: &[u8]) -> Result<Self, OpFailure> {
        match stored.split_first_chunk::<9>() {
            Some(([Self::FORMAT, expires @ ..], json)) => {
                Ok(Self { expires: Timestamp(u64::from_be_bytes(*expires)), json: Bytes::copy_from_slice(json) })
            }
            _ => Err(failure::damaged("kv entry")),
        }
    }
}

#[derive(Default, Serialize)]
struct Page {
    entries: Vec<Row>,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct Row {
    key: String,
    value: Box<RawValue>,
}

impl Page {
    fn encode(&self) -> Result<OpValue, OpFailure> {
        serde_json::to_vec(self).map(|json| OpValue::Json(json.into())).map_err(|_| failure::damaged("kv page"))
    }
}

fn written_key(write: &AtomicWrite) -> &str {
    match write {
        AtomicWrite::Set { key, .. } | AtomicWrite::Delete { key } | AtomicWrite::Add { key, .. } => key,
    }
}

/// Whether a check's value is the current one: the same JSON, whatever its spelling.
fn holds(expected: Option<&[u8]>, current: Option<&[u8]>) -> bool {
    match (expected, current) {
        (None, None) => true,
        (Some(expected), Some(current)) => {
            expected == current
                || matches!(
                    (serde_json::from_slice::<Value>(expected), serde_json::from_slice::<Value>(current)),
                    (Ok(expected), Ok(current)) if expected == current
                )
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// What `write` makes of `current`, which is live or absent.
fn apply(write: &AtomicWrite, current: Option<Entry>, now: Timestamp) -> Result<Option<Entry>, OpFailure> {
    match write {
        AtomicWrite::Delete { .. } => Ok(None),
        AtomicWrite::Set { value, ttl_ms, .. } => {
            let expires = ttl_ms.map_or(Timestamp(0), |ttl| now.plus_millis(ttl));
            Ok(Some(Entry { expires, json: value.clone() }))
        }
        AtomicWrite::Add { key, by } => {
            let number = match &current {
                None => 0,
                Some(entry) => serde_json::from_slice::<i64>(&entry.json)
                    .map_err(|_| invalid_argument(format!("the value at `{key}` is not an integer")))?,
            };
            let sum = number.checked_add(*by).filter(|sum| sum.abs() <= MAX_SAFE_INTEGER);
            let sum = sum.ok_or_else(|| invalid_argument(format!("the sum at `{key}` is beyond JavaScript's safe integers")))?;
            let expires = current.map_or(Timestamp(0), |entry| entry.expires);
            Ok(Some(Entry { expires, json: sum.to_string().into() }))
        }
    }
}

fn encode_cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The key a cursor names. A forged one can only name a place inside the endpoint's own prefix.
fn decode_cursor(cursor: &str, prefix: &str) -> Result<Vec<u8>, OpFailure> {
    let key = URL_SAFE_NO_PAD.decode(cursor).ok().filter(|key| key.starts_with(prefix.as_bytes()));
    key.ok_or_else(|| invalid_argument("cursor is not one that this list gave out"))
}

#[cfg(test)]
mod tests;
