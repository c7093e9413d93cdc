//! Rotation of the master key: a new one becomes current, every secret is sealed anew, and the old
//! one goes when nothing needs it any more.
//!
//! A crash at any point leaves keys that open everything: the new key is on disk before anything is
//! sealed under it, and the old one stays until the whole store was seen without it. Rotating again
//! goes on where it ended.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde::Serialize;

use super::{OfEndpoint, PAGE, Place, SecretError, SecretName, Secrets, State, decode, encode, parts, sealed::Sealed};
use crate::{
    base::id::EndpointId,
    store::{Check, Direction, Durability, KeyRange, Space, StoreError, Write},
};

/// Most attempts at a commit that others' commits make fail.
const ATTEMPTS: u32 = 8;

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rotated {
    /// The current key.
    pub key_id: String,
    /// Secrets sealed anew.
    pub resealed: u64,
    /// Secrets that do not open; they stay as they are, and the key they name is kept.
    pub unopened: u64,
    /// Keys that nothing needs any more.
    pub retired: Vec<String>,
    /// Old keys that are needed still.
    pub needed: Vec<String>,
}

struct Page {
    /// Where the next page starts.
    last: Option<Vec<u8>>,
    resealed: u64,
}

impl Secrets {
    /// Rotates the master key. Calls, and changes of secrets, go on meanwhile.
    ///
    /// With keys in the file, makes a new one, unless a rotation was begun and not ended: that is
    /// ended then. With keys that were given, seals everything under the first of them.
    ///
    /// # Errors
    ///
    /// [`SecretError::GivenKey`] when there is nothing to rotate to; the file's and the store's.
    /// What was done by then stays done, and rotating again does the rest.
    pub async fn rotate(&self) -> Result<Rotated, SecretError> {
        let _one = self.rotating.lock().await;
        self.begin().await?;
        let (mut range, mut resealed) = (KeyRange::all(), 0);
        loop {
            let page = self.reseal(&range).await?;
            resealed += page.resealed;
            let Some(last) = page.last else { break };
            range = range.after(&last);
        }
        self.finish(resealed).await
    }

    /// Makes the new key current, on disk first.
    async fn begin(&self) -> Result<(), SecretError> {
        let _one = self.changing.lock().await;
        let state = self.state.load_full();
        if state.ring.old().next().is_some() {
            return Ok(());
        }
        if !state.ring.in_file() {
            return Err(SecretError::GivenKey);
        }
        let ring = Arc::new(state.ring.with_new_key()?);
        self.state.store(Arc::new(State { ring, sealed: state.sealed.clone() }));
        Ok(())
    }

    /// Seals one page of records anew: those that are as they were read.
    async fn reseal(&self, range: &KeyRange) -> Result<Page, SecretError> {
        for _ in 0..ATTEMPTS {
            match self.try_reseal(range).await {
                Err(SecretError::Store(StoreError::Conflict)) => {}
                other => return other,
            }
        }
        Err(StoreError::Conflict.into())
    }

    async fn try_reseal(&self, range: &KeyRange) -> Result<Page, SecretError> {
        let _one = self.changing.lock().await;
        let rows = self.store.scan(Space::Secrets, range.clone(), PAGE, Direction::Forward).await?;
        let last = rows.last().filter(|_| rows.len() == PAGE).map(|(key, _)| key.clone());
        let (mut checks, mut writes) = (Vec::new(), Vec::new());
        let mut anew = HashMap::<EndpointId, Vec<(SecretName, Sealed)>>::new();
        let ring = Arc::clone(&self.state.load().ring);
        for (key, bytes) in rows {
            let (Some((endpoint, name)), Ok(old)) = (parts(&key), decode(&bytes)) else { continue };
            if old.key_id == ring.current().id() {
                continue;
            }
            let place = Place { owner: &old.owner, endpoint: endpoint.as_str(), name: name.as_str() };
            let Some(value) = old.open(&ring, place) else { continue };
            let times = [old.created_at, old.updated_at];
            let sealed = Sealed::seal(ring.current(), place, &value, old.visibility, times).ok_or(SecretError::Random)?;
            checks.push(Check::holds(Space::Secrets, key.clone(), bytes));
            writes.push(Write::put(Space::Secrets, key, encode(&sealed)));
            anew.entry(endpoint).or_default().push((name, sealed));
        }
        let resealed = writes.len() as u64;
        if resealed > 0 {
            self.store.commit(checks, writes, Durability::Durable).await?;
        }
        let mut state = State::clone(&self.state.load());
        for (endpoint, all) in anew {
            Arc::make_mut(state.sealed.entry(endpoint).or_default()).extend(all);
        }
        self.state.store(Arc::new(state));
        Ok(Page { last, resealed })
    }

    /// Lets go of the keys that no record needs, after a look at all of them.
    async fn finish(&self, resealed: u64) -> Result<Rotated, SecretError> {
        let _one = self.changing.lock().await;
        let sealed = self.read_all().await?;
        let before = Arc::clone(&self.state.load().ring);
        let records = || sealed.values().flat_map(|all: &Arc<OfEndpoint>| all.values());
        let used: BTreeSet<&str> = records().map(|one| one.key_id.as_str()).collect();
        let current = before.current().id().to_owned();
        let ring = Arc::new(before.without_unneeded(|id| used.contains(id))?);
        let (needed, retired) = before.old().map(str::to_owned).partition(|id| used.contains(id.as_str()));
        let unopened = records().filter(|one| one.key_id != current).count() as u64;
        self.state.store(Arc::new(State { ring, sealed: sealed.clone() }));
        tracing::info!(key.id = current, secrets = resealed, "the master key was rotated");
        Ok(Rotated { key_id: current, resealed, unopened, retired, needed })
    }
}
