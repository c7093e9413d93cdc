//! The state shared by all requests.

use std::sync::{Arc, Weak};

use rmcp::model::MetaObject;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    cancel::CancelableCalls,
    list_cache::ListCache,
    listeners::Listeners,
    remote_cancel::{Cancelable, RemoteCancels},
    services::Services,
    tasks::Tasks,
};

/// The server's name and version, and their key in a result's `_meta`.
pub(super) const NAME: &str = "tollhouse";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

pub(super) struct McpFront {
    pub(super) services: Arc<Services>,
    pub(super) tasks: Arc<Tasks>,
    pub(super) cancelable: Arc<CancelableCalls>,
    pub(super) remote_cancels: Arc<RemoteCancels>,
    pub(super) lists: ListCache,
    pub(super) listeners: Arc<Listeners>,
    changes: watch::Receiver<u64>,
    /// The server's name and version, for the results of 2026-07-28.
    named: Value,
}

impl McpFront {
    /// Returns the state and starts its background tasks. Call it inside a tokio runtime.
    pub(super) fn new(services: Services) -> Self {
        let services = Arc::new(services);
        let remote_cancels = RemoteCancels::new(Arc::clone(&services.store), services.clock.clone());
        let (tasks, cancelable) = (Tasks::new(&services, Arc::clone(&remote_cancels)), Arc::<CancelableCalls>::default());
        let running: [Weak<dyn Cancelable>; 2] = [Arc::downgrade(&tasks) as _, Arc::downgrade(&cancelable) as _];
        remote_cancels.follow(running);
        let listeners = Listeners::new(services.settings.given.listeners, services.catalog.changes());
        let changes = services.catalog.changes();
        let named = json!({ "name": NAME, "version": VERSION });
        Self { services, tasks, cancelable, remote_cancels, lists: ListCache::default(), listeners, changes, named }
    }

    /// Returns how often the catalog has changed.
    pub(super) fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Adds the server's name and version to a result's `_meta`.
    pub(super) fn sign(&self, meta: &mut Option<MetaObject>) {
        meta.get_or_insert_default().0.insert(SERVER.to_owned(), self.named.clone());
    }
}
