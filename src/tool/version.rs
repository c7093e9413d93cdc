//! Versions of a handler in the record of a tool.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;

/// A version of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Version {
    /// Its hash.
    pub version: String,
    /// When this tool first ran it.
    pub created_at: Timestamp,
    /// The party that made it.
    pub by: VersionMaker,
    /// The interface that was used. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<ChangedVia>,
    /// A note from its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The party that published a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VersionMaker {
    /// The tool's owner.
    Owner,
    /// An admin.
    Admin,
    /// The host itself, which ships it.
    Host,
}

/// The interface through which a tool is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ChangedVia {
    /// The API.
    Http,
    /// The web pages.
    Dashboard,
    /// The command line, by its own statement.
    Cli,
}

impl Version {
    /// Creates a version that first runs now, without further details.
    pub fn new(version: String, created_at: Timestamp, by: VersionMaker) -> Self {
        Self { version, created_at, by, via: None, note: None }
    }
}
