//! Public data of a tool beyond its record: recent usage and the builder.

use serde::Serialize;
use serde_json::{Value, json};
use tollhouse_api::{BuilderRef, RecentUsage};
use tollhouse_catalog::ShownEndpoint;
use tollhouse_tool::Owner;

use crate::Services;

/// Fields added to a record that the builder did not publish.
#[derive(Debug, Serialize)]
pub(super) struct ExtraMembers {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<RecentUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) builder: Option<BuilderRef>,
}

impl Services {
    /// Returns the data of a tool. If the builder's name cannot be read, it is left out, because the catalog works
    /// without the store.
    pub(super) async fn extra_members(&self, live: &ShownEndpoint) -> ExtraMembers {
        let figures = self.metrics.figures(&live.endpoint.id);
        let builder = match &live.endpoint.owner {
            Owner::Platform => None,
            Owner::Builder(id) => {
                let name = self.builders.name(id).await.unwrap_or_else(|error| {
                    tracing::warn!(builder.id = %id, %error, "a builder's name could not be read");
                    None
                });
                name.map(|name| BuilderRef { id: id.clone(), name: name.to_string() })
            }
        };
        ExtraMembers { usage: figures.map(|figures| RecentUsage { calls30d: figures.calls, median_ms: figures.median_ms }), builder }
    }

    /// Returns the record with the data added.
    pub(super) async fn with_extras(&self, live: &ShownEndpoint, mut record: Value) -> Value {
        if let (Some(members), Value::Object(reported)) = (record.as_object_mut(), json!(self.extra_members(live).await)) {
            members.extend(reported);
        }
        record
    }
}

impl ExtraMembers {
    /// Appends the fields to the JSON record at the end of `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let body = json!(self).to_string();
        if body.len() > "{}".len() {
            // Overwrite the closing brace.
            out.pop();
            out.push(b',');
            out.extend_from_slice(&body.as_bytes()[1..]);
        }
    }
}
