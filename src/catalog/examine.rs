//! Examination of an upload, to publish it or only to report its problems.

use std::sync::Arc;

use serde_json::json;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_protocol::{Schemas, Tier};
use tollhouse_tool::{Capabilities, Endpoint, Handler, Owner, Review, worker_schemas};

use super::{
    Catalog, ChangedBy, Draft, PublishError, draft,
    entitlements::{AccessSet, Entitlements},
    safety::Report,
    schedule_check,
    version::PreparedHandler,
};

/// Maximum problems that are collected of one kind.
pub(super) const MAX_PROBLEMS: usize = 32;

/// The problems of an upload. Either all are collected, or the first one ends the examination.
pub(super) struct Problems {
    pub(super) found: Vec<PublishError>,
    first_only: bool,
}

impl Problems {
    pub(super) fn first_only() -> Self {
        Self { found: Vec::new(), first_only: true }
    }

    pub(super) fn all(found: Vec<PublishError>) -> Self {
        Self { found, first_only: false }
    }

    /// Returns the value, or collects the error if all are collected.
    fn note<T>(&mut self, result: Result<T, PublishError>) -> Result<Option<T>, PublishError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(problem) if self.first_only => Err(problem),
            Err(problem) => {
                self.found.push(problem);
                Ok(None)
            }
        }
    }

    fn note_all(&mut self, problems: impl IntoIterator<Item = PublishError>) -> Result<(), PublishError> {
        problems.into_iter().try_for_each(|problem| self.note(Err(problem)).map(|_: Option<()>| ()))
    }
}

/// An upload and its context.
pub(super) struct DraftUpload<'a> {
    pub(super) draft: &'a Draft,
    pub(super) owner: &'a Owner,
    pub(super) by: ChangedBy,
    /// The endpoint that the upload would change.
    pub(super) existing: Option<&'a Endpoint>,
    /// Whether the draft's slug, and its handler and handler type, are those of the uploader.
    pub(super) has_slug: bool,
    pub(super) has_handler: bool,
}

/// The endpoint that an upload makes, in force now, before its scan is weighed.
pub(super) struct ExaminedUpload {
    pub(super) endpoint: Endpoint,
    /// `None` after a problem.
    pub(super) prepared: Option<PreparedHandler>,
    /// `None` for the host's own tools, which are not scanned, and after a problem.
    pub(super) report: Option<Report>,
}

impl Catalog {
    /// Validates and scans an upload, and loads its handler in a worker. Takes long.
    ///
    /// # Errors
    ///
    /// The first problem, if `problems` are not collected.
    pub(super) async fn examine(&self, upload: &DraftUpload<'_>, problems: &mut Problems) -> Result<ExaminedUpload, PublishError> {
        let DraftUpload { draft, owner, by, existing, .. } = *upload;
        if by == ChangedBy::Builder && !draft.is_attested() {
            problems.note(Err::<(), _>(PublishError::AttestationRequired))?;
        }
        let mut endpoint = self.endpoint_of(upload, self.parts.clock.now());
        problems.note_all(draft::field_problems(&endpoint, &draft.note))?;
        problems.note(self.check_accepts(&draft.accepts))?;
        problems.note(self.may_publish(owner, by))?;
        if existing.is_none() {
            problems.note(self.room_for(owner, by))?;
            if upload.has_slug {
                problems.note(self.claim_slug(&draft.slug, owner, by).await)?;
            }
        }
        problems.note_all(draft.limit_problems(&draft::ceilings(&self.policy().policy, by)).take(MAX_PROBLEMS))?;
        problems.note_all(draft.host_problems())?;
        problems.note(draft::may_reach(&endpoint, by))?;
        self.apply_policy(&mut endpoint);
        let (input, output) = (&endpoint.input_schema, &endpoint.output_schema);
        // To find the problems of each schema, they are compiled one by one, after the handler.
        let schemas = if problems.first_only {
            self.check_schema_cost(owner, input, output).await?;
            worker_schemas(input, output)
        } else {
            Schemas::default()
        };
        let mut prepared = None;
        if upload.has_handler {
            prepared = problems.note(self.prepare(&endpoint, draft.handler.as_ref(), schemas).await)?;
        }
        if let Some(prepared) = &prepared {
            problems.note(schedule_check::check_export(&endpoint, prepared.scheduled))?;
            (endpoint.handler, endpoint.version) = (prepared.handler.clone(), prepared.version.clone());
        }
        let report = match by {
            ChangedBy::Host => None,
            ChangedBy::Admin | ChangedBy::Builder => problems.note(self.scan(&endpoint, draft.handler.as_ref()).await)?,
        };
        if problems.first_only {
            let bundle = prepared.as_ref().and_then(|prepared| prepared.bundle.clone());
            self.check_static_response(endpoint.clone(), bundle).await?;
        } else {
            problems.note_all(self.schema_problems(&endpoint).await)?;
        }
        Ok(ExaminedUpload { endpoint, prepared, report })
    }

