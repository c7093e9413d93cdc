//! Results of content scans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A match of a rule in an upload. Never contains the matched text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// Severity of the rule.
    pub severity: Severity,
    /// The field of the create request, as a JSON Pointer.
    pub field: String,
    /// Line of the source, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column of the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// For admins, the first two characters and the length of the match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
}

/// The severity of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Severity {
    /// The upload passes.
    Note,
    /// An admin decides.
    Review,
    /// The upload is refused.
    Block,
}

/// The outcome of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ScanOutcome {
    /// The upload passes.
    Pass,
    /// The tool is held until an admin decides.
    Review,
    /// The upload is refused.
    Block,
}

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentSafety {
    /// The outcome.
    pub outcome: ScanOutcome,
    /// Version of the rules.
    pub policy_version: String,
    /// When the builder attested that the content is safe.
    pub attested_at: Option<Timestamp>,
    /// The findings.
    pub findings: Vec<Finding>,
}
