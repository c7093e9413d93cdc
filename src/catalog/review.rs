//! Admins' decisions about endpoints: the review queue, and each kind of decision.

use std::sync::Arc;

use serde_json::json;
use tollhouse_api::ReviewVerdict;
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_event::Kind;
use tollhouse_protocol::Limits;
use tollhouse_store::{Batch, StoreError};
use tollhouse_tool::{
    Capabilities, DecidedOn, Endpoint, HoldKind, ReviewAction, ReviewRecord, Slug, finding::ScanOutcome, public_texts::MAX_DECISION_REASON,
};

use super::{
    Catalog, ChangedBy, EndpointPage, LiveEndpoint, PublishError,
    commit::{CatalogChange, transitions},
    entitlements::{AccessSet, Entitlements},
    entry::waits,
    limits::checked_limit,
    scan::{approve_findings, disapprove_findings},
};

/// The position of an endpoint in the queue: since when it waits, and its slug.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReviewQueuePosition(Timestamp, Slug);

impl ReviewQueuePosition {
    pub fn of(endpoint: &Endpoint) -> Self {
        Self(endpoint.review.since().unwrap_or(Timestamp(0)), endpoint.slug.clone())
    }

    /// Encodes the position for cursors.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.0.0.to_be_bytes(), self.1.as_str().as_bytes()].concat()
    }

    /// Decodes the output of [`ReviewQueuePosition::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (since, slug) = bytes.split_first_chunk()?;
        Some(Self(Timestamp(u64::from_be_bytes(*since)), std::str::from_utf8(slug).ok()?.parse().ok()?))
    }
}

impl Catalog {
    /// Returns a page of the endpoints with something for an admin to decide, longest wait first,
    /// and their total number.
    #[boxed]
    pub async fn queue(&self, after: Option<&ReviewQueuePosition>, limit: usize) -> Result<(EndpointPage, usize), StoreError> {
        let all = self.all();
        let (waiting, total) = all.waiting(after.map(|ReviewQueuePosition(since, slug)| (*since, slug)));
        Ok((self.page_of(waiting, limit).await?, total))
    }

    /// Carries out an admin's decision. Running calls lose revoked rights at their next op.
    ///
    /// # Errors
    ///
    /// A field is invalid; [`PublishError::NothingToDecide`] if nothing waits for this decision.
    #[boxed]
    pub async fn decide(&self, slug: &str, verdict: &ReviewVerdict, if_match: Option<u64>) -> Result<Arc<LiveEndpoint>, PublishError> {
        check(verdict)?;
        let _one = self.changing.lock().await;
        let before = self.at_revision(slug, if_match).await?;
        let old = &before.live.endpoint;
        let mut endpoint = old.clone();
        let now = self.parts.clock.now();
        let had = Entitlements::of(old);
        let capped = cap(verdict, &mut endpoint)?;
        match verdict.decision {
            ReviewAction::Approve => {
                let given = AccessSet::named(verdict.capabilities, verdict.allowed_hosts.as_ref(), &had.requested)?;
                may_grant(old, &had, &given)?;
                require(decidable(old) || capped || given != had.requested)?;
                self.set_entitlements(&mut endpoint, had.approved(&given));
                endpoint.decided_on = decidable(old).then(|| decided_on(old));
                if decidable(old) {
                    endpoint.approve();
                }
                if endpoint.review.hold.take().is_some() {
                    approve_findings(&mut endpoint);
                    endpoint.review.refused = false;
                    outcome(&mut endpoint, ScanOutcome::Pass);
                }
            }
            ReviewAction::Reject => {
                require(waits(old))?;
                self.set_entitlements(&mut endpoint, had.rejected());
                endpoint.decided_on = Some(decided_on(old));
                if endpoint.review.hold.is_some() && endpoint.has_approved_content() {
                    endpoint.disapprove();
                }
                if let Some(hold) = &mut endpoint.review.hold {
                    hold.kind = HoldKind::ContentBlocked;
                    endpoint.review.refused = true;
                    outcome(&mut endpoint, ScanOutcome::Block);
                }
            }
            ReviewAction::Reopen => {
                let before = endpoint.decided_on.take().ok_or(PublishError::NothingToDecide)?;
                let request = AccessSet { capabilities: before.requested_capabilities, hosts: before.requested_hosts.clone() };
                self.set_entitlements(&mut endpoint, had.reopened(&request));
                reopen(&mut endpoint, before);
                // If everything requested is granted, it stays so. Use `revoke` to undo that.
                require(decidable(&endpoint))?;
            }
            ReviewAction::Revoke => {
                let taken = AccessSet::named(verdict.capabilities, verdict.allowed_hosts.as_ref(), &AccessSet::default())?;
                if taken.is_empty() {
                    return Err(PublishError::field("", "list what to revoke in `capabilities` or `allowedHosts`"));
                }
                self.set_entitlements(&mut endpoint, had.revoked(&taken));
            }
            ReviewAction::Takedown => {
                require(old.review.taken_down.is_none())?;
                endpoint.review.taken_down = Some(now);
            }
            ReviewAction::Restore => {
                require(old.review.taken_down.is_some())?;
                endpoint.review.taken_down = None;
            }
        }
        endpoint.approve_changes(old);
        let reason = verdict.reason.as_deref();
        endpoint.review.last = Some(ReviewRecord {
            decision: verdict.decision,
            by: ChangedBy::Admin.as_str().to_owned(),
            at: now,
            reason: verdict.reason.clone(),
        });
        endpoint.revision += 1;
        endpoint.updated_at = now;
        let mut events = transitions(old, &endpoint, ChangedBy::Admin, reason);
        let limits = (!verdict.limits.is_empty()).then_some(&endpoint.limit_caps);
        events.insert(
            0,
            (Kind::EndpointReviewed, json!({ "decision": verdict.decision, "reason": reason, "limits": limits, "tier": verdict.tier })),
        );
        let bundle = before.live.bundle.clone();
        let live = self.put(CatalogChange { before: Some(&before), endpoint, bundle, rows: Batch::new(), staged: None, events }).await?;
        self.leave_tier(old, &live.endpoint);
        Ok(live)
    }
}

