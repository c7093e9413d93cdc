//! Making a handler ready for a dry run: a draft, or any version that is kept, as a call would find it.
//!
//! A dry run may touch what calls of the endpoint may. While an admin holds the endpoint back, or where the handler would
//! be held back as an upload, it is left what the policy lets any builder take: nobody has looked at it yet, and it is
//! still its owner who runs it.

use std::sync::{Arc, OnceLock};

use tollhouse_capability::Grant;
use tollhouse_tool::{Endpoint, Owner, Runtime, told};

use super::{By, Catalog, HandlerDraft, Live, PublishError, Shown, bundle::with_schemas, reach};

/// Which handler is run.
#[derive(Debug)]
pub enum Tried {
    /// The version that runs, or the one that is named.
    Kept(Option<String>),
    /// What its owner has written.
    Draft(HandlerDraft),
}

impl Catalog {
    /// The endpoint with another handler, for one run that nobody else sees.
    ///
    /// # Errors
    ///
    /// As for an upload: a handler that does not load, content that is blocked; and a version that is not kept.
    pub async fn trial(&self, live: &Live, tried: Tried, by: By) -> Result<Arc<Live>, PublishError> {
        let mut endpoint = live.endpoint.clone();
        let schemas = told(&endpoint.input_schema, &endpoint.output_schema);
        let prepared = match tried {
            Tried::Draft(draft) => Some(self.prepare(&endpoint, Some(&draft), schemas.clone()).await?),
            Tried::Kept(version) => {
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
            // What runs was looked at when it was published.
            if let (Some(handler), true) = (handler, endpoint.owner != Owner::Platform && endpoint.version != live.endpoint.version) {
                held |= self.would_be_held(&endpoint, &handler, by).await?;
            }
        }
        let grant = if held { self.self_served(&mut endpoint)? } else { Arc::clone(&live.grant) };
        let bundle = with_schemas(bundle, &endpoint, schemas);
        let runs = endpoint.runs()?;
        let shown = Shown { endpoint, terms: Arc::clone(&live.terms), record: live.record.clone(), form: live.form.clone() };
        let trial = Live { shown: Arc::new(shown), runs, bundle, fixed: OnceLock::new(), grant, ..live.clone() };
        self.answers_fit(&trial).await?;
        Ok(Arc::new(trial))
    }

    /// Of what the endpoint was granted, what its builder may take by themselves.
    fn self_served(&self, endpoint: &mut Endpoint) -> Result<Arc<Grant>, PublishError> {
        let free = self.policy().policy.builder_capabilities;
        endpoint.capabilities = endpoint.capabilities.intersection(free);
        if !free.http_get_json {
            endpoint.allowed_hosts.clear();
        }
        Ok(Grant::new(reach(endpoint)?))
    }
}
