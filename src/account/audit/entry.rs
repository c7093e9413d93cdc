//! One entry of the trail.

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{AuditId, BuilderId, RequestId},
};
use tollhouse_store::{Batch, Table, schema};
use tollhouse_tool::Slug;

pub(super) const AUDIT: Table<(Timestamp, AuditId), Entry> = schema::AUDIT.holding();
tollhouse_store::json_values!(Entry);

/// Who acted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Actor {
    /// Whoever has the admin token.
    Admin,
    /// A builder, by their key.
    #[serde(rename_all = "camelCase")]
    Builder {
        /// Who it is.
        builder_id: BuilderId,
    },
}

/// An action, as it is known before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Who acts.
    pub actor: Actor,
    /// Method of the request.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// The endpoint that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
    /// The builder whom an admin named in the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder_id: Option<BuilderId>,
    /// The id that its answer has, too.
    pub request_id: RequestId,
    /// Names of the body's members.
    pub fields: Vec<String>,
}

/// How an action ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionOutcome {
    /// When it ended.
    pub at: Timestamp,
    /// HTTP status of its answer.
    pub status: u16,
    /// `code` of the error that refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// One entry of the trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its place in the trail.
    pub id: AuditId,
    /// When it began.
    pub at: Timestamp,
    /// What was done.
    #[serde(flatten)]
    pub action: Action,
    /// Absent while it is under way, and for good when the host ended before it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ActionOutcome>,
}

impl Entry {
    /// An action that ended well at the moment it is told of.
    #[must_use]
    pub fn done(action: Action, at: Timestamp) -> Self {
        Self { id: AuditId::of_time(at), at, action, outcome: Some(ActionOutcome { at, status: 200, code: None }) }
    }

    /// What stores it.
    #[must_use]
    pub fn stored(&self) -> Batch {
        AUDIT.put(&key(&self.id), self)
    }
}

/// Where an entry lies.
pub(super) fn key(id: &AuditId) -> (Timestamp, AuditId) {
    (id.made_at(), id.clone())
}