    /// Returns the problems of each schema, and of a static response that does not match.
    async fn schema_problems(&self, endpoint: &Endpoint) -> Vec<PublishError> {
        let anything = Arc::new(json!({}));
        let (input, output) = (&endpoint.input_schema, &endpoint.output_schema);
        let mut problems: Vec<_> = self.check_schemas(endpoint, input, &anything).await.err().into_iter().collect();
        let promised = match self.check_schemas(endpoint, &anything, output).await {
            Ok(()) => {
                let endpoint = Endpoint { input_schema: Arc::clone(&anything), ..endpoint.clone() };
                self.check_static_response(endpoint, None).await
            }
            unusable => unusable,
        };
        problems.extend(promised.err());
        problems
    }

    /// Creates the endpoint of an upload, before its handler and scan result are set. Invalid limits
    /// and hosts, which are reported elsewhere, count as absent.
    pub(super) fn endpoint_of(&self, upload: &DraftUpload<'_>, now: Timestamp) -> Endpoint {
        let DraftUpload { draft, owner, by, existing, .. } = *upload;
        let policy = self.policy();
        let limits = draft.limits(&draft::ceilings(&policy.policy, by)).unwrap_or_default();
        let mut endpoint = Endpoint {
            id: EndpointId::generate(),
            title: draft.title.clone(),
            description: draft.description.clone(),
            status: draft.status,
            price_usd: draft.price_usd,
            max_price_usd: draft.max_price_usd,
            handler_type: draft.handler_type,
            tags: draft.tags.clone(),
            input_schema: Arc::clone(&draft.input_schema),
            output_schema: Arc::clone(&draft.output_schema),
            capabilities: Capabilities::default(),
            requested_capabilities: Capabilities::default(),
            withheld_capabilities: Capabilities::default(),
            allowed_hosts: vec![],
            requested_hosts: vec![],
            withheld_hosts: vec![],
            limits,
            own_limits: limits,
            limit_caps: existing.map(|existing| existing.limit_caps.clone()).unwrap_or_default(),
            tier: Tier::default(),
            tier_cap: existing.map(|existing| existing.tier_cap).unwrap_or_default(),
            isolation: draft.isolation,
            accepts: draft.accepts.clone(),
            settle: draft.settle,
            schedules: draft.schedules.clone().or_else(|| existing.map(|existing| existing.schedules.clone())).unwrap_or_default(),
            request_types: draft.request_types.clone(),
            request_headers: draft.request_headers.clone(),
            refund_broken_streams: draft.refund_broken_streams,
            content_safety: None,
            review: existing.map_or_else(Review::default, |existing| existing.review.clone()),
            decided_on: None,
            owner: owner.clone(),
            owner_suspended: false,
            handler: Handler::Builtin,
            version: String::new(),
            versions: vec![],
            revision: 1,
            created_at: now,
            updated_at: now,
            slug: draft.slug.clone(),
        };
        let had = existing.map(Entitlements::of).unwrap_or_default();
        let wanted = AccessSet { capabilities: draft.capabilities, hosts: draft::hosts(&draft.allowed_hosts).unwrap_or_default() };
        had.changed(&wanted, &policy.policy, by, self.builder_standing(owner).any_public_host).put(&mut endpoint);
        endpoint
    }
}
