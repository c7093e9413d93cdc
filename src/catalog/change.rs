//! Changes of an endpoint, and rollbacks to an earlier version.

use std::sync::Arc;
use tollhouse_base::boxed;

use serde_json::json;
use tollhouse_event::Kind;
use tollhouse_protocol::Schemas;
use tollhouse_store::{Batch, StoreError};
use tollhouse_tool::{Availability, Endpoint, Status, Version, worker_schemas};

use super::{
    Catalog, ChangedBy, HandlerDraft, LiveEndpoint, Patch, PublishError,
    commit::{CatalogChange, transitions},
    draft,
    entitlements::{AccessSet, Entitlements},
    safety::Report,
    scan::ScannedUpload,
    schedule_check,
    source::StagedVersion,
    version::PreparedHandler,
};

/// Maximum attempts of a change without a revision, if others change the endpoint meanwhile.
const MAX_ATTEMPTS: usize = 4;

impl Catalog {
    /// Changes an endpoint. Fields that `patch` does not name stay. `if_match` is the revision that
    /// the caller has seen. If the rules send new content of a builder to review, the endpoint
    /// pauses until an admin has decided. The previous version does not continue to answer.
    ///
    /// # Errors
    ///
    /// As for [`Catalog::create`]; [`PublishError::Changed`] if the revision differs;
    /// [`PublishError::UnderReview`] and [`PublishError::TakenDown`] for a resume that the owner
    /// may not make.
    #[boxed]
    pub async fn update(&self, slug: &str, patch: Patch, if_match: Option<u64>, by: ChangedBy) -> Result<Arc<LiveEndpoint>, PublishError> {
        for _ in 1..MAX_ATTEMPTS {
            match self.update_once(slug, patch.clone(), if_match, by).await {
                // Another change came in between, which is fine for a caller without a revision.
                Err(PublishError::Changed(_)) if if_match.is_none() => {}
                // Another host has stored or removed the same version.
                Err(PublishError::Store(StoreError::Conflict)) => {}
                ended => return ended,
            }
        }
        self.update_once(slug, patch, if_match, by).await
    }

    async fn update_once(&self, slug: &str, patch: Patch, if_match: Option<u64>, by: ChangedBy) -> Result<Arc<LiveEndpoint>, PublishError> {
        // Checking in a worker and scanning happen without a lock, so nobody waits for them.
        let mut checked =
            if patch.is_looked_at() { self.checked_patch(slug, &patch, if_match, by).await? } else { CheckedPatch::default() };
        checked.revision = checked.revision.or(if_match);
        let mut staged = self.stage(checked.prepared.as_mut(), checked.report.as_ref(), by).await?;
        let updated = self.update_checked(slug, patch, by, (checked, staged.as_mut())).await;
        self.sources.settle(staged, &updated).await;
        updated
    }

