//! Rotation of the master key: a new key becomes current, every secret is encrypted again, and the old key is removed
//! once nothing needs it.
//!
//! After a crash at any point, the remaining keys decrypt everything: the new key is on disk before it is used, and the
//! old one stays until the whole store has been found not to use it. Rotating again continues an interrupted rotation.

use std::{collections::BTreeSet, sync::Arc};

use tollhouse_api::KeyRotation;
use tollhouse_base::{boxed, id::EndpointId};
use tollhouse_store::{Direction, Durability, Range, Tx, UpdatePlan, update};

use super::{Key, PAGE, SECRETS, SealContext, SecretError, SecretName, Secrets, sealed::SealedSecret};

struct Page {
    /// The start of the next page.
    last: Option<Key>,
    /// Number of secrets encrypted again.
    resealed: u64,
    /// The tools to which these secrets belong.
    rewritten: BTreeSet<EndpointId>,
}

impl Secrets {
    /// Rotates the master key. Calls, and changes of secrets, continue meanwhile.
    ///
    /// If the keys are in the file, creates a new one, unless an earlier rotation was interrupted: that one is
    /// completed instead. If the keys come from settings, encrypts everything with the first of them.
    ///
    /// # Errors
    ///
    /// [`SecretError::GivenKey`], [`SecretError::GivenSharedKey`] or [`SecretError::SharedKey`] if there is no key to rotate
    /// to. Errors of the file and the store. Completed secrets stay rotated, and rotating again does the rest.
    #[boxed]
    pub async fn rotate(&self) -> Result<KeyRotation, SecretError> {
        let _one = self.rotating.lock().await;
        self.begin().await?;
        let (mut range, mut resealed) = (SECRETS.all(), 0);
        loop {
            let page = self.reseal(&range).await?;
            resealed += page.resealed;
            let Some(last) = page.last else { break };
            range = range.after(&last);
        }
        self.finish(resealed).await
    }

    /// Makes the new key current, after saving it.
    async fn begin(&self) -> Result<(), SecretError> {
        let _one = self.changing.lock().await;
        let ring = self.ring.load_full();
        if ring.old().next().is_some() {
            return Ok(());
        }
        match (ring.in_file(), self.store.is_shared()) {
            (true, false) => {}
            (true, true) => return Err(SecretError::SharedKey),
            (false, false) => return Err(SecretError::GivenKey),
            (false, true) => return Err(SecretError::GivenSharedKey),
        }
        self.ring.store(Arc::new(ring.with_new_key()?));
        Ok(())
    }

    /// Encrypts one page of records again, except those that have changed since they were read.
    async fn reseal(&self, range: &Range<Key>) -> Result<Page, SecretError> {
        let _one = self.changing.lock().await;
        let page = update(&*self.store, Durability::Durable, |tx| self.reseal_page(tx, range)).await?;
        page.rewritten.iter().for_each(|endpoint| self.evict(endpoint));
        Ok(page)
    }

    async fn reseal_page<'a>(&self, mut tx: Tx<'a>, range: &Range<Key>) -> Result<UpdatePlan<'a, Page>, SecretError> {
        let rows = SECRETS.unread(tx.store(), range, PAGE, Direction::Forward).await?;
        let full = rows.len() == PAGE;
        let (mut resealed, mut again, mut last) = (0, BTreeSet::new(), None);
        let ring = self.ring.load_full();
        for row in rows {
            last = SECRETS.key(&row).ok().or(last);
            let Ok(row) = SECRETS.read(row) else { continue };
            let (endpoint, old) = (&row.key.0.0, &row.value);
            let Ok(name) = row.key.1.parse::<SecretName>() else { continue };
            if old.key_id == ring.current().id() {
                continue;
            }
            let context = SealContext { owner: &old.owner, endpoint: endpoint.as_str(), name: name.as_str() };
            let Some(value) = old.open(&ring, context) else { continue };
            let times = [old.created_at, old.updated_at];
            let sealed = SealedSecret::seal(ring.current(), context, &value, old.scope(), times).ok_or(SecretError::Random)?;
            tx.replace(&SECRETS, &row, &sealed);
            resealed += 1;
            again.insert(endpoint.clone());
        }
        tx.answer(Page { last: last.filter(|_| full), resealed, rewritten: again })
    }

    /// Removes keys that no record needs, after checking all records.
    async fn finish(&self, resealed: u64) -> Result<KeyRotation, SecretError> {
        let _one = self.changing.lock().await;
        let before = self.ring.load_full();
        let current = before.current().id().to_owned();
        let (mut used, mut unopened, mut range) = (BTreeSet::new(), 0, SECRETS.all());
        while let Some(page) = SECRETS.next(&*self.store, &mut range, PAGE).await? {
            for row in page {
                let key_id = row?.value.key_id;
                unopened += u64::from(key_id != current);
                used.insert(key_id);
            }
        }
        self.ring.store(Arc::new(before.without_unneeded(|id| used.contains(id))?));
        let (needed, retired) = before.old().map(str::to_owned).partition(|id| used.contains(id));
        tracing::info!(key.id = current, secrets = resealed, "the master key was rotated");
        Ok(KeyRotation { key_id: current, resealed, unopened, retired, needed })
    }
}
