//! Content findings of a tool, and admins' decisions about it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_base::clock::Timestamp;

use crate::finding::{Finding, ScanOutcome};

/// The result of a content scan, and when the builder attested the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentSafety {
    /// The outcome. It is `pass` also if an admin approved the findings.
    pub outcome: ScanOutcome,
    /// The version of the rules.
    pub policy_version: String,
    /// When the builder attested the content. `None` for uploads by an admin.
    pub attested_at: Option<Timestamp>,
    /// The places where a rule of the scan matched.
    pub findings: Vec<Finding>,
}

impl ContentSafety {
    /// Returns what everybody may see: findings without location or text.
    pub fn public(&self) -> Value {
        let findings: Vec<_> = self.findings.iter().filter(|finding| finding.is_shown()).map(Finding::brief).collect();
        json!({
            "outcome": self.outcome,
            "policyVersion": self.policy_version,
            "attestedAt": self.attested_at,
            "findings": findings,
        })
    }
}

/// The review state of a tool. By default nothing is pending.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Review {
    /// Set while the content is held until an admin approves it.
    pub hold: Option<Hold>,
    /// Whether an admin rejected the content and has approved none since. New content is then held, whatever the rules
    /// find.
    pub refused: bool,
    /// When an admin took it down.
    pub taken_down: Option<Timestamp>,
    /// When capabilities or hosts were requested that are still pending.
    pub asked_since: Option<Timestamp>,
    pub last: Option<ReviewRecord>,
    /// Findings that an admin approved, each as a hash of rule, field and the field's content. Newest last.
    pub approved: Vec<String>,
    /// The version that an admin last approved, for its content or its requests.
    pub approved_version: Option<String>,
    /// Approved values of fields that have changed since that approval, by name: see
    /// [`super::Endpoint::approved_fields`].
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub approved_fields: Map<String, Value>,
}

impl Review {
    /// Returns since when something is pending.
    pub fn since(&self) -> Option<Timestamp> {
        self.taken_down.or_else(|| self.hold.as_ref().map(|hold| hold.since)).or(self.asked_since)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Whether somebody has decided already.
    pub kind: HoldKind,
    pub since: Timestamp,
}

/// The kind of a hold, the most severe last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HoldKind {
    /// Held until an admin decides.
    ContentReview,
    /// An admin rejected it, or a later rule blocks it.
    ContentBlocked,
}

impl HoldKind {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContentReview => "content_review",
            Self::ContentBlocked => "content_blocked",
        }
    }
}

/// An admin's decision about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ReviewAction {
    /// Grants all or the named requests, and releases the content.
    Approve,
    /// Clears the requests, and holds the content permanently.
    Reject,
    /// Undoes the last approval or rejection: the content is held again, and ungranted requests are pending again.
    Reopen,
    /// Revokes capabilities or hosts.
    Revoke,
    /// Pauses and hides the tool.
    Takedown,
    /// Undoes a takedown.
    Restore,
}

/// A decision, as the owner reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DecisionRecord")]
pub struct ReviewRecord {
    /// The admin's decision.
    pub decision: ReviewAction,
    /// Always `admin`.
    pub by: String,
    /// When it was made.
    pub at: Timestamp,
    /// The admin's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
