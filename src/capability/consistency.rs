//! Consistency check: whether each tool's stored data matches its usage record, and whether files have their original
//! content. For a store that nobody writes to.

use tollhouse_base::{boxed, check_report::CheckReport, id::EndpointId, plural::plural};
use tollhouse_objects::{Bucket, ObjectLayout};
use tollhouse_store::{CountedText, Store, StoreError, Table};

use super::{files, kv, usage::Usage};

/// Number of rows read at once, small because values can be large.
const PAGE: usize = 64;

/// Compares the usage record of each tool with its keys and files, and each file's content with its hash.
///
/// # Errors
///
/// Errors of the store. Unreadable data is recorded as a flaw.
#[boxed]
pub async fn check_objects(store: &dyn Store, objects: &ObjectLayout, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let mut sums = Sums::new("kv", store, &kv::KV_USAGE);
    let mut rows = kv::KV.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let bytes = (row.key.1.len() + row.value.json.len()) as u64;
        sums.add(&row.key.0, bytes, flaws).await?;
    }
    sums.end(flaws).await?;
    let mut sums = Sums::new("files", store, &files::FILES_USAGE);
    let mut rows = files::FILES.inspect(store, PAGE);
    while let Some(row) = rows.next(flaws).await? {
        let (name, sha256) = row.value.object();
        check_content(objects, &format!("`{}` of {}", row.key.1, row.key.0.0), name, sha256, flaws).await;
        sums.add(&row.key.0, row.value.size(), flaws).await?;
    }
    sums.end(flaws).await
}

/// Checks one file's content. At most one is in memory at a time.
async fn check_content(objects: &ObjectLayout, what: &str, name: &str, sha256: &str, flaws: &mut CheckReport) {
    flaws.count_checked();
    match objects.get(name).await {
        Ok(Some(content)) => {
            let fits = tollhouse_objects::digest(&content) == sha256;
            flaws.unless(fits, || format!("the content of file {what} has changed (object {name})"));
        }
        Ok(None) => flaws.add(format!("the content of file {what} is missing (object {name})")),
        Err(error) => flaws.add(format!("the content of file {what} cannot be read (object {name}): {error}")),
    }
}

/// Running totals of the current tool, in store order.
struct Sums<'a> {
    what: &'static str,
    store: &'a dyn Store,
    usage: &'static Table<CountedText<EndpointId>, Usage>,
    of: Option<CountedText<EndpointId>>,
    found: Usage,
    endpoints: u64,
}

impl<'a> Sums<'a> {
    fn new(what: &'static str, store: &'a dyn Store, usage: &'static Table<CountedText<EndpointId>, Usage>) -> Self {
        Self { what, store, usage, of: None, found: Usage::default(), endpoints: 0 }
    }

    async fn add(&mut self, of: &CountedText<EndpointId>, bytes: u64, flaws: &mut CheckReport) -> Result<(), StoreError> {
        if self.of.as_ref().is_none_or(|last| last.0 != of.0) {
            self.compare(flaws).await?;
            self.of = Some(of.clone());
        }
        self.found = self.found.replaced(None, Some(bytes));
        Ok(())
    }

    /// Compares the totals of one tool with its usage record.
    async fn compare(&mut self, flaws: &mut CheckReport) -> Result<(), StoreError> {
        let found = std::mem::take(&mut self.found);
        let Some(of) = self.of.take() else { return Ok(()) };
        self.endpoints += 1;
        let counted = self.usage.get(self.store, &of).await?.unwrap_or_default();
        // The rest of a deleted tool's data is being removed.
        flaws.unless(counted.is_closed() || counted == found, || {
            let size = |usage: &Usage| format!("{} of {}", plural(usage.items, "item"), plural(usage.bytes, "byte"));
            format!("{} of {}: {} stored, but {} are counted", self.what, of.0, size(&found), size(&counted))
        });
        Ok(())
    }

    /// Compares the last tool, and finds usage records of tools without data.
    async fn end(&mut self, flaws: &mut CheckReport) -> Result<(), StoreError> {
        self.compare(flaws).await?;
        let (mut range, mut counted) = (self.usage.all(), 0);
        while let Some(page) = self.usage.next(self.store, &mut range, PAGE).await? {
            for row in page {
                counted += u64::from(flaws.checked(row).is_some_and(|row| row.value.items > 0));
            }
        }
        let (what, endpoints) = (self.what, self.endpoints);
        flaws.unless(counted <= endpoints, || {
            format!("{what}: usage is counted for {}, but data is stored for {endpoints}", plural(counted, "tool"))
        });
        Ok(())
    }
}
