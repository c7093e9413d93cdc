//! Repeated content scans: checks all builders' endpoints with the current rules.

use serde_json::json;
use tollhouse_api::RescanCounts;
use tollhouse_base::boxed;
use tollhouse_event::Kind;
use tollhouse_replica::JobRun;
use tollhouse_store::{Batch, Durability, StoreError, Table, schema};
use tollhouse_tool::{ContentSafety, Endpoint, HoldKind, Owner, Slug, finding::ScanOutcome};

use super::{
    Catalog, ChangedBy, PublishError, Snapshot,
    change::content_differs,
    commit::{CatalogChange, transitions},
    entry::ENDPOINTS,
    safety::{self, Report},
    scan::{hold, open_outcome},
};

/// The version of the rules with which all endpoints were scanned.
const SCANNED_BY: Table<(), String> = schema::SCANNED_BY.holding();

impl Catalog {
    /// Scans all builders' endpoints, unless they were scanned with the current rules, or with
    /// later ones by a newer host of the store. Records that as long as it is this host's `turn`.
    #[boxed]
    pub async fn rescan_if_due(&self, turn: &JobRun) -> Result<(), PublishError> {
        if !self.rescan_is_due().await? {
            return Ok(());
        }
        let ours = self.parts.scanner.policy_version();
        let (remaining, all) = (self.unscanned.lock().take(), self.all());
        let found = match remaining {
            Some(remaining) => self.rescan_all(remaining.into_iter()).await?,
            None => self.rescan_all(builders_of(&all)).await?,
        };
        let mut batch = SCANNED_BY.put(&(), &ours.to_owned());
        turn.holds(&mut batch);
        batch.commit(&*self.store, Durability::Durable).await?;
        tracing::info!(
            scanned.endpoints = found.endpoints,
            scanned.review = found.review,
            scanned.blocked = found.blocked,
            "scanned all tools with the current rules"
        );
        Ok(())
    }

    /// Returns whether endpoints were last scanned with older rules than this version's.
    #[boxed]
    pub async fn rescan_is_due(&self) -> Result<bool, StoreError> {
        let ours = self.parts.scanner.policy_version();
        let by = SCANNED_BY.get(&*self.store, &()).await?;
        Ok(by.is_none_or(|by| by != ours && safety::revision(&by) <= safety::revision(ours)))
    }

    /// Scans all builders' endpoints. New findings pause them.
    ///
    /// # Errors
    ///
    /// Those of the store. Earlier results are recorded.
    #[boxed]
    pub async fn rescan(&self) -> Result<RescanCounts, PublishError> {
        let all = self.all();
        let found = self.rescan_all(builders_of(&all)).await?;
        SCANNED_BY.put(&(), &self.parts.scanner.policy_version().to_owned()).commit(&*self.store, Durability::Durable).await?;
        Ok(found)
    }

