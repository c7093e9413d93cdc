//! File paths in their normal form, under which they are stored.

use tollhouse_protocol::OpFailure;

use crate::failure::invalid_argument;

/// Maximum length of a path, in bytes.
const PATH_BYTES: usize = 512;
/// Maximum length of a path segment, in bytes.
pub(super) const SEGMENT_BYTES: usize = 255;

/// Normalizes a path to segments between single slashes. Empty segments and `.` are dropped; a path with `..` is
/// refused.
pub(super) fn normalize(path: &str) -> Result<String, OpFailure> {
    let refused = |reason: &str| Err(invalid_argument(format!("the file path {reason}")));
    if path.is_empty() || path.len() > PATH_BYTES {
        return refused(&format!("has {} bytes, but must have 1 to {PATH_BYTES}", path.len()));
    }
    if path.starts_with('/') || path.ends_with('/') {
        return refused("must not begin or end with `/`");
    }
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return refused("must not contain control characters or `\\`");
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return refused("must not contain `..`"),
            part if part.len() > SEGMENT_BYTES => {
                return refused(&format!("has a part of {} bytes, and the maximum is {SEGMENT_BYTES}", part.len()));
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() { refused("must name a file") } else { Ok(parts.join("/")) }
}