fn require(is_pending: bool) -> Result<(), PublishError> {
    if is_pending { Ok(()) } else { Err(PublishError::NothingToDecide) }
}

fn check(verdict: &ReviewVerdict) -> Result<(), PublishError> {
    let grants = matches!(verdict.decision, ReviewAction::Approve | ReviewAction::Revoke);
    if !grants && verdict.capabilities.is_some() {
        return Err(PublishError::field("/capabilities", "only the decisions `approve` and `revoke` take capabilities"));
    }
    if !grants && verdict.allowed_hosts.is_some() {
        return Err(PublishError::field("/allowedHosts", "only the decisions `approve` and `revoke` take hosts"));
    }
    if verdict.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_DECISION_REASON) {
        return Err(PublishError::field("/reason", format!("a reason must have at most {MAX_DECISION_REASON} characters")));
    }
    Ok(())
}

/// Sets the named limits and tier. Returns false if none is named.
fn cap(verdict: &ReviewVerdict, endpoint: &mut Endpoint) -> Result<bool, PublishError> {
    let ceilings = Limits::ceilings();
    for (name, value) in &verdict.limits {
        if value.is_null() && ceilings.get(name).is_some() {
            endpoint.limit_caps.remove(name);
        } else {
            endpoint.limit_caps.insert(name.clone(), checked_limit(name, value, &ceilings, ", or null")?);
        }
    }
    endpoint.tier_cap = verdict.tier.unwrap_or(endpoint.tier_cap);
    Ok(!verdict.limits.is_empty() || verdict.tier.is_some())
}

/// Returns whether an approval would have an effect, including for content that was refused before.
fn decidable(endpoint: &Endpoint) -> bool {
    endpoint.asks() || endpoint.review.hold.is_some()
}

fn decided_on(endpoint: &Endpoint) -> DecidedOn {
    DecidedOn {
        requested_capabilities: endpoint.requested_capabilities,
        requested_hosts: endpoint.requested_hosts.clone(),
        hold: endpoint.review.hold.clone(),
        refused: endpoint.review.refused,
        outcome: endpoint.content_safety.as_ref().map(|safety| safety.outcome),
        approved_version: endpoint.review.approved_version.clone(),
        approved_fields: endpoint.review.approved_fields.clone(),
    }
}

/// Restores the state of content before a decision. If it was not held then, there was no decision
/// about it.
fn reopen(endpoint: &mut Endpoint, before: DecidedOn) {
    endpoint.reopen_approved(before.approved_version, before.approved_fields);
    if before.hold.is_none() {
        return;
    }
    if endpoint.review.hold.is_none() {
        disapprove_findings(endpoint);
    }
    endpoint.review.hold = before.hold;
    endpoint.review.refused = before.refused;
    if let Some(before) = before.outcome {
        outcome(endpoint, before);
    }
}

/// Checks that granted capabilities were requested, refused before, or withheld. To grant more, an
/// admin can change the endpoint.
fn may_grant(endpoint: &Endpoint, had: &Entitlements, given: &AccessSet) -> Result<(), PublishError> {
    let refused = endpoint.decided_on.as_ref().map_or_else(Capabilities::default, |before| before.requested_capabilities);
    let request = had.requested().capabilities.union(had.withheld.capabilities).union(refused);
    let unasked = given.capabilities.without(request);
    match unasked.names().next() {
        Some(name) => Err(PublishError::field(format!("/capabilities/{name}"), format!("its owner has not requested `{name}`"))),
        None => Ok(()),
    }
}

fn outcome(endpoint: &mut Endpoint, outcome: ScanOutcome) {
    if let Some(safety) = &mut endpoint.content_safety {
        safety.outcome = outcome;
    }
}
