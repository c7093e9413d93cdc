//! Applies content safety to endpoints: scans uploads, and acts on the findings.
//!
//! A finding that an admin has approved no longer counts, as long as the content of its field stays
//! the same. For a handler, that is its version.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use tollhouse_base::{clock::Timestamp, cpu_share::turn_for};
use tollhouse_money::receipt::json_hash;
use tollhouse_store::{Batch, Table, schema};
use tollhouse_tool::{
    ContentSafety, Endpoint, Hold, HoldKind, Owner, Review,
    finding::{Finding, ScanOutcome},
};

use super::{Catalog, ChangedBy, HandlerDraft, PublishError, seed_tools};
use crate::safety::{self, Report};

/// Version → the share of its first uploader.
pub(super) const VERSION_OWNERS: Table<String, String> = schema::VERSION_OWNERS.holding();

/// Maximum approved findings of an endpoint. The oldest are dropped.
const MAX_APPROVED: usize = 200;

/// A scan of new content, and its attestation.
pub(super) struct ScannedUpload<'a> {
    /// `None` for built-in handlers.
    pub(super) handler: Option<&'a HandlerDraft>,
    /// The result of [`Catalog::scan`].
    pub(super) report: Report,
    pub(super) attested_at: Option<Timestamp>,
    pub(super) by: ChangedBy,
}

impl Catalog {
    /// Records the result for new content in `endpoint`. Uploads of an admin are recorded but never
    /// held back.
    ///
    /// # Errors
    ///
    /// [`PublishError::Blocked`] for a builder's upload, of which nothing may be stored.
    pub(super) async fn apply_findings(&self, endpoint: &mut Endpoint, upload: ScannedUpload<'_>) -> Result<(), PublishError> {
        let report = self.with_provenance(endpoint, upload.handler, upload.report).await?;
        let open = open_outcome(&report.findings, endpoint);
        if upload.by == ChangedBy::Builder && open == ScanOutcome::Block {
            return Err(PublishError::Blocked(report.findings));
        }
        let outcome = if upload.by == ChangedBy::Builder {
            let required = self.policy().policy.require_review;
            let held = hold_after(open, required, &endpoint.review, endpoint.has_approved_content());
            hold(endpoint, held.then_some(HoldKind::ContentReview), self.parts.clock.now());
            if held { ScanOutcome::Review } else { ScanOutcome::Pass }
        } else {
            open
        };
        let policy_version = self.parts.scanner.policy_version().to_owned();
        endpoint.content_safety =
            Some(ContentSafety { outcome, policy_version, attested_at: upload.attested_at, findings: report.findings });
        // Publishing by an admin is an approval. Content that is held back still waits for their
        // decision.
        if upload.by == ChangedBy::Admin && endpoint.review.hold.is_none() {
            approve_findings(endpoint);
            endpoint.approve();
        }
        Ok(())
    }

    /// Returns the rows that record the first uploader of the source, if there was none before.
    pub(super) async fn claim(&self, endpoint: &Endpoint, handler: Option<&HandlerDraft>) -> Result<Batch, PublishError> {
        let is_first = has_owner(handler) && VERSION_OWNERS.get(&*self.store, &endpoint.version).await?.is_none();
        let claim = || VERSION_OWNERS.put(&endpoint.version, &endpoint.owner.share().to_owned());
        Ok(if is_first { claim() } else { Batch::new() })
    }

    /// Returns whether a handler would be held back if it were uploaded to `endpoint`.
    ///
    /// # Errors
    ///
    /// [`PublishError::Blocked`] for a builder.
    pub(super) async fn would_hold(&self, endpoint: &Endpoint, handler: &HandlerDraft, by: ChangedBy) -> Result<bool, PublishError> {
        let report = self.scan(endpoint, Some(handler)).await?;
        let report = self.with_provenance(endpoint, Some(handler), report).await?;
        let open = open_outcome(&report.findings, endpoint);
        if by == ChangedBy::Builder && open == ScanOutcome::Block {
            return Err(PublishError::Blocked(report.findings));
        }
        Ok(hold_after(open, self.policy().policy.require_review, &endpoint.review, endpoint.has_approved_content()))
    }

    /// Adds a finding if another owner uploaded the source first.
    pub(super) async fn with_provenance(
        &self,
        endpoint: &Endpoint,
        handler: Option<&HandlerDraft>,
        report: Report,
    ) -> Result<Report, PublishError> {
        let first = if has_owner(handler) { VERSION_OWNERS.get(&*self.store, &endpoint.version).await? } else { None };
        if first.is_none_or(|first| first == endpoint.owner.share()) {
            return Ok(report);
        }
        Ok(report.and(self.parts.scanner.scan(&safety::Upload { source: Some(""), hash_of_another: true, ..Default::default() })))
    }

