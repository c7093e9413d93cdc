//! Content safety: what the rules find in an upload, and what becomes of it.
//!
//! A finding that an admin has approved counts no more, as long as the field it was found in stays
//! the same: for a handler, that is its version.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use tollhouse_base::{clock::Timestamp, share::for_turn};
use tollhouse_money::receipt::json_hash;
use tollhouse_store::{Batch, Table, schema};
use tollhouse_tool::{
    ContentSafety, Endpoint, Hold, HoldKind, Owner, Review,
    finding::{Finding, ScanOutcome, Severity},
};

use super::{By, Catalog, HandlerDraft, PublishError, shipped};
use crate::safety::{self, Report};

/// Version → the share of who uploaded it first.
pub(super) const VERSION_OWNERS: Table<String, String> = schema::VERSION_OWNERS.holding();

/// Approved findings that an endpoint remembers; the oldest go.
const MAX_APPROVED: usize = 200;

/// What was found in new content, and whose word there is for it.
pub(super) struct Upload<'a> {
    /// `None` for built-in handlers.
    pub(super) handler: Option<&'a HandlerDraft>,
    /// What [`Catalog::scan`] found.
    pub(super) report: Report,
    pub(super) attested_at: Option<Timestamp>,
    pub(super) by: By,
}

impl Catalog {
    /// Writes into `endpoint` what becomes of new content. Uploads of an admin are recorded and never held back.
    ///
    /// # Errors
    ///
    /// [`PublishError::Blocked`] for a builder's upload: nothing of it is to be stored.
    pub(super) async fn weigh(&self, endpoint: &mut Endpoint, upload: Upload<'_>) -> Result<(), PublishError> {
        let report = self.with_provenance(endpoint, upload.handler, upload.report).await?;
        let open = open_outcome(&report.findings, endpoint);
        if upload.by == By::Builder && open == ScanOutcome::Block {
            return Err(PublishError::Blocked(report.findings));
        }
        let outcome = if upload.by == By::Builder {
            let required = self.policy().policy.require_review;
            let held = held_after(open, required, &endpoint.review);
            hold(endpoint, held.then_some(HoldKind::ContentReview), self.clock.now());
            if held { ScanOutcome::Review } else { ScanOutcome::Pass }
        } else {
            open
        };
        let policy_version = self.scanner.policy_version().to_owned();
        endpoint.content_safety =
            Some(ContentSafety { outcome, policy_version, attested_at: upload.attested_at, findings: report.findings });
        // Published by an admin is approved by one; what is held back waits for their decision.
        if upload.by == By::Admin && endpoint.review.hold.is_none() {
            approve_findings(endpoint);
            endpoint.approve();
        }
        Ok(())
    }

    /// What remembers who uploaded the source of `endpoint` first, if nobody did before.
    pub(super) async fn claim(&self, endpoint: &Endpoint, handler: Option<&HandlerDraft>) -> Result<Batch, PublishError> {
        let is_source = matches!(handler, Some(HandlerDraft::Source { .. })) && !is_common(handler);
        Ok(match self.first_owner(endpoint, handler).await? {
            None if is_source => VERSION_OWNERS.put(&endpoint.version, &endpoint.owner.share().to_owned()),
            None | Some(_) => Batch::new(),
        })
    }

    /// Whether a handler that `endpoint` does not run would be held back, were it uploaded.
    ///
    /// # Errors
    ///
    /// [`PublishError::Blocked`] for a builder.
    pub(super) async fn would_be_held(&self, endpoint: &Endpoint, handler: &HandlerDraft, by: By) -> Result<bool, PublishError> {
        let report = self.scan(endpoint, Some(handler)).await?;
        let report = self.with_provenance(endpoint, Some(handler), report).await?;
        let open = open_outcome(&report.findings, endpoint);
        if by == By::Builder && open == ScanOutcome::Block {
            return Err(PublishError::Blocked(report.findings));
        }
        Ok(held_after(open, self.policy().policy.require_review, &endpoint.review))
    }

    /// Who uploaded the source first.
    async fn first_owner(&self, endpoint: &Endpoint, handler: Option<&HandlerDraft>) -> Result<Option<String>, PublishError> {
        match handler {
            Some(HandlerDraft::Source { .. }) if !is_common(handler) => Ok(VERSION_OWNERS.get(&*self.store, &endpoint.version).await?),
            Some(HandlerDraft::Source { .. } | HandlerDraft::Response { .. }) | None => Ok(None),
        }
    }

    /// Adds to what was found that another uploaded the source first, as it is known now.
    pub(super) async fn with_provenance(
        &self,
        endpoint: &Endpoint,
        handler: Option<&HandlerDraft>,
        report: Report,
    ) -> Result<Report, PublishError> {
        if !is_anothers(self.first_owner(endpoint, handler).await?.as_deref(), &endpoint.owner) {
            return Ok(report);
        }
        Ok(report.and(self.scanner.scan(&safety::Upload { source: Some(""), hash_of_another: true, ..Default::default() })))
    }

