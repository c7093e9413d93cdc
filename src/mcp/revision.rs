//! Protocol revisions, and the headers that depend on them.

use axum::http::{HeaderMap, header};
use rmcp::model::ProtocolVersion;

/// The supported revisions, oldest first. 2024-11-05 had another transport.
pub(super) const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// The meaning of a closed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Era {
    /// Before 2026-07-28: no meaning.
    Legacy,
    /// The call is canceled.
    Modern,
}

/// Returns the era of a supported revision. Without a header, it is the oldest revision.
pub(super) fn era(headers: &HeaderMap) -> Option<Era> {
    if !headers.contains_key("mcp-protocol-version") {
        return Some(Era::Legacy);
    }
    let request = sole(headers, "mcp-protocol-version")?;
    let known = VERSIONS.iter().any(|version| version.as_str() == request);
    known.then(|| if request == ProtocolVersion::V_2026_07_28.as_str() { Era::Modern } else { Era::Legacy })
}

/// Returns the value of a header that occurs exactly once.
pub(super) fn sole<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Returns whether the content type is `application/json`, the only one that rmcp accepts.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
