//! The audit trail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, time::Timestamp};

/// A management request in the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Id of the entry.
    pub id: String,
    /// When the request arrived.
    pub at: Timestamp,
    /// Who sent it.
    pub actor: Actor,
    /// Its HTTP method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// Its id, also in `X-Request-Id`.
    pub request_id: String,
    /// Names of the fields in its body.
    pub fields: Vec<String>,
    /// The tool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// The builder that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder_id: Option<String>,
    /// Its outcome. Absent while it runs, and forever if the host stopped before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AuditOutcome>,
}

/// The sender of a management request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Actor {
    /// The role of the sender.
    pub kind: ActorKind,
    /// The builder's id, of a builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder_id: Option<String>,
}

/// The role of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ActorKind {
    /// An admin.
    Admin,
    /// A builder.
    Builder,
}

/// The outcome of a management request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AuditOutcome {
    /// When it ended.
    pub at: Timestamp,
    /// The HTTP status of its response.
    pub status: u64,
    /// The error code, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    /// Always true.
    pub ok: True,
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