    /// Scans the content. May take long, so it must not be called under the lock of changes.
    pub(super) async fn scan(&self, endpoint: &Endpoint, handler: Option<&HandlerDraft>) -> Result<Report, PublishError> {
        let (scanner, handler) = (Arc::clone(&self.parts.scanner), handler.cloned());
        let (title, description, tags) = (endpoint.title.clone(), endpoint.description.clone(), endpoint.tags.clone());
        let (input, output) = (Arc::clone(&endpoint.input_schema), Arc::clone(&endpoint.output_schema));
        let scan = move || {
            let (source, response) = match &handler {
                Some(HandlerDraft::Source { source, .. }) => (Some(source.as_str()), None),
                Some(HandlerDraft::Response { response }) => (None, Some(response.value())),
                None => (None, None),
            };
            scanner.scan(&safety::Upload {
                title: &title,
                description: &description,
                tags: &tags,
                source,
                response: response.as_ref(),
                input_schema: Some(&input),
                output_schema: Some(&output),
                hash_of_another: false,
            })
        };
        self.run_upload_work(&endpoint.owner, scan).await
    }

    /// Runs work on an upload of `owner` on a blocking thread, in the owner's turn.
    pub(super) async fn run_upload_work<T: Send + 'static>(
        &self,
        owner: &Owner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PublishError> {
        let turn = self.reads.turn(owner.clone()).await;
        let work = turn_for(work);
        let read = tokio::task::spawn_blocking(move || {
            // Held until the work has ended, even if nobody waits for it anymore.
            let _turn = turn;
            work()
        });
        read.await.map_err(|error| PublishError::Corrupt(format!("the scan of an upload ended abnormally: {error}")))
    }
}

/// Sources below this size are not attributed to an owner: output of `init`, examples of the
/// documents and test handlers are shorter.
const SHORT_SOURCE_BYTES: usize = 1_024;

/// Returns whether a handler is a source that has an owner. Sources that are short or built in are too common for that.
fn has_owner(handler: Option<&HandlerDraft>) -> bool {
    let Some(HandlerDraft::Source { source, .. }) = handler else { return false };
    source.len() >= SHORT_SOURCE_BYTES && !seed_tools::is_handler(source)
}

/// Returns whether uploaded content waits for an admin: because of findings or the policy, or
/// because an admin refused content of this endpoint and has approved none since. Content that is
/// `approved` waits only for findings that no admin has approved.
fn hold_after(open: ScanOutcome, required: bool, review: &Review, approved: bool) -> bool {
    open != ScanOutcome::Pass || ((required || review.refused) && !approved)
}

pub(super) fn hold(endpoint: &mut Endpoint, kind: Option<HoldKind>, now: Timestamp) {
    let since = endpoint.review.hold.as_ref().map_or(now, |hold| hold.since);
    endpoint.review.hold = kind.map(|kind| Hold { kind, since });
}

/// Returns the highest severity of findings that no admin has approved.
pub(super) fn open_outcome(findings: &[Finding], endpoint: &Endpoint) -> ScanOutcome {
    let approved: BTreeSet<_> = endpoint.review.approved.iter().map(String::as_str).collect();
    let open = findings.iter().filter(|finding| !approved.contains(key(finding, endpoint).as_str()));
    ScanOutcome::of(open.map(|finding| finding.severity))
}

/// Records an admin's approval of the findings in `endpoint`.
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

/// Withdraws an admin's approval of the findings in `endpoint`.
pub(super) fn disapprove_findings(endpoint: &mut Endpoint) {
    let Some(safety) = &endpoint.content_safety else { return };
    let keys: Vec<_> = safety.findings.iter().map(|finding| key(finding, endpoint)).collect();
    endpoint.review.approved.retain(|known| !keys.contains(known));
}

/// Returns the key of an approval: rule, field, and the field's content.
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
    use std::{fs, path::Path};

    use tollhouse_protocol::Language;

    use super::*;

    /// Otherwise admins would see a note on every copy of an example.
    #[test]
    fn examples_of_the_documents_have_no_owner() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (mut open, mut examples) = (vec![root.join("docs"), root.join("src/web/guides")], 0);
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
            for (_, source) in blocks.filter(|(_, source)| source.contains("export default")) {
                let handler = HandlerDraft::Source { source: source.to_owned(), language: Language::Ts };
                assert!(!has_owner(Some(&handler)), "{}: an example of {} bytes", path.display(), source.len());
                examples += 1;
            }
        }
        assert!(examples > 5, "{examples} examples");
    }

    #[test]
    fn content_is_held_for_findings_policy_or_an_earlier_rejection() {
        let refused = Review { refused: true, ..Review::default() };
        for (open, required, review, approved, held) in [
            (ScanOutcome::Pass, false, &Review::default(), false, false),
            (ScanOutcome::Review, false, &Review::default(), false, true),
            (ScanOutcome::Block, false, &Review::default(), false, true),
            (ScanOutcome::Pass, true, &Review::default(), false, true),
            (ScanOutcome::Pass, false, &refused, false, true),
            (ScanOutcome::Pass, true, &refused, true, false),
            (ScanOutcome::Review, false, &Review::default(), true, true),
        ] {
            assert_eq!(hold_after(open, required, review, approved), held, "{open:?} {required} {review:?} {approved}");
        }
    }
}
