//! An entry of the audit trail.

use serde::{Deserialize, Serialize};
use tollhouse_api::AuditOutcome;
use tollhouse_base::{
    clock::Timestamp,
    id::{AuditId, BuilderId, RequestId},
};
use tollhouse_store::{Batch, Table, schema};
use tollhouse_tool::Slug;

pub(super) const AUDIT: Table<(Timestamp, AuditId), Entry> = schema::AUDIT.holding();
tollhouse_store::json_values!(Entry);

/// The actor of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Actor {
    Admin,
    /// A builder, identified by their key.
    #[serde(rename_all = "camelCase")]
    Builder {
        builder_id: BuilderId,
    },
}

/// An action, as it is known before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    pub actor: Actor,
    pub method: String,
    /// Path of the request, without the query.
    pub path: String,
    pub slug: Option<Slug>,
    /// The builder that an admin named in the query.
    pub builder_id: Option<BuilderId>,
    /// The slug or id of the item that it is about. Absent if it is about the host.
    pub subject: Option<String>,
    /// The request id, which the response contains too.
    pub request_id: RequestId,
    /// Names of the body's fields.
    pub fields: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its id, which determines its place in the trail.
    pub id: AuditId,
    pub at: Timestamp,
    #[serde(flatten)]
    pub action: Action,
    /// The outcome. Absent while the action runs, and forever if the host ended during it.
    pub outcome: Option<AuditOutcome>,
}

impl Entry {
    /// Creates an entry for an action that succeeded at `at`.
    pub fn done(action: Action, at: Timestamp) -> Self {
        Self { id: AuditId::of_time(at), at, action, outcome: Some(AuditOutcome { at, status: 200, code: None }) }
    }

    #[must_use]
    pub fn stored(&self) -> Batch {
        AUDIT.put(&key(&self.id), self)
    }
}

pub(super) fn key(id: &AuditId) -> (Timestamp, AuditId) {
    (id.made_at(), id.clone())
}