    /// Scans endpoints. Those with unreadable sources are left for the next time. If the bucket is
    /// unavailable, all further ones are left, too.
    async fn rescan_all(&self, mut slugs: impl Iterator<Item = Slug> + Send) -> Result<RescanCounts, PublishError> {
        let (mut found, mut remaining, mut unread) = (RescanCounts::default(), Vec::new(), None);
        while let Some(slug) = slugs.next() {
            let scanned = match self.rescan_one(slug.as_str()).await {
                // Another host of the store has changed it.
                Err(PublishError::Changed(_)) => self.rescan_one(slug.as_str()).await,
                scanned => scanned,
            };
            match scanned {
                Ok(kind) => {
                    found.endpoints += 1;
                    found.review += u64::from(kind == Some(HoldKind::ContentReview));
                    found.blocked += u64::from(kind == Some(HoldKind::ContentBlocked));
                }
                // Deleted meanwhile.
                Err(PublishError::Unknown(_)) => {}
                Err(PublishError::Lost(error)) => {
                    unread = Some(PublishError::Lost(format!("`{slug}`: {error}")));
                    remaining.push(slug);
                }
                Err(PublishError::Source(error)) => {
                    unread = Some(PublishError::Source(format!("`{slug}`: {error}")));
                    remaining.push(slug);
                    remaining.extend(&mut slugs);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(error) = unread else { return Ok(found) };
        *self.unscanned.lock() = Some(remaining);
        Err(error)
    }

    /// Scans one endpoint. Returns the kind of hold if this scan imposed a new one.
    async fn rescan_one(&self, slug: &str) -> Result<Option<HoldKind>, PublishError> {
        let unknown = || PublishError::Unknown(slug.to_owned());
        let read = ENDPOINTS.get(&*self.store, &slug.to_owned()).await?.ok_or_else(unknown)?;
        let handler = self.uploaded(&read.version).await?;
        let report = self.scan(&read, handler.as_ref()).await?;
        // Most results are unchanged. Those endpoints are not loaded.
        let known = self.with_provenance(&read, handler.as_ref(), report.clone()).await?;
        if self.with_findings(&read, known).is_none() {
            return Ok(None);
        }
        let _one = self.changing.lock().await;
        let before = self.at_revision(slug, None).await?;
        let old = &before.live.endpoint;
        if old.id != read.id || content_differs(&read, old) {
            // Already scanned as uploaded, with these rules.
            return Ok(None);
        }
        let report = self.with_provenance(old, handler.as_ref(), report).await?;
        let Some((mut endpoint, kind)) = self.with_findings(old, report) else { return Ok(None) };
        let newly = kind.filter(|kind| old.review.hold.as_ref().is_none_or(|hold| hold.kind != *kind));
        if newly.is_some() {
            endpoint.decided_on = None;
        }
        endpoint.revision += 1;
        let mut events = transitions(old, &endpoint, ChangedBy::Host, None);
        if let Some(kind) = newly {
            events.insert(0, (Kind::EndpointReviewed, json!({ "state": kind.as_str(), "by": ChangedBy::Host.as_str() })));
        }
        let bundle = before.live.bundle.clone();
        self.put(CatalogChange { before: Some(&before), endpoint, bundle, rows: Batch::new(), staged: None, events }).await?;
        Ok(newly)
    }

    /// Returns the endpoint with its findings, and how it is held back. `None` if nothing changes.
    fn with_findings(&self, old: &Endpoint, report: Report) -> Option<(Endpoint, Option<HoldKind>)> {
        let mut endpoint = old.clone();
        let open = open_outcome(&report.findings, old);
        let found = match open {
            ScanOutcome::Pass => None,
            ScanOutcome::Review => Some(HoldKind::ContentReview),
            ScanOutcome::Block => Some(HoldKind::ContentBlocked),
        };
        // An existing hold stays and is never weakened.
        let kind = old.review.hold.as_ref().map(|hold| hold.kind).max(found);
        hold(&mut endpoint, kind, self.parts.clock.now());
        let outcome = match kind {
            None => ScanOutcome::Pass,
            Some(HoldKind::ContentReview) => ScanOutcome::Review,
            Some(HoldKind::ContentBlocked) => ScanOutcome::Block,
        };
        endpoint.content_safety = Some(ContentSafety {
            outcome,
            policy_version: self.parts.scanner.policy_version().to_owned(),
            attested_at: old.content_safety.as_ref().and_then(|safety| safety.attested_at),
            findings: report.findings,
        });
        if (&endpoint.content_safety, &endpoint.review) == (&old.content_safety, &old.review) {
            return None;
        }
        Some((endpoint, kind))
    }
}

/// Returns the slugs of all builders' endpoints.
fn builders_of(all: &Snapshot) -> impl Iterator<Item = Slug> + Send + '_ {
    all.values().filter(|entry| *entry.owner != Owner::Platform).map(|entry| entry.slug.clone())
}
