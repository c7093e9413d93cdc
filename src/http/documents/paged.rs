//! Pages of what everyone may call and has to pay for.

use std::sync::Arc;

use tollhouse_catalog::{Entry, Snapshot};

/// Tools of one page of `/openapi.json`: checkers of such documents warn above 40 operations in all.
pub(super) const TOOLS: usize = 25;
/// Bytes of tools after which a page ends, however few they are: schemas may be large.
pub(super) const MAX_PAGE_BYTES: usize = 1 << 20;
/// Addresses of one page of `/.well-known/x402`.
pub(super) const ADDRESSES: usize = 200;

/// The tools behind `after`.
pub(super) fn paid<'a>(all: &'a Snapshot, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
    all.after(after).filter(|entry| is_paid(entry))
}

/// Those that have a tag.
pub(super) fn tagged<'a>(all: &'a Snapshot, tag: &str, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
    all.tagged(tag, after).filter(|entry| is_paid(entry))
}

/// Whether a tool takes calls, for money.
pub(super) fn is_paid(entry: &Entry) -> bool {
    entry.is_active() && entry.is_paid()
}
