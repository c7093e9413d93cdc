//! What a scan of an upload finds, and what becomes of the upload.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How grave a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Told to the builder; the upload passes.
    Note,
    /// An admin decides.
    Review,
    /// Refused.
    Block,
}

/// What becomes of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanOutcome {
    /// Nothing was found that matters.
    Pass,
    /// Stored, and paused until an admin has decided.
    Review,
    /// It is refused.
    Block,
}

impl ScanOutcome {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Review => "review",
            Self::Block => "block",
        }
    }
}

/// Where an upload broke which rule. Never the matched text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// What the rule asks for.
    pub severity: Severity,
    /// JSON Pointer into the body of create, such as `/handler/source`.
    pub field: String,
    /// Line of the source, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Character of that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// For admins: the first two characters and the length of what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
}

impl Finding {
    /// The rule that another builder uploaded the same source first. Admins alone are told: to anybody else it would tell whether a
    /// source that they guess is here.
    pub const SAME_SOURCE: &'static str = "provenance.same-source";

    /// Whether the owner of the upload, and everybody else, may see it.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.rule != Self::SAME_SOURCE
    }

    /// What everyone may see: `{rule, severity, field}`.
    #[must_use]
    pub fn brief(&self) -> Value {
        json!({ "rule": self.rule, "severity": self.severity, "field": self.field })
    }

    /// What the owner of the upload may see: the place too.
    #[must_use]
    pub fn for_owner(&self) -> Value {
        json!(Self { excerpt: None, ..self.clone() })
    }
}
