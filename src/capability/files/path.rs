//! Paths of files, in the one spelling that they are stored under.

use tollhouse_protocol::OpFailure;

use crate::failure::invalid_argument;

/// Longest path, in bytes.
const PATH_BYTES: usize = 512;
/// Longest part of a path between slashes, in bytes.
pub(super) const SEGMENT_BYTES: usize = 255;

/// The one spelling of a path: parts between single slashes, none of them `.` or `..`.
pub(super) fn normalize(path: &str) -> Result<String, OpFailure> {
    let refused = |why: &str| Err(invalid_argument(format!("file path {why}")));
    if path.is_empty() || path.len() > PATH_BYTES {
        return refused(&format!("is {} bytes, it must be 1 to {PATH_BYTES}", path.len()));
    }
    if path.starts_with('/') || path.ends_with('/') {
        return refused("is relative and names a file: no `/` at either end");
    }
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return refused("has no control characters and no `\\`");
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return refused("does not lead outside: no `..`"),
            part if part.len() > SEGMENT_BYTES => return refused(&format!("has a part of {} bytes, limit {SEGMENT_BYTES}", part.len())),
            part => parts.push(part),
        }
    }
    if parts.is_empty() { refused("names no file") } else { Ok(parts.join("/")) }
}
