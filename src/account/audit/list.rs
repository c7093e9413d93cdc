//! Lists the audit trail, filtered and paged, newest first.

use std::str::FromStr;

use tollhouse_base::{boxed, clock::Timestamp, id::AuditId};
use tollhouse_store::{Direction, StoreError};
use tollhouse_tool::Slug;

use super::{
    Audit,
    entry::{AUDIT, Actor, Entry, key},
};

/// Number of entries read at once.
const SCAN: usize = 250;
/// Maximum number of entries that one request examines, matching or not.
const SCAN_LIMIT: usize = 5_000;

/// A query for entries.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only entries of this actor. Default: of everybody.
    pub by: Option<Actor>,
    pub slug: Option<Slug>,
    /// Maximum number of entries in the answer.
    pub limit: usize,
    /// The cursor from the previous page.
    pub before: Option<AuditId>,
}

/// A page of entries, newest first.
#[derive(Debug, Clone, Default)]
pub struct AuditPage {
    pub entries: Vec<Entry>,
    /// The cursor for the next page, if there may be more.
    pub next: Option<AuditId>,
}

impl Audit {
    /// Returns the entries that match `query`.
    #[boxed]
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let oldest = self.oldest().max(query.since.unwrap_or(Timestamp(0)));
        let mut range = AUDIT.all().from(&oldest);
        if let Some(before) = &query.before {
            range = range.before(&key(before));
        }
        let (mut page, mut seen) = (AuditPage::default(), 0);
        while !range.is_empty() {
            let rows = AUDIT.readable(&*self.store, &range, SCAN, Direction::Backward).await?;
            let last = rows.len() < SCAN;
            for (key, entry) in rows {
                seen += 1;
                range = range.before(&key);
                let Some(entry) = entry else { continue };
                let id = entry.id.clone();
                if query.wants(&entry) {
                    page.entries.push(entry);
                }
                if page.entries.len() >= query.limit || seen >= SCAN_LIMIT {
                    page.next = Some(id);
                    return Ok(page);
                }
            }
            if last {
                break;
            }
        }
        Ok(page)
    }
}

impl AuditQuery {
    fn wants(&self, entry: &Entry) -> bool {
        self.by.as_ref().is_none_or(|by| *by == entry.action.actor)
            && self.slug.as_ref().is_none_or(|slug| entry.action.slug.as_ref() == Some(slug))
    }
}

/// Parses `admin`, or the id of a builder.
impl FromStr for Actor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "admin" => Ok(Self::Admin),
            id => id.parse().map(|builder_id| Self::Builder { builder_id }).map_err(|_| "`actor` must be `admin` or the id of a builder"),
        }
    }
}
