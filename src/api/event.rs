//! Events of a builder's tools and money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{constant::True, time::Timestamp};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Id of the event.
    pub id: String,
    /// Its kind, for example `call.succeeded`.
    pub kind: String,
    /// When it happened.
    pub at: Timestamp,
    /// Its data, by kind. Never contains credentials, inputs or results.
    pub data: Value,
    /// The tool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_slug: Option<String>,
}

/// A page of events, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// Always true.
    pub ok: True,
    /// The events.
    pub events: Vec<Event>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
