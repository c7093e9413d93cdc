//! Prepares a handler for a dry run, either a draft or any stored version, as a call would find it.
//!
//! A dry run has the same rights as calls of the endpoint. If an admin holds the endpoint back, or
//! the handler would be held back as an upload, it only has what the policy grants any builder
//! without approval: no admin has looked at it yet, but only its owner runs it.

use std::sync::{Arc, OnceLock};
use tollhouse_base::boxed;

use tollhouse_capability::Grant;
use tollhouse_tool::{Endpoint, Owner, Runtime, worker_schemas};

use super::{Catalog, ChangedBy, HandlerDraft, LiveEndpoint, PublishError, ShownEndpoint, bundle::with_schemas, reach};

/// The handler to run.
#[derive(Debug)]
pub enum TrialTarget {
    /// The current version, or the named one.
    Kept(Option<String>),
    /// A draft of its owner.
    Draft(HandlerDraft),
}

impl Catalog {
    /// Returns the endpoint with another handler, for one private run.
    ///
    /// # Errors
    ///
    /// As for an upload: a handler that does not load, or blocked content; also a version that is
    /// not stored.
    #[boxed]
    pub async fn trial(&self, live: &LiveEndpoint, tried: TrialTarget, by: ChangedBy) -> Result<Arc<LiveEndpoint>, PublishError> {
        let mut endpoint = live.endpoint.clone();
        let schemas = worker_schemas(&endpoint.input_schema, &endpoint.output_schema);
        let prepared = match tried {
            TrialTarget::Draft(draft) => Some(self.prepare(&endpoint, Some(&draft), schemas.clone()).await?),
            TrialTarget::Kept(version) => {
                let version = version.unwrap_or_else(|| endpoint.version.clone());
                let prepared = if endpoint.keeps(&version) { self.prepared(&endpoint.slug, &version).await? } else { None };
                let built_in = endpoint.handler_type.runtime() == Runtime::ManagedBuiltin && version == endpoint.version;
                if prepared.is_none() && !built_in {
                    return Err(PublishError::UnknownVersion);
                }
                prepared
            }
        };
        let (mut bundle, mut held) = (live.bundle.clone(), live.endpoint.held_back());
        if let Some(prepared) = prepared {
            let handler = prepared.uploaded();
            (endpoint.handler, endpoint.version, bundle) = (prepared.handler, prepared.version, prepared.bundle);
            // The current version was scanned when it was published.
            if let (Some(handler), true) = (handler, endpoint.owner != Owner::Platform && endpoint.version != live.endpoint.version) {
                held |= self.would_hold(&endpoint, &handler, by).await?;
            }
        }
        let grant = if held { self.self_served(&mut endpoint)? } else { Arc::clone(&live.grant) };
        let bundle = with_schemas(bundle, &endpoint, schemas);
        let runs = endpoint.runs()?;
        let shown = ShownEndpoint { endpoint, terms: Arc::clone(&live.terms), record: live.record.clone(), form: live.form.clone() };
        let trial = LiveEndpoint { shown: Arc::new(shown), runs, bundle, fixed: OnceLock::new(), grant, ..live.clone() };
        self.check_response_of(&trial).await?;
        Ok(Arc::new(trial))
    }

    /// Returns the endpoint's granted rights that need no approval.
    fn self_served(&self, endpoint: &mut Endpoint) -> Result<Arc<Grant>, PublishError> {
        let free = self.policy().policy.builder_capabilities;
        endpoint.capabilities = endpoint.capabilities.intersection(free);
        if !free.of_network().any() {
            endpoint.allowed_hosts.clear();
        }
        Ok(Grant::new(reach(endpoint)?))
    }
}
