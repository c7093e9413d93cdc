//! Findings of a content scan, and the resulting outcome for an upload.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The severity of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Severity {
    /// The builder is informed. The upload passes.
    Note,
    /// An admin decides.
    Review,
    /// The upload is refused.
    Block,
}

/// The outcome for an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ScanOutcome {
    /// It passes.
    Pass,
    /// It is stored, and paused until an admin has decided.
    Review,
    /// It is refused.
    Block,
}

impl ScanOutcome {
    /// Returns the outcome of findings with these severities.
    pub fn of(severities: impl Iterator<Item = Severity>) -> Self {
        match severities.max() {
            Some(Severity::Block) => Self::Block,
            Some(Severity::Review) => Self::Review,
            Some(Severity::Note) | None => Self::Pass,
        }
    }

    /// Returns the name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Review => "review",
            Self::Block => "block",
        }
    }
}

/// A violation of a rule and its location. It never contains the matched text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// Severity of the rule.
    pub severity: Severity,
    /// JSON Pointer into the body of the create request, such as `/handler/source`.
    pub field: String,
    /// Line of the source, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Character in that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The first two characters and the length of the match. Only for admins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
}

impl Finding {
    /// The rule that another builder uploaded the same source first. Only admins see it: anyone else could use it to
    /// test whether a guessed source is here.
    pub const SAME_SOURCE: &'static str = "provenance.same-source";

    /// Returns whether others than admins may see it.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.rule != Self::SAME_SOURCE
    }

    /// Returns what everybody may see: `{rule, severity, field}`.
    #[must_use]
    pub fn brief(&self) -> Value {
        json!({ "rule": self.rule, "severity": self.severity, "field": self.field })
    }

    /// Returns what the owner of the upload may see, including the location.
    #[must_use]
    pub fn for_owner(&self) -> Value {
        json!(Self { excerpt: None, ..self.clone() })
    }
}
