//! What all requests share.

use std::sync::Arc;

use rmcp::model::MetaObject;
use serde_json::{Value, json};

use super::{cancel::Cancellable, services::Services, tasks::Tasks};

/// What the server says it is, and where in a result's `_meta`.
pub(super) const NAME: &str = "tollhouse";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// What all requests share.
pub(super) struct Front {
    pub(super) services: Services,
    pub(super) tasks: Arc<Tasks>,
    pub(super) cancellable: Arc<Cancellable>,
    /// Who answers, for the results of 2026-07-28.
    named: Value,
}

impl Front {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(services: Services) -> Self {
        let tasks = Tasks::new(&services);
        Self { services, tasks, cancellable: Arc::default(), named: json!({ "name": NAME, "version": VERSION }) }
    }

    /// Puts the server's name into a result's `_meta`.
    pub(super) fn sign(&self, meta: &mut Option<MetaObject>) {
        meta.get_or_insert_default().0.insert(SERVER.to_owned(), self.named.clone());
    }
}