    /// Commits a change that was checked.
    async fn update_checked(
        &self,
        slug: &str,
        patch: Patch,
        by: ChangedBy,
        (checked, staged): (CheckedPatch, Option<&mut StagedVersion>),
    ) -> Result<Arc<LiveEndpoint>, PublishError> {
        let CheckedPatch { revision, handler, prepared, report } = checked;
        let _one = self.changing.lock().await;
        let before = self.at_revision(slug, revision).await?;
        let old = &before.live.endpoint;
        let now = self.parts.clock.now();
        let mut endpoint = self.patched(old, &patch, by)?;
        let mut rows = Batch::new();
        let mut bundle = before.live.bundle.clone();
        let other_schemas = schemas_differ(old, &endpoint);
        if let Some(prepared) = prepared {
            endpoint.handler = prepared.handler;
            bundle = prepared.bundle;
            endpoint.run_version(Version { via: patch.via, ..Version::new(prepared.version, now, by.into()) });
        }
        if let Some(note) = &patch.note {
            endpoint.note(note);
        }
        let renewed = patch.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted);
        let attested_at = if renewed { Some(now) } else { old.content_safety.as_ref().and_then(|safety| safety.attested_at) };
        // Whether the content is held depends on what differs from the approved state.
        match by {
            ChangedBy::Builder => endpoint.keep_approved(old),
            ChangedBy::Admin | ChangedBy::Host => endpoint.approve_changes(old),
        }
        if let Some(report) = report {
            endpoint.decided_on = None;
            rows.append(self.claim(&endpoint, handler.as_ref()).await?);
            self.apply_findings(&mut endpoint, ScannedUpload { handler: handler.as_ref(), report, attested_at, by }).await?;
        } else if let Some(safety) = &mut endpoint.content_safety {
            safety.attested_at = attested_at;
        }
        endpoint.revision += 1;
        endpoint.updated_at = now;
        let mut events = transitions(old, &endpoint, by, None);
        let changed = patch.changed();
        if !changed.is_empty() {
            events.insert(0, (Kind::EndpointUpdated, json!({ "changed": changed, "version": endpoint.version, "by": by.as_str() })));
        }
        let live = self.put(CatalogChange { before: Some(&before), endpoint, bundle, rows, staged, events }).await?;
        if live.endpoint.version != old.version || other_schemas {
            self.parts.pool.retire(old.id.as_str(), &old.version);
        }
        Ok(live)
    }

    /// Checks a patch against the current endpoint in a worker, and scans it. Both may take long.
    async fn checked_patch(&self, slug: &str, patch: &Patch, if_match: Option<u64>, by: ChangedBy) -> Result<CheckedPatch, PublishError> {
        let before = self.read_at(slug, if_match).await?;
        let old = &before.live.endpoint;
        let mut endpoint = self.patched(old, patch, by)?;
        let handler = self.wanted_handler(&endpoint, patch).await?;
        let other_schemas = schemas_differ(old, &endpoint);
        let mut checked = CheckedPatch { revision: Some(old.revision), handler, prepared: None, report: None };
        if checked.handler.is_none() && old.schedules != endpoint.schedules {
            self.check_current_export(&endpoint, by).await?;
        }
        if checked.handler.is_none() && !other_schemas {
            return self.with_report(checked, old, &endpoint).await;
        }
        let _permit = self.permit(&old.owner, by)?;
        let mut bundle = before.live.bundle.clone();
        let schemas = worker_schemas(&endpoint.input_schema, &endpoint.output_schema);
        self.apply_policy(&mut endpoint);
        match checked.handler {
            None => self.check_schemas(&endpoint, &endpoint.input_schema, &endpoint.output_schema).await?,
            Some(_) if other_schemas => self.check_schema_cost(&endpoint.owner, &endpoint.input_schema, &endpoint.output_schema).await?,
            Some(_) => {}
        }
        if let Some(handler) = &checked.handler {
            let prepared = self.prepare(&endpoint, Some(handler), schemas).await?;
            schedule_check::check_export(&endpoint, prepared.scheduled)?;
            (endpoint.handler, endpoint.version) = (prepared.handler.clone(), prepared.version.clone());
            bundle = prepared.bundle.clone();
            checked.prepared = Some(prepared);
        }
        if old.version != endpoint.version || old.output_schema != endpoint.output_schema {
            self.check_static_response(endpoint.clone(), bundle).await?;
        }
        self.with_report(checked, old, &endpoint).await
    }

    /// Checks that the current version fits changed schedules. Loads it in a worker.
    async fn check_current_export(&self, endpoint: &Endpoint, by: ChangedBy) -> Result<(), PublishError> {
        let _permit = self.permit(&endpoint.owner, by)?;
        let mut endpoint = endpoint.clone();
        self.apply_policy(&mut endpoint);
        let handler = self.uploaded(&endpoint.version).await?;
        let prepared = self.prepare(&endpoint, handler.as_ref(), Schemas::default()).await?;
        schedule_check::check_export(&endpoint, prepared.scheduled)
    }

    /// Scans the changed endpoint if scanned content differs from `old`.
    async fn with_report(&self, mut checked: CheckedPatch, old: &Endpoint, endpoint: &Endpoint) -> Result<CheckedPatch, PublishError> {
        if content_differs(old, endpoint) {
            if checked.handler.is_none() {
                checked.handler = self.uploaded(&endpoint.version).await?;
            }
            checked.report = Some(self.scan(endpoint, checked.handler.as_ref()).await?);
        }
        Ok(checked)
    }

    /// Returns the endpoint with the patch applied, except for its handler.
    fn patched(&self, old: &Endpoint, patch: &Patch, by: ChangedBy) -> Result<Endpoint, PublishError> {
        self.may_publish(&old.owner, by)?;
        may_resume(old, patch.status)?;
        if by == ChangedBy::Builder && patch.safety_attestation.as_ref().is_some_and(|attestation| !attestation.accepted) {
            return Err(PublishError::AttestationRequired);
        }
        let policy = self.policy();
        let mut endpoint = old.clone();
        patch.apply(&mut endpoint, &draft::ceilings(&policy.policy, by))?;
        if let Some(accepts) = &patch.accepts {
            self.check_accepts(accepts)?;
        }
        if patch.capabilities.is_some() || patch.allowed_hosts.is_some() {
            let had = Entitlements::of(old);
            let rest = if by == ChangedBy::Builder { had.requested() } else { had.granted.clone() };
            let wanted = AccessSet::named(patch.capabilities, patch.allowed_hosts.as_ref(), &rest)?;
            let any_public = self.builder_standing(&old.owner).any_public_host;
            self.set_entitlements(&mut endpoint, had.changed(&wanted, &policy.policy, by, any_public));
            draft::may_reach(&endpoint, by)?;
            endpoint.decided_on = None;
        }
        Ok(endpoint)
    }

    /// Records in an endpoint what it may access, and since when it has requested more.
    pub(super) fn set_entitlements(&self, endpoint: &mut Endpoint, standing: Entitlements) {
        standing.put(endpoint);
        endpoint.review.asked_since = endpoint.asks().then(|| endpoint.review.asked_since.unwrap_or_else(|| self.parts.clock.now()));
    }

    /// Returns the handler of a patch: uploaded with it, or an earlier version.
    async fn wanted_handler(&self, endpoint: &Endpoint, patch: &Patch) -> Result<Option<HandlerDraft>, PublishError> {
        let Some(version) = &patch.version else { return Ok(patch.handler.clone()) };
        if patch.handler.is_some() {
            return Err(PublishError::field("/version", "`version` and `handler` cannot be combined; send one of them"));
        }
        let stored = if endpoint.keeps(version) { self.uploaded(version).await? } else { None };
        stored.map(Some).ok_or(PublishError::UnknownVersion)
    }
}

