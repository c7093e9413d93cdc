//! What was found in an endpoint's content, and what admins decided about it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_base::clock::Timestamp;

use crate::finding::{Finding, ScanOutcome};

/// What the scan of an endpoint's content found, and when its builder vouched for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentSafety {
    /// `pass` also when an admin approved what was found.
    pub outcome: ScanOutcome,
    /// The rules that it was scanned by.
    pub policy_version: String,
    /// `None` for uploads of the admin.
    pub attested_at: Option<Timestamp>,
    /// What was found, and where.
    pub findings: Vec<Finding>,
}

impl ContentSafety {
    /// What everyone may see: no finding has its place or its text.
    #[must_use]
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

/// Where an endpoint stands with the admins. Default: nothing is to be decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Review {
    /// Its content is held back until an admin approves it.
    pub hold: Option<Hold>,
    /// An admin refused its content and has approved none since: new content waits, whatever the rules find.
    pub refused: bool,
    /// An admin took it down.
    pub taken_down: Option<Timestamp>,
    /// Since when capabilities or hosts are asked for.
    pub asked_since: Option<Timestamp>,
    /// The last decision.
    pub last: Option<Decided>,
    /// What an admin has approved, each by the hash of rule, field and the field's content; newest last.
    pub approved: Vec<String>,
    /// The version that an admin approved last: its content, or what it asks to touch.
    pub approved_version: Option<String>,
    /// Of what has changed behind that approval, what it was then, by the name of the field: [`super::Endpoint::approved_fields`].
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub approved_fields: Map<String, Value>,
}

impl Review {
    /// Since when something waits.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        self.taken_down.or_else(|| self.hold.as_ref().map(|hold| hold.since)).or(self.asked_since)
    }
}

/// Content that is held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Whether somebody decided already.
    pub kind: HoldKind,
    /// Since when it is held back.
    pub since: Timestamp,
}

/// How content is held back, gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldKind {
    /// Until an admin decides.
    ContentReview,
    /// An admin rejected it, or a later rule blocks it.
    ContentBlocked,
}

impl HoldKind {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContentReview => "content_review",
            Self::ContentBlocked => "content_blocked",
        }
    }
}

/// What an admin can do about an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Grants what was asked, or what is named, and releases the content.
    Approve,
    /// Clears what was asked, and holds the content back for good.
    Reject,
    /// Undoes the last of these two: the content waits again, and of the request what is not granted.
    Reopen,
    /// Takes capabilities or hosts back.
    Revoke,
    /// Pauses and hides it.
    Takedown,
    /// Undoes a takedown.
    Restore,
}

/// A decision, as the owner reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// What was decided.
    pub decision: Decision,
    /// Always `admin`.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
    /// Why, in the admin's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
