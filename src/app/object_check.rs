//! Checks at the start whether this host can read a sample of the objects that rows name: sources and files of tools.
//!
//! A host that shares a database with others, but not their objects, would otherwise find out call by call. The work is the same
//! however many objects there are.

use std::{io, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use tollhouse_backup::control::{SampledObjects, ask_objects};
use tollhouse_base::{boxed, error_chain::full_message, lock::Lock, plural::plural};
use tollhouse_capability::sample_files;
use tollhouse_catalog::{Catalog, sample_sources};
use tollhouse_config::Home;
use tollhouse_objects::{ObjectLayout, Objects, SampleReport};
use tollhouse_store::{Store, postgres};

use super::stores::open_database;

/// Maximum time of one check.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of further checks while objects are missing or could not be looked for.
const AGAIN: Duration = Duration::from_secs(60);

/// Looks for objects that rows name, and keeps the result of the last check.
pub(super) struct ObjectCheck {
    catalog: Arc<Catalog>,
    store: Arc<dyn Store>,
    objects: Arc<Objects>,
    last: Lock<SampledObjects>,
}

fn describe(checked: usize, missing: usize) -> String {
    format!("{missing} of {} with sources and files of tools cannot be found on this host", plural(checked, "sampled object"))
}

impl ObjectCheck {
    pub(super) fn new(catalog: &Arc<Catalog>, store: &Arc<dyn Store>, objects: &Arc<Objects>) -> Arc<Self> {
        let (catalog, store, objects) = (Arc::clone(catalog), Arc::clone(store), Arc::clone(objects));
        Arc::new(Self { catalog, store, objects, last: Lock::default() })
    }

    pub(super) fn last(&self) -> SampledObjects {
        self.last.lock().clone()
    }

    /// Returns a warning for everybody, without names of tools or files, if objects are missing.
    pub(super) fn warning(&self) -> Option<String> {
        let SampledObjects { checked, missing, .. } = self.last();
        (missing > 0).then(|| describe(checked, missing))
    }

    /// Checks in the background, and again each minute until nothing is missing. Logs when objects are missing for the first time, and
    /// when they are back.
    pub(super) fn start(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut was_missing = false;
            loop {
                let Some(check) = this.upgrade() else { return };
                match timeout(TIMEOUT, SampleReport::confirmed(|| check.look())).await.unwrap_or_else(|late| Err(late.into())) {
                    Ok(report) => {
                        let is_missing = check.note(&report, was_missing);
                        if !is_missing {
                            return;
                        }
                        was_missing = true;
                    }
                    Err(error) => tracing::debug!(%error, "objects could not be sampled; the host will try again"),
                }
                drop(check);
                sleep(AGAIN).await;
            }
        });
    }

    /// Keeps a result, and logs a change of it. Returns whether objects are missing.
    fn note(&self, report: &SampleReport, was_missing: bool) -> bool {
        let found = SampledObjects::from(report);
        let is_missing = found.missing > 0;
        if is_missing && !was_missing {
            tracing::error!(
                example = found.example.as_deref().unwrap_or_default(),
                "{}; calls that need them are refused: give this host the objects of the other hosts, or restore a backup",
                describe(found.checked, found.missing)
            );
        }
        if was_missing && !is_missing {
            tracing::info!("all sampled objects can be found again");
        }
        *self.last.lock() = found;
        is_missing
    }

    async fn look(&self) -> io::Result<SampleReport> {
        let mut sample = self.catalog.sample_sources().await.map_err(io::Error::other)?;
        sample.extend(sample_files(&*self.store).await.map_err(io::Error::other)?);
        self.objects.look_for(sample).await
    }
}

/// Looks for a sample of the objects of a host, without the host if its store is in a database. Returns `None` if there is no store,
/// or nobody to ask.
///
/// # Errors
///
/// The store or the objects cannot be read.
#[boxed]
pub async fn sample_objects(home: &Home) -> io::Result<Option<SampledObjects>> {
    let Some(database) = &home.database else { return ask_objects(&home.data).await };
    if !postgres::about(database).await.map_err(|error| io::Error::other(full_message(&error)))?.has_store {
        return Ok(None);
    }
    let store = open_database(database).await.map_err(|error| io::Error::other(full_message(&error)))?;
    let objects = ObjectLayout::at_if_there(&home.objects).map_err(io::Error::other)?;
    let report = SampleReport::confirmed(|| look_in(&*store, &objects)).await?;
    Ok(Some(SampledObjects::from(&report)))
}

async fn look_in(store: &dyn Store, objects: &ObjectLayout) -> io::Result<SampleReport> {
    let mut sample = sample_sources(store, Vec::new()).await.map_err(io::Error::other)?;
    sample.extend(sample_files(store).await.map_err(io::Error::other)?);
    SampleReport::of(objects, sample).await
}
