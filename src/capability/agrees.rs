//! Whether what endpoints keep is what their usage says, and whether the contents of files are those that were put: of a store that nobody
//! writes to.

use std::cmp::Ordering;

use tollhouse_base::{flaws::Flaws, id::EndpointId};
use tollhouse_objects::{Bucket, Kept};
use tollhouse_store::{Counted, Store, StoreError, Table};

use super::{files, kv, scope::Usage};

/// Rows that are read at once: values may be large.
const PAGE: usize = 64;

/// Holds the usage of each endpoint against its keys and files, and the content of each file against its hash.
///
/// # Errors
///
/// The store's. What does not read is told as a flaw.
pub async fn check_kept(store: &dyn Store, objects: &Kept, flaws: &mut Flaws) -> Result<(), StoreError> {
    let mut sums = Sums::new("kv");
    let mut rows = kv::KV.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let bytes = (row.key.1.len() + row.value.json.len()) as u64;
        sums.add(store, &kv::KV_USAGE, &row.key.0, bytes, flaws).await?;
    }
    sums.end(store, &kv::KV_USAGE, flaws).await?;
    let mut sums = Sums::new("files");
    let mut rows = files::FILES.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (name, sha256) = row.value.object();
        content(objects, &format!("`{}` of {}", row.key.1, row.key.0.0), name, sha256, flaws).await;
        sums.add(store, &files::FILES_USAGE, &row.key.0, row.value.size(), flaws).await?;
    }
    sums.end(store, &files::FILES_USAGE, flaws).await
}

/// Reads one content; at most one is in memory.
async fn content(objects: &Kept, what: &str, name: &str, sha256: Option<&str>, flaws: &mut Flaws) {
    flaws.look();
    match objects.get(name).await {
        Ok(Some(content)) => {
            let fits = sha256.is_none_or(|sha256| tollhouse_objects::digest(&content) == sha256);
            flaws.unless(fits, || format!("the content of file {what} is not what was put there (object {name})"));
        }
        Ok(None) => flaws.tell(format!("the content of file {what} is missing (object {name})")),
        Err(error) => flaws.tell(format!("the content of file {what} cannot be read (object {name}): {error}")),
    }
}

/// What one endpoint after the other has, in the order of the store.
struct Sums {
    what: &'static str,
    of: Option<Counted<EndpointId>>,
    found: Usage,
    /// How many endpoints have some.
    endpoints: u64,
}

impl Sums {
    fn new(what: &'static str) -> Self {
        Self { what, of: None, found: Usage::default(), endpoints: 0 }
    }

    async fn add(
        &mut self,
        store: &dyn Store,
        usage: &Table<Counted<EndpointId>, Usage>,
        of: &Counted<EndpointId>,
        bytes: u64,
        flaws: &mut Flaws,
    ) -> Result<(), StoreError> {
        if self.of.as_ref().map(|last| last.0.cmp(&of.0)) != Some(Ordering::Equal) {
            self.turn(store, usage, flaws).await?;
            self.of = Some(of.clone());
        }
        self.found = self.found.replaced(None, Some(bytes));
        Ok(())
    }

    /// Compares what one endpoint has with what its usage says.
    async fn turn(&mut self, store: &dyn Store, usage: &Table<Counted<EndpointId>, Usage>, flaws: &mut Flaws) -> Result<(), StoreError> {
        let found = std::mem::take(&mut self.found);
        let Some(of) = self.of.take() else { return Ok(()) };
        self.endpoints += 1;
        let said = usage.get(store, &of).await?.unwrap_or_default();
        if said.is_closed() {
            // Deleted: what is left of it is being removed.
            return Ok(());
        }
        flaws.unless(said == found, || {
            format!(
                "{} of {}: {} of {} bytes are there, and {} of {} bytes are counted",
                self.what, of.0, found.items, found.bytes, said.items, said.bytes
            )
        });
        Ok(())
    }

    /// Compares the last, and looks for usage of endpoints that have nothing.
    async fn end(&mut self, store: &dyn Store, usage: &Table<Counted<EndpointId>, Usage>, flaws: &mut Flaws) -> Result<(), StoreError> {
        self.turn(store, usage, flaws).await?;
        let (mut range, mut counted) = (usage.all(), 0);
        while let Some(page) = usage.next(store, &mut range, PAGE).await? {
            for row in page {
                counted += u64::from(flaws.sound(row).is_some_and(|row| row.value.items > 0));
            }
        }
        let (what, endpoints) = (self.what, self.endpoints);
        flaws.unless(counted <= endpoints, || format!("{what}: {counted} endpoints are counted as having some, and {endpoints} have"));
        Ok(())
    }
}