/// The result of checking and scanning a patch.
#[derive(Default)]
struct CheckedPatch {
    /// The revision that was checked, or that the caller has seen.
    revision: Option<u64>,
    /// The handler to run, as uploaded, if the patch contains it or it is scanned again.
    handler: Option<HandlerDraft>,
    prepared: Option<PreparedHandler>,
    /// Present if scanned content differs.
    report: Option<Report>,
}

/// Checks that the owner may resume the endpoint: only if the owner paused it.
fn may_resume(endpoint: &Endpoint, requested: Option<Status>) -> Result<(), PublishError> {
    match (requested, endpoint.availability()) {
        (Some(Status::Active), Availability::TakenDown) => Err(PublishError::TakenDown),
        (Some(Status::Active), Availability::UnderReview) => Err(PublishError::UnderReview),
        _ => Ok(()),
    }
}

/// Returns whether scanned content differs.
pub(super) fn content_differs(old: &Endpoint, new: &Endpoint) -> bool {
    (&old.title, &old.description, &old.tags, &old.version) != (&new.title, &new.description, &new.tags, &new.version)
        || schemas_differ(old, new)
}

pub(super) fn schemas_differ(old: &Endpoint, new: &Endpoint) -> bool {
    old.input_schema != new.input_schema || old.output_schema != new.output_schema
}

impl AccessSet {
    /// Returns the named capabilities and hosts, with `rest` for those that are not named.
    pub(super) fn named(
        capabilities: Option<tollhouse_tool::Capabilities>,
        hosts: Option<&Vec<String>>,
        rest: &Self,
    ) -> Result<Self, PublishError> {
        let hosts = hosts.map(|hosts| draft::hosts(hosts)).transpose()?;
        Ok(Self { capabilities: capabilities.unwrap_or(rest.capabilities), hosts: hosts.unwrap_or_else(|| rest.hosts.clone()) })
    }
}
