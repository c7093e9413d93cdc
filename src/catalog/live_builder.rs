//! Creates endpoints for lists and for calls from a record.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tollhouse_base::{cpu_share::UsualCost, offload::run_in_place};
use tollhouse_capability::Grant;
use tollhouse_money::{CallTerms, SignedOffers};
use tollhouse_protocol::Bundle;
use tollhouse_tool as tool;
use tollhouse_tool::{Endpoint, EndpointCode, Shape};

use super::{Catalog, LiveEndpoint, PublishError, ShownEndpoint, bundle::with_schemas};

/// Minimum validity of a payment authorization, in seconds, as x402 v2 clients expect.
const MIN_TIMEOUT_SECS: u64 = 300;

/// Time to settle after a handler has used its whole wall limit, in seconds.
const SETTLE_SECS: u64 = 120;

impl Catalog {
    /// Creates an endpoint for calls.
    pub(super) fn make_live(
        &self,
        endpoint: Endpoint,
        bundle: Option<Arc<Bundle>>,
        grant: Arc<Grant>,
    ) -> Result<LiveEndpoint, PublishError> {
        let runs = endpoint.runs()?;
        Ok(self.make(endpoint, runs, bundle, grant))
    }

    /// Creates the endpoint again with the current policy and suspensions.
    pub(super) fn rebuild(&self, live: &LiveEndpoint) -> LiveEndpoint {
        self.make(live.endpoint.clone(), live.runs.clone(), live.bundle.clone(), Arc::clone(&live.grant))
    }

    fn make(&self, endpoint: Endpoint, runs: EndpointCode, bundle: Option<Arc<Bundle>>, grant: Arc<Grant>) -> LiveEndpoint {
        let (input, output) = (Shape::of(&endpoint.input_schema), Shape::of(&endpoint.output_schema));
        let bundle = with_schemas(bundle, &endpoint, tool::worker_schemas(&endpoint.input_schema, &endpoint.output_schema));
        let shown = Arc::new(self.build_shown(endpoint));
        LiveEndpoint { shown, runs, input, output, bundle, fixed: OnceLock::new(), usual_cost: UsualCost::default(), grant }
    }

    /// Creates the public data of an endpoint, with its effective limits and tier.
    pub(super) fn build_shown(&self, mut endpoint: Endpoint) -> ShownEndpoint {
        self.apply_policy(&mut endpoint);
        endpoint.owner_suspended = self.builder_standing(&endpoint.owner).suspended;
        let terms = Arc::new(CallTerms {
            slug: endpoint.slug.clone(),
            endpoint_id: endpoint.id.clone(),
            owner: endpoint.owner.clone(),
            version: endpoint.version.clone(),
            resource_url: format!("{}/tools/{}", self.parts.base_url, endpoint.slug),
            description: endpoint.description.clone(),
            price: endpoint.max_usd(),
            metered: endpoint.metered(),
            accepts: endpoint.accepts.clone(),
            settle: endpoint.settle,
            input_schema: Arc::clone(&endpoint.input_schema),
            output_schema: Arc::clone(&endpoint.output_schema),
            tags: endpoint.tags.clone(),
            wall: Duration::from_millis(endpoint.limits.wall_ms),
            timeout_secs: MIN_TIMEOUT_SECS.max(endpoint.limits.wall_ms / 1_000 + SETTLE_SECS),
            offers: SignedOffers::default(),
        });
        let record = endpoint.record(&self.parts.base_url);
        let mut shown = ShownEndpoint { endpoint, terms, record, form: None };
        // The form rewrites the schemas, which can be large.
        let form = run_in_place(|| (self.parts.make_form)(&shown));
        shown.form = form;
        shown
    }
}
