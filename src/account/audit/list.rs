//! Lists the audit trail, filtered and paged, newest first.

use std::str::FromStr;

use tollhouse_base::{boxed, clock::Timestamp, id::AuditId};
use tollhouse_store::StoreError;
use tollhouse_tool::Slug;

use super::{
    Audit,
    entry::{AUDIT, Actor, Entry, key},
};

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
        let (entries, next) = AUDIT.newest(&*self.store, range, query.limit, |entry| query.wants(entry)).await?;
        Ok(AuditPage { entries, next: next.map(|(_, id)| id) })
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
