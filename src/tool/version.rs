//! Versions of a handler in the record of a tool.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;

/// A version of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Its hash.
    pub version: String,
    /// When this tool first ran it.
    pub created_at: Timestamp,
    /// Who made it. Absent for versions from before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<VersionMaker>,
    /// The interface that was used. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<ChangedVia>,
    /// A note from its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The maker of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionMaker {
    /// The tool's owner.
    Owner,
    /// An admin.
    Admin,
    /// The host itself, which ships it.
    Host,
}

/// The interface through which a tool is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangedVia {
    /// The API.
    Http,
    /// The web pages.
    Dashboard,
    /// The command line, as stated by itself.
    Cli,
}

impl Version {
    /// Creates a version that first runs now, without further details.
    #[must_use]
    pub fn new(version: String, created_at: Timestamp) -> Self {
        Self { version, created_at, by: None, via: None, note: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_from_before_makers_were_kept_reads() {
        let old = json!({ "version": "sha256:aa", "createdAt": "2026-11-22T00:00:00.000Z" });
        let read: Version = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(read, Version::new("sha256:aa".to_owned(), read.created_at));
        assert_eq!(serde_json::to_value(&read).unwrap(), old);
        let text = Version { by: Some(VersionMaker::Admin), via: Some(ChangedVia::Cli), note: Some("why".to_owned()), ..read };
        let text = serde_json::to_value(&text).unwrap();
        assert_eq!((&text["by"], &text["via"], &text["note"]), (&json!("admin"), &json!("cli"), &json!("why")));
    }
}
