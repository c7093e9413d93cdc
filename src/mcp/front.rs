//! What all requests share.

use std::sync::{Arc, Weak};

use rmcp::model::MetaObject;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    cancel::Cancellable,
    list_cache::ListCache,
    listeners::Listeners,
    recalls::{Recallable, Recalls},
    services::Services,
    tasks::Tasks,
};

/// What the server says it is, and where in a result's `_meta`.
pub(super) const NAME: &str = "tollhouse";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// What all requests share.
pub(super) struct Front {
    pub(super) services: Services,
    pub(super) tasks: Arc<Tasks>,
    pub(super) cancellable: Arc<Cancellable>,
    pub(super) recalls: Arc<Recalls>,
    pub(super) lists: ListCache,
    pub(super) listeners: Arc<Listeners>,
    changes: watch::Receiver<u64>,
    /// Who answers, for the results of 2026-07-28.
    named: Value,
}

impl Front {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(services: Services) -> Self {
        let recalls = Recalls::new(Arc::clone(&services.store), services.clock.clone());
        let (tasks, cancellable) = (Tasks::new(&services, Arc::clone(&recalls)), Arc::<Cancellable>::default());
        let running: [Weak<dyn Recallable>; 2] = [Arc::downgrade(&tasks) as _, Arc::downgrade(&cancellable) as _];
        recalls.heed(running);
        let listeners = Listeners::new(services.settings.listeners, services.catalog.changes());
        let changes = services.catalog.changes();
        let named = json!({ "name": NAME, "version": VERSION });
        Self { services, tasks, cancellable, recalls, lists: ListCache::default(), listeners, changes, named }
    }

    /// How often the catalogue has changed.
    pub(super) fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Puts the server's name into a result's `_meta`.
    pub(super) fn sign(&self, meta: &mut Option<MetaObject>) {
        meta.get_or_insert_default().0.insert(SERVER.to_owned(), self.named.clone());
    }
}
