//! The audit trail, and events of a builder's tools and money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_base::{
    clock::Timestamp,
    id::{AuditId, BuilderId, EventId, RequestId},
};
use tollhouse_tool::Slug;

use crate::True;

/// A management request in the audit trail.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Id of the entry.
    pub id: AuditId,
    /// When the request arrived.
    pub at: Timestamp,
    /// The party that sent it.
    pub actor: Actor,
    /// Its HTTP method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// The tool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
    /// The builder that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder_id: Option<BuilderId>,
    /// The slug or id of the tool, builder, credit, payout, payment or receipt that it is about. Absent if it is about the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Its id, also in `X-Request-Id`.
    pub request_id: RequestId,
    /// Names of the fields in its body.
    pub fields: Vec<String>,
    /// Its outcome. Absent while it runs, and forever if the host stopped before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AuditOutcome>,
}

/// The sender of a management request.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Actor {
    /// The role of the sender.
    pub kind: ActorKind,
    /// The builder's id, of a builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder_id: Option<BuilderId>,
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
#[schemars(inline)]
pub struct AuditOutcome {
    /// When it ended.
    pub at: Timestamp,
    /// The HTTP status of its response.
    pub status: u16,
    /// The error code, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    pub ok: True,
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<AuditId>,
}

/// An event.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Id of the event.
    pub id: EventId,
    /// Its kind, for example `call.succeeded`.
    pub kind: String,
    /// When it happened.
    pub at: Timestamp,
    /// The tool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_slug: Option<Slug>,
    /// Its data, by kind. Never contains credentials, inputs or results.
    pub data: Value,
}

/// A page of events, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    pub ok: True,
    /// The events.
    pub events: Vec<Event>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
