//! Pages of tools that are active and paid.

use std::sync::Arc;

use tollhouse_catalog::{Entry, Snapshot};

/// Tools on a page of `/openapi.json`. Linters warn about documents with more than 40 operations in all.
pub(super) const TOOLS: usize = 25;
/// Maximum bytes of tools on a page, because schemas can be large. The tool that exceeds it is the last one.
pub(super) const MAX_PAGE_BYTES: usize = 1 << 20;
/// Addresses on a page of `/.well-known/x402`.
pub(super) const ADDRESSES: usize = 200;

/// Iterates over the paid tools after the slug `after`.
pub(super) fn paid<'a>(all: &'a Snapshot, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
    all.after(after).filter(|entry| is_paid(entry))
}

/// Iterates over the paid tools with a tag, after the slug `after`.
pub(super) fn tagged<'a>(all: &'a Snapshot, tag: &str, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
    all.tagged(tag, after).filter(|entry| is_paid(entry))
}

/// Returns whether a tool is active and paid.
pub(super) fn is_paid(entry: &Entry) -> bool {
    entry.is_active() && entry.is_paid()
}