    /// Reads the content, which may take long: never under the lock of changes.
    pub(super) async fn scan(&self, endpoint: &Endpoint, handler: Option<&HandlerDraft>) -> Result<Report, PublishError> {
        let (scanner, handler) = (Arc::clone(&self.scanner), handler.cloned());
        let (title, description, tags) = (endpoint.title.clone(), endpoint.description.clone(), endpoint.tags.clone());
        let (input, output) = (Arc::clone(&endpoint.input_schema), Arc::clone(&endpoint.output_schema));
        let scan = move || {
            let (source, response) = match &handler {
                Some(HandlerDraft::Source { source, .. }) => (Some(source.as_str()), None),
                Some(HandlerDraft::Response { response }) => (None, Some(&**response)),
                None => (None, None),
            };
            scanner.scan(&safety::Upload {
                title: &title,
                description: &description,
                tags: &tags,
                source,
                response,
                input_schema: Some(&input),
                output_schema: Some(&output),
                hash_of_another: false,
            })
        };
        self.read(&endpoint.owner, scan).await
    }

    /// Does work on what `owner` uploads, on a thread for such work and in the owner's turn.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        owner: &Owner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PublishError> {
        let turn = self.readings.turn(owner.clone()).await;
        let work = for_turn(work);
        let read = tokio::task::spawn_blocking(move || {
            // As long as the work, also where nobody waits for it any more.
            let _turn = turn;
            work()
        });
        read.await.map_err(|error| PublishError::Corrupt(format!("an upload's reading ended abnormally: {error}")))
    }
}

/// Bytes of a source below which two who wrote the same need not know of each other: what `init` makes, the examples of the documents
/// and the handlers of tests are shorter.
const SHORT_SOURCE_BYTES: usize = 1_024;

/// Whether a source is nobody's own: short, or one that the host comes with.
fn is_common(handler: Option<&HandlerDraft>) -> bool {
    let Some(HandlerDraft::Source { source, .. }) = handler else { return false };
    source.len() < SHORT_SOURCE_BYTES || shipped::is_handler(source)
}

fn is_anothers(first: Option<&str>, owner: &Owner) -> bool {
    first.is_some_and(|first| first != owner.share())
}

/// Whether new content waits for an admin: for what was found, for the policy's sake, or because an
/// admin refused content of this endpoint and approved none since.
fn held_after(open: ScanOutcome, required: bool, review: &Review) -> bool {
    open != ScanOutcome::Pass || required || review.refused
}

pub(super) fn hold(endpoint: &mut Endpoint, kind: Option<HoldKind>, now: Timestamp) {
    let since = endpoint.review.hold.as_ref().map_or(now, |hold| hold.since);
    endpoint.review.hold = kind.map(|kind| Hold { kind, since });
}

/// The gravest of what no admin has approved.
pub(super) fn open_outcome(findings: &[Finding], endpoint: &Endpoint) -> ScanOutcome {
    let approved: BTreeSet<_> = endpoint.review.approved.iter().map(String::as_str).collect();
    let open = findings.iter().filter(|finding| !approved.contains(key(finding, endpoint).as_str()));
    match open.map(|finding| finding.severity).max() {
        Some(Severity::Block) => ScanOutcome::Block,
        Some(Severity::Review) => ScanOutcome::Review,
        Some(Severity::Note) | None => ScanOutcome::Pass,
    }
}

/// An admin approves what was found in `endpoint`.
pub(super) fn approve_findings(endpoint: &mut Endpoint) {
    let Some(safety) = &endpoint.content_safety else { return };
    let keys: Vec<_> = safety.findings.iter().map(|finding| key(finding, endpoint)).collect();
    let approved = &mut endpoint.review.approved;
    approved.retain(|known| !keys.contains(known));
    approved.extend(keys);
    approved.dedup();
    let beyond = approved.len().saturating_sub(MAX_APPROVED);
    approved.drain(..beyond);
}

/// An admin takes the approval of what was found in `endpoint` back.
pub(super) fn disapprove_findings(endpoint: &mut Endpoint) {
    let Some(safety) = &endpoint.content_safety else { return };
    let keys: Vec<_> = safety.findings.iter().map(|finding| key(finding, endpoint)).collect();
    endpoint.review.approved.retain(|known| !keys.contains(known));
}

/// What an approval is of: rule, field, and the field's content.
fn key(finding: &Finding, endpoint: &Endpoint) -> String {
    let content = match finding.field.split('/').nth(1).unwrap_or_default() {
        "title" => json!(endpoint.title),
        "description" => json!(endpoint.description),
        "tags" => json!(endpoint.tags),
        "inputSchema" => Value::clone(&endpoint.input_schema),
        "outputSchema" => Value::clone(&endpoint.output_schema),
        _ => json!(endpoint.version),
    };
    json_hash(&json!([finding.rule, finding.field, finding.severity, content]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_held_for_findings_for_the_policy_and_after_a_refusal() {
        let refused = Review { refused: true, ..Review::default() };
        for (open, required, review, held) in [
            (ScanOutcome::Pass, false, &Review::default(), false),
            (ScanOutcome::Review, false, &Review::default(), true),
            (ScanOutcome::Block, false, &Review::default(), true),
            (ScanOutcome::Pass, true, &Review::default(), true),
            (ScanOutcome::Pass, false, &refused, true),
        ] {
            assert_eq!(held_after(open, required, review), held, "{open:?} {required} {review:?}");
        }
    }
}
