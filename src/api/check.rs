//! Checks of uploads before publishing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    constant::True,
    safety::{Finding, ScanOutcome},
    tool::{Capabilities, Limits},
};

/// The request to check an upload: the body of create, whole or in parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointCheckRequest(pub Map<String, Value>);

/// The result of checking an upload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointCheckResponse {
    /// Always true.
    pub ok: True,
    /// What would happen if the upload were published.
    pub check: EndpointCheck,
}

/// What would happen if an upload were published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EndpointCheck {
    /// Hash of the version.
    pub version: String,
    /// Whether the caller already has a tool with this slug.
    pub existing: bool,
    /// What would be granted.
    pub granted: Grants,
    /// What would be requested and wait for an admin.
    pub requested: Grants,
    /// Whether the upload would wait for an admin.
    pub needs_review: bool,
    /// Outcome of the scan. Null if nothing is scanned.
    pub outcome: Option<ScanOutcome>,
    /// Findings of the scan.
    pub findings: Vec<Finding>,
    /// The limits that would be in force.
    pub limits: Limits,
    /// Warnings, for example about capabilities that the handler uses and does not have.
    pub warnings: Vec<String>,
}

/// Capabilities and hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Grants {
    /// Capabilities.
    pub capabilities: Capabilities,
    /// Hosts for `httpGetJson`.
    pub hosts: Vec<String>,
}
